/**
 * A small engine in place of the WebAssembly: it "generates" the prompt's characters one a step, so that tests can see
 * order, aborts and failures. Prompts that begin with `!` make it misbehave.
 */
import type { ByteSource, ModelFiles } from "../wasm/rivulet.js";

/** What happened, in order: tests read it and clear it. */
export const log: string[] = [];

let panicked: (message: string) => void = () => undefined;

export class AbortFlag {
  aborted = false;
  abort(): void {
    this.aborted = true;
  }
  free(): void {
    log.push("flag freed");
  }
}

function failure(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}

async function opened(files: ModelFiles): Promise<ByteSource> {
  const source = await files.open(files.entry);
  if (!source) throw failure("network", `${files.entry} is missing`);
  return source;
}

const step = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1));

export class Model {
  #busy = false;
  #adapters = 0;

  static async load(
    files: ModelFiles,
    options: { contextLength?: number },
    onProgress: (p: { phase: string; loaded: number; total: number }) => void,
    abort: AbortFlag,
  ): Promise<Model> {
    const source = await opened(files);
    for (let at = 0; at < source.size; at += 1000) {
      if (abort.aborted) throw failure("aborted", "aborted");
      await source.read(at, Math.min(1000, source.size - at));
      onProgress({ phase: "weights", loaded: Math.min(at + 1000, source.size), total: source.size });
      await step();
    }
    log.push(`loaded ${source.size} with ${JSON.stringify(options)}`);
    return new Model();
  }

  info(): unknown {
    const tuning = { key: "fake", source: "default", choices: {}, measured: 0, candidates: 0 };
    return { architecture: "fake", contextLength: 100, device: { adapter: "", tier: "fake", memoryBytes: 0 }, tuning };
  }

  async generate(
    prompt: string | Uint32Array | object[],
    options: { maxTokens?: number; adapters?: unknown[] },
    onToken: (t: { id: number; text: string; logprob: number; index: number }) => void,
    abort: AbortFlag,
  ): Promise<unknown> {
    if (this.#busy) throw failure("internal", "two calls at once");
    this.#busy = true;
    const text = typeof prompt === "string" ? prompt : JSON.stringify(prompt);
    log.push(`begin ${text}${options.adapters ? ` with ${JSON.stringify(options.adapters)}` : ""}`);
    try {
      if (text === "!fail") throw failure("context-overflow", "too long");
      if (text === "!panic") {
        panicked("index out of bounds");
        return await new Promise(() => undefined);
      }
      const tokens: number[] = [];
      let finishReason = "stop";
      let said = "";
      for (const char of text) {
        await step();
        if (abort.aborted) {
          finishReason = "aborted";
          break;
        }
        if (tokens.length === options.maxTokens) {
          finishReason = "length";
          break;
        }
        onToken({ id: char.charCodeAt(0), text: char, logprob: -1, index: tokens.length });
        tokens.push(char.charCodeAt(0));
        said += char;
      }
      log.push(`end ${said}`);
      return { text: said, tokens, finishReason, usage: {}, timings: {} };
    } finally {
      this.#busy = false;
    }
  }

  async loadAdapter(files: ModelFiles): Promise<number> {
    const source = await opened(files);
    const kind = new TextDecoder().decode(await source.read(0, source.size));
    if (kind !== "lora") throw failure("bad-file", "adapter: expected a LoRA adapter");
    log.push("adapter loaded");
    return this.#adapters++;
  }

  async embed(text: string, options: { dimensions?: number }, abort: AbortFlag): Promise<Float32Array> {
    if (this.#busy) throw failure("internal", "two calls at once");
    this.#busy = true;
    await step();
    this.#busy = false;
    if (abort.aborted) throw failure("aborted", "aborted");
    return Float32Array.from([text.length, 1, 2].slice(0, options.dimensions));
  }

  tokenize(text: string): Uint32Array {
    return Uint32Array.from(text, (c) => c.charCodeAt(0));
  }

  detokenize(ids: Uint32Array): string {
    return String.fromCharCode(...ids);
  }

  applyChatTemplate(messages: { role: string; content: string }[]): string {
    return messages.map(({ role, content }) => `<${role}>${content}`).join("");
  }

  dispose(): void {
    log.push("disposed");
  }

  free(): void {
    log.push("model freed");
  }
}

export async function inspect(files: ModelFiles): Promise<unknown> {
  const source = await opened(files);
  const head = await source.read(0, 4);
  if (new TextDecoder().decode(head) !== "GGUF") throw failure("bad-file", "magic: expected GGUF");
  return { architecture: "fake", fileBytes: source.size };
}

export async function benchmark(
  files: ModelFiles | undefined,
  synthetic: string | undefined,
  load: object,
  bench: { contexts?: number[] },
  onProgress: (p: { phase: string; loaded: number; total: number }) => void,
  abort: AbortFlag,
): Promise<unknown> {
  const source = files && (await opened(files));
  log.push(`bench ${synthetic ?? source?.size} with ${JSON.stringify(load)} and ${JSON.stringify(bench)}`);
  for (let loaded = 0; loaded <= 3; loaded++) {
    if (abort.aborted) throw failure("aborted", "aborted");
    onProgress({ phase: "measure", loaded, total: 3 });
    await step();
  }
  return { kind: "rivulet-bench", adapter: "", loadMs: 5, contexts: (bench.contexts ?? [0]).map((context) => ({ context })) };
}

export function onPanic(callback: (message: string) => void): void {
  panicked = callback;
}

export default function init(): Promise<unknown> {
  return Promise.resolve();
}
