// Failures in one or two plain sentences: they are shown in a bubble beside a text field. Keyed on RivuletError.code,
// and on a few codes of the extension's own.

const UNANSWERED = "Rivulet’s model did not answer. Try again; if that does not help, restart the browser.";

const WORDS: Record<string, string> = {
  "no-model": "Rivulet has no model yet. Click its button in the toolbar to choose one.",
  "model-missing": "The chosen model is no longer stored. Click Rivulet’s button in the toolbar to choose one again.",
  unanswered: UNANSWERED,
  gone: UNANSWERED,
  updated: "Rivulet was updated. Reload this page to go on.",
  "webgpu-unavailable": "This browser offers no WebGPU here. Turn on graphics acceleration in the browser’s settings (System) and restart it.",
  "device-lost": "The GPU went away for a moment. Try again.",
  "out-of-memory": "The model does not fit into this device’s memory. Close other programs, or choose a smaller model.",
  "unsupported-architecture": "Rivulet does not know this kind of model. Choose a Llama-like model or Gemma 3.",
  "unsupported-quant": "Rivulet cannot read this file’s weight format. Choose a Q4_0, Q4_1, Q4_K, Q5_K, Q6_K or Q8_0 file.",
  "unsupported-tokenizer": "Rivulet does not know how this model splits text. Choose another model.",
  "bad-file": "The chosen file is not a whole GGUF file. Choose it again, or download it anew.",
  network: "The model could not be downloaded. Check the connection and the address.",
  integrity: "The downloaded model is damaged. Try again.",
  quota: "There is not enough disk space for the model.",
  "context-overflow": "The text is longer than the model can read.",
  "self-test-failed": "This GPU gives wrong results. Update the browser and the graphics driver.",
  internal: "Something in Rivulet broke. Try again.",
};

/** An error with one of the codes above. */
export class ExtensionError extends Error {
  constructor(
    readonly code: string,
    message = "",
  ) {
    super(message);
  }
}

export function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && (Object.hasOwn(WORDS, code) || code === "aborted" || code === "disposed") ? code : "internal";
}

/** Plain words for a code; the unknown count as "internal". */
export function wordsFor(code: string): string {
  return WORDS[code] ?? WORDS.internal ?? "";
}
