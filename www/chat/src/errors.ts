// Failures in plain words: what happened, and what the reader can do about it. Keyed on RivuletError.code
// (DESIGN.md §4); the engine's own message, which names what was expected and found, is kept as the detail.

/** What the page offers beside the words. */
export type Remedy = "retry-load" | "pick-file" | "new-chat" | "regenerate" | "settings" | "none";

export interface PlainError {
  title: string;
  advice: string;
  detail: string;
  remedy: Remedy;
  code: string;
}

type Words = [title: string, advice: string, remedy: Remedy];

const BROKEN: Words = [
  "Something in Rivulet broke",
  "Load the model again. If it happens again, please report it with the words below.",
  "retry-load",
];

const WORDS: Record<string, Words> = {
  "webgpu-unavailable": [
    "This browser offers no WebGPU here",
    "The model runs on the GPU through WebGPU. Open this page in a current Chrome, Edge, Firefox or Safari, or turn on graphics acceleration in the browser’s settings.",
    "retry-load",
  ],
  "device-lost": [
    "The GPU went away",
    "Another program, sleep or a driver restart took it. Load the model again: your conversation is still here.",
    "retry-load",
  ],
  "out-of-memory": [
    "The model does not fit into this device’s memory",
    "Close other tabs and programs that use the GPU, then try again, or open a smaller model or one with fewer bits a weight (Q4 instead of Q8).",
    "pick-file",
  ],
  "unsupported-architecture": [
    "Rivulet does not know this kind of model",
    "It runs Llama-like models (SmolLM2, Llama 3, …) and Gemma 3. Open a GGUF of one of these.",
    "pick-file",
  ],
  "unsupported-quant": [
    "Rivulet cannot read this file’s weight format",
    "Open the same model as Q4_0, Q4_1, Q4_K, Q5_K, Q6_K, Q8_0, F16 or BF16.",
    "pick-file",
  ],
  "unsupported-tokenizer": [
    "Rivulet does not know how this model splits text",
    "Open another model, or a newer conversion of this one.",
    "pick-file",
  ],
  "bad-template": [
    "The model’s chat template could not be used",
    "Open another conversion of this model; instruction-tuned files carry a chat template.",
    "pick-file",
  ],
  "bad-file": [
    "This is not a whole GGUF file",
    "It may be another kind of file, or a download that stopped halfway. Download it again, or open another file.",
    "pick-file",
  ],
  network: [
    "The model could not be downloaded",
    "Check the connection and the address, then try again: what has arrived is kept. The server must allow other pages to read the file (CORS).",
    "retry-load",
  ],
  integrity: [
    "The downloaded file is damaged",
    "It does not match its check sum. Try again to download it anew.",
    "retry-load",
  ],
  quota: [
    "There is not enough storage left for this page",
    "Free some disk space, or leave the private window, where browsers keep very little. The model can also be opened from a file.",
    "pick-file",
  ],
  "context-overflow": [
    "The conversation is longer than the model can read",
    "Start a new chat, or shorten the message or the system prompt.",
    "new-chat",
  ],
  "bad-option": ["A setting is not valid", "Open the settings and correct it.", "settings"],
  "self-test-failed": [
    "This GPU gives wrong results",
    "The check at load time found it out before it could answer nonsense. Update the browser and the graphics driver, or use another browser.",
    "retry-load",
  ],
  disposed: ["The model is no longer loaded", "Load it again: your conversation is still here.", "retry-load"],
  aborted: ["Stopped", "", "none"],
  internal: BROKEN,
};

/** The code of anything thrown; errors that are not Rivulet's own count as "internal". */
export function codeOf(error: unknown): string {
  if (error instanceof DOMException && error.name === "AbortError") return "aborted";
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && Object.hasOwn(WORDS, code) ? code : "internal";
}

/** Plain words for anything thrown by the package. */
export function explain(error: unknown): PlainError {
  const code = codeOf(error);
  const [title, advice, remedy] = WORDS[code] ?? BROKEN;
  const detail = error instanceof Error ? error.message : String(error);
  return { title, advice, detail, remedy, code };
}
