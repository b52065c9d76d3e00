/** Whether a model can run here, from its header and the adapter alone: before any weights are downloaded. */
import { checkOptions } from "./options.js";
import type { AdapterSummary, LoadOptions, ModelInfo, Support } from "./types.js";

const MIB = 1024 * 1024;
/** Activations, logits and staging beside weights and KV cache: an upper figure for models of some billion weights. */
const SCRATCH_BYTES = 64 * MIB;
/** What loading takes by default where the model allows more, in tokens. */
export const DEFAULT_CONTEXT = 4096;

/** What the browser tells of its adapter, or null. */
async function findAdapter(): Promise<AdapterSummary | null> {
  const gpu = (globalThis.navigator as Navigator | undefined)?.gpu;
  const adapter = await gpu?.requestAdapter({ powerPreference: "high-performance" }).catch(() => null);
  if (!adapter) return null;
  const { info, limits, features } = adapter;
  return {
    vendor: info.vendor,
    architecture: info.architecture,
    description: info.description,
    fallback: info.isFallbackAdapter,
    f16: features.has("shader-f16"),
    subgroups: features.has("subgroups"),
    maxBufferSize: limits.maxBufferSize,
    maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize,
  };
}

/** GPU memory for weights, KV cache and scratch, in bytes. */
export function estimateMemory(info: ModelInfo, options: Pick<LoadOptions, "contextLength" | "kvType"> = {}): number {
  const context = Math.min(options.contextLength ?? DEFAULT_CONTEXT, info.contextLength || DEFAULT_CONTEXT);
  const perToken = options.kvType === "f32" ? info.kvBytesPerToken : info.kvBytesPerToken / 2;
  return info.weightBytes + context * perToken + SCRATCH_BYTES;
}

/** Why there is no adapter, as far as a page can tell. */
function noAdapter(): string {
  if ("isSecureContext" in globalThis && !globalThis.isSecureContext) return "WebGPU needs a secure page: https, or localhost";
  if (!(globalThis.navigator as Navigator | undefined)?.gpu) {
    return "this browser has no WebGPU: use a current Chrome, Edge, Firefox or Safari";
  }
  return "the browser has WebGPU but found no adapter: its GPU may be blocked or its drivers too old";
}

/**
 * Says whether anything known speaks against loading a model. Without `info` only the browser is checked.
 * A page cannot ask how much memory a GPU has, so `ok` is no promise that an allocation succeeds.
 */
export async function checkSupport(
  info?: ModelInfo,
  options: Pick<LoadOptions, "contextLength" | "kvType"> = {},
): Promise<Support> {
  checkOptions("checkSupport", options);
  const adapter = await findAdapter();
  const reasons = info?.unsupported.map(({ message }) => message) ?? [];
  if (!adapter) reasons.push(noAdapter());
  if (info && options.contextLength !== undefined && options.contextLength > info.contextLength) {
    reasons.push(`the model was made for ${info.contextLength} tokens; ${options.contextLength} were asked for`);
  }
  return { ok: reasons.length === 0, reasons, memoryBytes: info ? estimateMemory(info, options) : 0, adapter };
}
