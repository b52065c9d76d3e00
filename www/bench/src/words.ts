// Failures in plain words: what happened, and what can be done.

const WORDS: Record<string, [title: string, advice: string]> = {
  "webgpu-unavailable": [
    "This browser offers no WebGPU here",
    "Open this page in a current Chrome, Edge, Firefox or Safari, over https or localhost, or turn on graphics acceleration in the browser’s settings.",
  ],
  "device-lost": ["The GPU went away", "Another program, sleep or a driver restart took it. Measure again."],
  "out-of-memory": ["This does not fit into the device’s memory", "Choose a smaller model, fewer bits a weight, or shorter contexts."],
  "unsupported-architecture": ["Rivulet does not know this kind of model", "It runs Llama-like models, Gemma 3 and Qwen 3."],
  "unsupported-quant": ["Rivulet cannot read this file’s weight format", "Take the same model as Q4_0, Q4_K, Q6_K, Q8_0 or F16."],
  "unsupported-tokenizer": ["Rivulet does not know how this model splits text", "Take another model."],
  "bad-template": ["The model’s chat template could not be read", "Take another conversion of this model."],
  "bad-file": ["This is not a whole GGUF file", "It may be another kind of file, or a download that stopped halfway."],
  network: ["The model could not be downloaded", "Check the address and the connection. The server must let other pages read the file (CORS)."],
  integrity: ["The file changed while it was read", "Measure again."],
  "context-overflow": ["No context length fits", "Name shorter ones, or a shorter prompt."],
  "bad-option": ["A choice is not valid", ""],
};

export interface Trouble {
  code: string;
  title: string;
  advice: string;
  detail: string;
  /** The id of the form's field that it is about, where it is about one. */
  field?: string;
}

/** Where the options are chosen that the engine names at the beginning of what it says about them. */
const FIELDS: Record<string, string> = {
  synthetic: "model",
  contexts: "contexts",
  promptTokens: "promptTokens",
  maxTokens: "maxTokens",
  runs: "runs",
  kvType: "kvType",
  tier: "tier",
};

function fieldOf(error: unknown, code: string, detail: string): string | undefined {
  const named = (error as { field?: unknown } | null)?.field;
  if (typeof named === "string") return named;
  return code === "bad-option" ? FIELDS[/^(\w+): /.exec(detail)?.[1] ?? ""] : undefined;
}

/** Plain words for anything thrown. */
export function explain(error: unknown): Trouble {
  const found = (error as { code?: unknown } | null)?.code;
  const code = typeof found === "string" && Object.hasOwn(WORDS, found) ? found : "internal";
  const [title, advice] = WORDS[code] ?? ["Something in Rivulet broke", "Measure again. If it happens again, please report it with the words below."];
  const detail = error instanceof Error ? error.message : String(error);
  const field = fieldOf(error, code, detail);
  return { code, title, advice, detail, ...(field !== undefined && { field }) };
}

const PHASES: Record<string, string> = {
  bandwidth: "Measuring the memory",
  download: "Downloading",
  header: "Reading the header",
  tokenizer: "Building the tokenizer",
  weights: "Loading the weights",
  kernels: "Compiling the kernels",
  tuning: "Tuning the kernels to this device",
  measure: "Measuring",
};

/** A phase of a measurement, for people. */
export const phaseWords = (phase: string): string => PHASES[phase] ?? phase;
