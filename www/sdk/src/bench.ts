/**
 * Measuring: how fast a model runs on this device, and how near that is to what its memory gives. An entry of its own
 * (`rivulet/bench`), so that pages which only run models do not carry it.
 */
import { Channel } from "./channel.js";
import { RivuletError, toRivuletError } from "./errors.js";
import { href } from "./model.js";
import { checkOptions, without } from "./options.js";
import { guarded } from "./run.js";
import { describeSource } from "./source.js";
import type { KvType, LoadOptions, LoadPhases, ModelSource, Progress, Tuning } from "./types.js";

export { RivuletError } from "./errors.js";
export type { LoadPhases, ModelSource, Progress, Tuning } from "./types.js";

/** A model by name, whose weights are noise made on the device: nothing is downloaded. */
export interface SyntheticModel {
  /** `llama-3.2-1b`, `qwen3-0.6b`, `qwen3-4b` or `llama-3.1-8b`, then `:q4_k`, `:q4_0`, `:q8_0` or `:f16`. */
  synthetic: string;
}

/** Options of {@link benchmark}: those of a load, and what to measure. */
export interface BenchmarkOptions extends LoadOptions {
  /** Tokens before the prompt, one measurement each; 0, 512, 2048 and 8192 by default. Those beyond the context are left out. */
  contexts?: readonly number[];
  /** Tokens of a prompt; 512 by default, on a CPU adapter 128. */
  promptTokens?: number;
  /** Tokens to decode after each context; 128 by default, on a CPU adapter 32. */
  maxTokens?: number;
  /** Runs, of which medians are reported; 3 by default. */
  runs?: number;
  /**
   * Loads the model once more at the end, in a fresh worker: `warmLoadMs`. The file then comes from the browser's HTTP
   * cache where that keeps it, and compiled shaders from its own.
   */
  warmLoad?: boolean;
  /** Phases: `bandwidth`, those of a load, and `measure`, which counts runs. */
  onProgress?: (progress: Progress) => void;
}

/** Rates, and what a token costs. */
export interface Measured {
  /** Prompt tokens a second. */
  prefillTps: number;
  /** Milliseconds from the call to the first token, after a prompt of `promptTokens`. */
  ttftMs: number;
  /** Milliseconds of the longest submit of a prompt, among those whose size measured times chose. */
  longestSubmitMs?: number;
  /** Decoded tokens a second. */
  decodeTps: number;
  /** Bytes that a decoded token reads: every weight once, and the keys and values before it. */
  bytesPerToken: number;
  /** What decoding reads in a second, in 10⁹ bytes. */
  bandwidthGBps: number;
  /** That as a share of `measuredBandwidthGBps`. */
  share: number;
  dispatchesPerToken: number;
  submitsPerToken: number;
  readbacksPerToken: number;
  /** Writes of the CPU into buffers. */
  writesPerToken: number;
  /** GPU objects created while tokens are made. */
  objectsCreatedPerToken: number;
}

/** One context length. */
export interface MeasuredContext extends Measured {
  /** Tokens before the prompt, and before the first decoded token. They count as computed; the cache holds whatever lay there. */
  context: number;
  /** Decoded tokens a second in each run. */
  decodeTpsRuns: number[];
}

/** What was measured, as the companion's `bench --json` says it, too. The figures beside `contexts` are those of its first entry. */
export interface BenchReport extends Measured {
  kind: "rivulet-bench";
  /** Rivulet's version. */
  version: string;
  adapter: string;
  backend: string;
  tier: string;
  model: string;
  quantization: string;
  architecture: string;
  layers: number;
  parameters: number;
  kvType: KvType;
  contextLength: number;
  promptTokens: number;
  maxTokens: number;
  runs: number;
  /** Milliseconds of the first load of the model, from the header on. */
  loadMs: number;
  /** What the first one took them for. */
  loadPhases?: LoadPhases;
  /** How its kernels are tuned, and whether that was measured. */
  tuning?: Tuning;
  /** Milliseconds of the second one. */
  warmLoadMs?: number;
  weightBytesPerToken: number;
  /** What a kernel that only reads gets from the device's memory in a second, in 10⁹ bytes. */
  measuredBandwidthGBps: number;
  contexts: MeasuredContext[];
  /** Those that did not fit. */
  skippedContexts: number[];
  pipelines: number;
  /** Bytes of all GPU buffers of the model. */
  peakGpuBytes: number;
  /** The WebAssembly's memory at its largest. Only in a page. */
  peakWasmBytes?: number;
  /** The browser's own name for itself. Only in a page. */
  userAgent?: string;
}

const LOCAL = ["signal", "headers", "credentials", "worker", "workerUrl", "wasmUrl", "onProgress", "warmLoad"];
const MEASURE = ["contexts", "promptTokens", "maxTokens", "runs"];

/**
 * Loads a model, measures it, and frees it.
 *
 * @throws {@link RivuletError}: as `loadModel`; `context-overflow` where no context fits; `aborted`.
 */
export async function benchmark(model: ModelSource | SyntheticModel, options: BenchmarkOptions = {}): Promise<BenchReport> {
  checkOptions("benchmark", options);
  const { signal } = options;
  const aborted = (): RivuletError => new RivuletError("aborted", "measuring was aborted by the caller");
  if (signal?.aborted) throw aborted();
  const synthetic = nameOf(model);
  const source = synthetic === undefined ? await describeSource(model as ModelSource, options, options.onProgress) : undefined;
  const failed = new AbortController();
  let thrown: { error: unknown } | undefined;
  const onProgress = guarded(options.onProgress, (error) => {
    thrown ??= { error };
    failed.abort();
  });
  const stop = signal ? AbortSignal.any([signal, failed.signal]) : failed.signal;
  const once = async (measure: Record<string, unknown>): Promise<BenchReport> => {
    const channel = new Channel(options);
    try {
      return await channel.call<BenchReport>(
        {
          type: "bench",
          ...(source ? { source } : { synthetic: synthetic ?? "" }),
          load: without(options, ...LOCAL, ...MEASURE),
          bench: measure,
          ...href(options.wasmUrl),
        },
        { signal: stop, onProgress },
      );
    } catch (error) {
      throw thrown ? thrown.error : toRivuletError(error);
    } finally {
      void channel.close(new RivuletError("disposed", "the measurement is over"));
    }
  };
  const measure = Object.fromEntries(Object.entries(without(options)).filter(([name]) => MEASURE.includes(name)));
  const report = await once(measure);
  const userAgent = (globalThis.navigator as Navigator | undefined)?.userAgent;
  if (userAgent !== undefined) report.userAgent = userAgent;
  if (options.warmLoad) report.warmLoadMs = (await once({ contexts: [0], promptTokens: 1, maxTokens: 2, runs: 1 })).loadMs;
  return report;
}

/** The name of a synthetic model, or undefined for a source. */
function nameOf(model: ModelSource | SyntheticModel): string | undefined {
  if (typeof model !== "object" || model === null || !("synthetic" in model)) return undefined;
  if (typeof model.synthetic !== "string") throw new RivuletError("bad-option", "benchmark: option synthetic: expected a string");
  return model.synthetic;
}
