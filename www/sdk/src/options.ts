/**
 * Options are checked before a worker starts or a byte is fetched: an unknown name is an error that names it, never
 * ignored. Ranges are the engine's to judge; here it is names and types.
 */
import { RivuletError } from "./errors.js";
import type { AdapterUse } from "./types.js";

type Check = (value: unknown) => boolean;
type Table = Record<string, readonly [expected: string, check: Check]>;

const finite: Check = (v) => typeof v === "number" && Number.isFinite(v);
const count: Check = (v) => Number.isSafeInteger(v) && (v as number) >= 0;
const isString: Check = (v) => typeof v === "string";
const isBoolean: Check = (v) => typeof v === "boolean";
const isFunction: Check = (v) => typeof v === "function";
const isObject: Check = (v) => typeof v === "object" && v !== null && !Array.isArray(v);

const A_NUMBER = ["a finite number", finite] as const;
const A_COUNT = ["a whole number that is not negative", count] as const;
const A_STRING = ["a string", isString] as const;
const A_BOOLEAN = ["true or false", isBoolean] as const;
const A_FUNCTION = ["a function", isFunction] as const;
const AN_OBJECT = ["an object", isObject] as const;
const AN_ADDRESS = ["a string or a URL", (v: unknown) => isString(v) || v instanceof URL] as const;
const A_SIGNAL = [
  "an AbortSignal",
  (v: unknown) => isObject(v) && typeof (v as AbortSignal).aborted === "boolean" && "addEventListener" in (v as object),
] as const;
const STRINGS = ["an array of strings", (v: unknown) => Array.isArray(v) && v.every(isString)] as const;
const ONE_OF = (...names: string[]) => [names.map((n) => `"${n}"`).join(" or "), (v: unknown) => names.includes(v as string)] as const;

const ADAPTERS = [
  "an array of objects { source, scale } (scale a number, 1 by default) without other keys",
  (v: unknown) =>
    Array.isArray(v) &&
    v.every(
      (use: unknown) =>
        isObject(use) &&
        Object.keys(use as object).every((name) => name === "source" || name === "scale") &&
        (use as AdapterUse).source !== undefined &&
        ((use as AdapterUse).scale === undefined || finite((use as AdapterUse).scale)),
    ),
] as const;

const QUANTIZE = ONE_OF("q8_0", "q4_0", "none");

const SOURCE = {
  signal: A_SIGNAL,
  headers: AN_OBJECT,
  credentials: ONE_OF("omit", "same-origin", "include"),
  worker: A_BOOLEAN,
  workerUrl: AN_ADDRESS,
  wasmUrl: AN_ADDRESS,
} satisfies Table;

const LOAD = {
  ...SOURCE,
  contextLength: A_COUNT,
  kvType: ONE_OF("f32", "f16"),
  precision: ONE_OF("exact", "fast"),
  quantize: QUANTIZE,
  tier: A_STRING,
  autotune: A_BOOLEAN,
  template: A_STRING,
  adapters: ADAPTERS,
  onProgress: A_FUNCTION,
} satisfies Table;

/** The options that each call knows. */
export const KNOWN = {
  inspectModel: { ...SOURCE, quantize: QUANTIZE },
  loadModel: LOAD,
  benchmark: {
    ...LOAD,
    contexts: ["an array of whole numbers that are not negative", (v: unknown) => Array.isArray(v) && v.every(count)],
    promptTokens: A_COUNT,
    maxTokens: A_COUNT,
    runs: A_COUNT,
    warmLoad: A_BOOLEAN,
  },
  checkSupport: { contextLength: A_COUNT, kvType: ONE_OF("f32", "f16") },
  generate: {
    maxTokens: A_COUNT,
    temperature: A_NUMBER,
    topK: A_COUNT,
    topP: A_NUMBER,
    minP: A_NUMBER,
    typicalP: A_NUMBER,
    repetitionPenalty: A_NUMBER,
    frequencyPenalty: A_NUMBER,
    presencePenalty: A_NUMBER,
    penaltyWindow: A_COUNT,
    order: STRINGS,
    logitBias: ["an object or a Map from token id to number", isObject],
    seed: A_COUNT,
    stop: [
      "a string or an array of strings",
      (v: unknown) => isString(v) || (Array.isArray(v) && v.every(isString)),
    ],
    ignoreEos: A_BOOLEAN,
    parseSpecial: A_BOOLEAN,
    tools: ["an array", Array.isArray],
    templateVars: AN_OBJECT,
    adapters: ADAPTERS,
    signal: A_SIGNAL,
    onToken: A_FUNCTION,
  },
  embed: { pooling: ONE_OF("mean", "cls", "last"), normalize: A_BOOLEAN, dimensions: A_COUNT, signal: A_SIGNAL },
  tokenize: { addBos: A_BOOLEAN, parseSpecial: A_BOOLEAN },
  detokenize: { skipSpecial: A_BOOLEAN },
  applyChatTemplate: {
    tools: ["an array", Array.isArray],
    vars: AN_OBJECT,
    addGenerationPrompt: A_BOOLEAN,
  },
} satisfies Record<string, Table>;

/** What an option's value looks like in a message. */
function found(value: unknown): string {
  if (value === null) return "null";
  if (typeof value === "string") return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  if (typeof value === "object") return Array.isArray(value) ? "an array" : "an object";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return `a value of type ${typeof value}`;
}

/**
 * Throws `bad-option` where `options` holds a name that `call` does not know, or a value of another type.
 * `undefined` counts as absent.
 */
export function checkOptions(call: keyof typeof KNOWN, options: unknown): void {
  if (options === undefined) return;
  if (!isObject(options)) {
    throw new RivuletError("bad-option", `${call}: expected an object of options, found ${found(options)}`);
  }
  const known: Table = KNOWN[call];
  for (const [name, value] of Object.entries(options as object)) {
    const entry = Object.hasOwn(known, name) ? known[name] : undefined;
    if (!entry) {
      const names = Object.keys(known).join(", ");
      throw new RivuletError("bad-option", `${call}: unknown option "${name}"; the options are ${names}`);
    }
    if (value !== undefined && !entry[1](value)) {
      throw new RivuletError("bad-option", `${call}: option ${name}: expected ${entry[0]}, found ${found(value)}`);
    }
  }
}

/** The options that cross into the engine: those not in `local`, and none that are undefined. */
export function without(options: object | undefined, ...local: string[]): Record<string, unknown> {
  const rest: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(options ?? {})) {
    if (value !== undefined && !local.includes(name)) rest[name] = value;
  }
  return rest;
}
