// What every runtime is measured with, so that all of them are measured alike: the time of the call, and of each token as the
// page gets it. A prompt's rate is its tokens over the time to the first token; decode counts the tokens after the first.
export class Stopwatch {
  began = performance.now();
  /** Milliseconds from the call to each token. @type {number[]} */
  stamps = [];

  token() {
    this.stamps.push(performance.now() - this.began);
  }

  /** @param {{ promptTokens: number, text: string, tokens?: number }} of `tokens` where one stamp is not always one token */
  result({ promptTokens, text, tokens = this.stamps.length }) {
    const ttftMs = this.stamps[0];
    const decodeMs = this.stamps.at(-1) - ttftMs;
    return {
      promptTokens,
      tokens,
      text,
      ttftMs,
      prefillTps: (promptTokens / ttftMs) * 1000,
      decodeTps: tokens > 1 && decodeMs > 0 ? ((tokens - 1) / decodeMs) * 1000 : null,
    };
  }
}

/** The adapter that this page is given, or null. */
export async function adapter() {
  const found = await navigator.gpu?.requestAdapter();
  if (!found) return null;
  const { vendor, architecture, device, description } = found.info;
  return {
    name: [vendor, architecture, description || device].filter(Boolean).join(" "),
    f16: found.features.has("shader-f16"),
    subgroups: found.features.has("subgroups"),
  };
}

/** Counts what this page submits to a GPU, from now on: a runtime that should be there and submits nothing runs on the CPU. */
export function countSubmits() {
  const count = { submits: 0 };
  if (!globalThis.GPUQueue) return count;
  const { submit } = GPUQueue.prototype;
  GPUQueue.prototype.submit = function (...buffers) {
    count.submits++;
    return submit.apply(this, buffers);
  };
  return count;
}
