/** A loaded model as pages use it: checks, a queue of runs, and the channel to the host behind it. */
import { Channel } from "./channel.js";
import { RivuletError, toRivuletError } from "./errors.js";
import { checkOptions, without } from "./options.js";
import { RunState, emptyAborted, guarded } from "./run.js";
import { describeSource } from "./source.js";
import type {
  AdapterUse,
  DetokenizeOptions,
  EmbedOptions,
  GenerateOptions,
  Generated,
  InspectOptions,
  LoadOptions,
  LoadedModelInfo,
  Message,
  Model,
  ModelInfo,
  ModelSource,
  Prompt,
  Run,
  TemplateOptions,
  TokenizeOptions,
} from "./types.js";

function aborted(what: string): RivuletError {
  return new RivuletError("aborted", `${what} was aborted by the caller`);
}

/** The address of the wasm as it crosses into a worker. */
export function href(url: string | URL | undefined): { wasmUrl?: string } {
  return url === undefined ? {} : { wasmUrl: new URL(url, globalThis.location?.href).href };
}

/**
 * Loads a GGUF model onto the GPU.
 *
 * @throws {@link RivuletError}: `webgpu-unavailable`, `out-of-memory`, `unsupported-architecture`, `unsupported-quant`,
 * `unsupported-tokenizer`, `bad-file`, `network`, `integrity`, `bad-option`, `aborted`, `self-test-failed`.
 */
export async function loadModel(source: ModelSource, options: LoadOptions = {}): Promise<Model> {
  checkOptions("loadModel", options);
  const { signal } = options;
  if (signal?.aborted) throw aborted("loading");
  const description = await describeSource(source, options, options.onProgress);
  if (signal?.aborted) throw aborted("loading");
  const channel = new Channel(options);
  const failed = new AbortController();
  let thrown: { error: unknown } | undefined;
  const onProgress = guarded(options.onProgress, (error) => {
    thrown ??= { error };
    failed.abort();
  });
  try {
    const info = await channel.call<LoadedModelInfo>(
      {
        type: "load",
        source: description,
        options: without(options, "signal", "headers", "credentials", "worker", "workerUrl", "wasmUrl", "onProgress", "adapters"),
        ...href(options.wasmUrl),
      },
      { signal: signal ? AbortSignal.any([signal, failed.signal]) : failed.signal, onProgress },
    );
    const model = new LoadedModel(channel, info, options);
    await model.prepare(signal);
    return model;
  } catch (error) {
    const reason = toRivuletError(error);
    void channel.close(reason);
    throw thrown ? thrown.error : reason;
  }
}

/** Reads a model's header only: some megabytes at most, whatever the size of the file. */
export async function inspectModel(source: ModelSource, options: InspectOptions = {}): Promise<ModelInfo> {
  checkOptions("inspectModel", options);
  const { signal } = options;
  if (signal?.aborted) throw aborted("inspecting");
  const description = await describeSource(source, options);
  const channel = new Channel(options);
  try {
    return await channel.call<ModelInfo>({ type: "inspect", source: description, ...(options.quantize && { quantize: options.quantize }), ...href(options.wasmUrl) }, { signal });
  } finally {
    void channel.close(new RivuletError("disposed", "the inspection is over"));
  }
}

/** A prompt as it crosses: ids as Uint32Array. */
function checkPrompt(prompt: Prompt): string | Uint32Array | object[] {
  if (typeof prompt === "string" || prompt instanceof Uint32Array) return prompt;
  if (Array.isArray(prompt)) {
    if (prompt.length === 0) throw new RivuletError("bad-option", "prompt: expected text, token ids or messages, found an empty array");
    if (prompt.every((item) => typeof item === "number")) return checkIds(prompt);
    if (prompt.every((item) => typeof item === "object" && item !== null)) return checkMessages(prompt as Message[]);
  }
  throw new RivuletError("bad-option", "prompt: expected a string, an array of token ids, or an array of messages {role, content}");
}

function checkIds(ids: Uint32Array | readonly number[]): Uint32Array {
  if (ids instanceof Uint32Array) return ids;
  if (!Array.isArray(ids)) throw new RivuletError("bad-option", "token ids: expected an array or a Uint32Array");
  ids.forEach((id: unknown, index) => {
    if (typeof id !== "number" || !Number.isInteger(id) || id < 0 || id > 0xffff_ffff) {
      throw new RivuletError("bad-option", `token ids: expected a token id at ${index}, found ${String(id)}`);
    }
  });
  return Uint32Array.from(ids as number[]);
}

function checkMessages(messages: readonly Message[]): object[] {
  if (!Array.isArray(messages)) throw new RivuletError("bad-option", "messages: expected an array of {role, content}");
  messages.forEach((message: unknown, index) => {
    if (typeof message !== "object" || message === null || typeof (message as Message).role !== "string") {
      throw new RivuletError("bad-option", `messages: expected {role, content} at ${index}`);
    }
  });
  return messages as object[];
}

function checkText(text: unknown): asserts text is string {
  if (typeof text !== "string") throw new RivuletError("bad-option", `text: expected a string, found ${typeof text}`);
}

class LoadedModel implements Model {
  readonly info: LoadedModelInfo;
  readonly lost: Promise<RivuletError>;
  readonly #channel: Channel;
  /** Runs that wait for their turn, and the one that has it. */
  readonly #queue: { run: RunState; start: () => Promise<void> }[] = [];
  #running = false;
  #disposing: Promise<void> | undefined;

  /** The engine's numbers of the adapters that it has, by what they came from. */
  readonly #adapters = new Map<unknown, number>();
  readonly #loadedWith: LoadOptions;

  constructor(channel: Channel, info: LoadedModelInfo, options: LoadOptions) {
    this.#channel = channel;
    this.#loadedWith = options;
    this.info = info;
    this.lost = channel.lost;
  }

  /** Fetches the adapters that the model was loaded with. */
  async prepare(signal: AbortSignal | undefined): Promise<void> {
    await this.#chosen(this.#loadedWith.adapters, signal);
  }

  /** Adapters as the engine knows them; those that it does not know yet are fetched. */
  async #chosen(adapters: readonly AdapterUse[] = [], signal: AbortSignal | undefined): Promise<{ id: number; scale: number }[]> {
    const chosen: { id: number; scale: number }[] = [];
    for (const { source, scale = 1 } of adapters) {
      const key = source instanceof URL ? source.href : source;
      let id = this.#adapters.get(key);
      if (id === undefined) {
        const { headers, credentials } = this.#loadedWith;
        const description = await describeSource(source, { headers, credentials, signal });
        id = await this.#channel.call<number>({ type: "adapter", source: description }, { signal });
        this.#adapters.set(key, id);
      }
      chosen.push({ id, scale });
    }
    return chosen;
  }

  generate(prompt: Prompt, options: GenerateOptions = {}): Run {
    const stop = new AbortController();
    const run = new RunState(() => this.#stop(run, stop));
    try {
      if (this.#disposing) throw disposed();
      checkOptions("generate", options);
      const wirePrompt = checkPrompt(prompt);
      const wireOptions = without(options, "signal", "onToken", "adapters");
      if (options.logitBias instanceof Map) wireOptions["logitBias"] = [...options.logitBias];
      const { signal } = options;
      if (signal?.aborted) {
        run.resolve(emptyAborted());
        return run;
      }
      const onAbort = (): void => run.cancel();
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#queue.push({
        run,
        start: async () => {
          let thrown: { error: unknown } | undefined;
          const onToken = guarded(options.onToken, (error) => {
            thrown ??= { error };
            stop.abort();
          });
          try {
            const adapters = await this.#chosen(options.adapters ?? this.#loadedWith.adapters, stop.signal);
            if (adapters.length > 0) wireOptions["adapters"] = adapters;
            const generated = await this.#channel.call<Generated>(
              { type: "generate", prompt: wirePrompt, options: wireOptions },
              {
                signal: stop.signal,
                onToken: (token) => {
                  if (thrown) return;
                  run.push(token);
                  onToken(token);
                },
              },
            );
            if (thrown) run.reject(thrown.error);
            else run.resolve(generated);
          } catch (error) {
            // Aborted while an adapter came: no failure of the run.
            if (!thrown && stop.signal.aborted && toRivuletError(error).code === "aborted") return run.resolve(emptyAborted());
            run.reject(thrown ? thrown.error : toRivuletError(error));
          }
        },
      });
      void run.finished.then(() => signal?.removeEventListener("abort", onAbort));
      void this.#advance();
    } catch (error) {
      run.reject(toRivuletError(error));
    }
    return run;
  }

  /** Ends a run: one that waits ends at once; one that has its turn ends with what there is. */
  #stop(run: RunState, stop: AbortController): void {
    const waiting = this.#queue.findIndex((entry) => entry.run === run);
    if (waiting >= 0) {
      this.#queue.splice(waiting, 1);
      run.resolve(emptyAborted());
    } else {
      stop.abort();
    }
  }

  async #advance(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    for (let entry = this.#queue.shift(); entry; entry = this.#queue.shift()) await entry.start();
    this.#running = false;
  }

  #checkAlive(): void {
    if (this.#disposing) throw disposed();
  }

  embed(text: string, options?: EmbedOptions): Promise<Float32Array>;
  embed(texts: readonly string[], options?: EmbedOptions): Promise<Float32Array[]>;
  embed(text: string | readonly string[], options?: EmbedOptions): Promise<Float32Array | Float32Array[]>;
  async embed(text: string | readonly string[], options: EmbedOptions = {}): Promise<Float32Array | Float32Array[]> {
    this.#checkAlive();
    checkOptions("embed", options);
    const { signal } = options;
    if (signal?.aborted) throw aborted("embedding");
    const texts: unknown = typeof text === "string" ? [text] : text;
    if (!Array.isArray(texts)) throw new RivuletError("bad-option", `text: expected a string or an array of strings, found ${typeof text}`);
    texts.forEach(checkText);
    const request = { type: "embed", texts: texts as string[], options: without(options, "signal") } as const;
    const vectors = await this.#channel.call<Float32Array[]>(request, { signal });
    return typeof text === "string" ? (vectors[0] as Float32Array) : vectors;
  }

  async tokenize(text: string, options: TokenizeOptions = {}): Promise<Uint32Array> {
    this.#checkAlive();
    checkOptions("tokenize", options);
    checkText(text);
    return this.#channel.call<Uint32Array>({ type: "call", method: "tokenize", args: [text, without(options)] });
  }

  async detokenize(ids: Uint32Array | readonly number[], options: DetokenizeOptions = {}): Promise<string> {
    this.#checkAlive();
    checkOptions("detokenize", options);
    return this.#channel.call<string>({ type: "call", method: "detokenize", args: [checkIds(ids), without(options)] });
  }

  async countTokens(textOrMessages: string | readonly Message[], options: TokenizeOptions = {}): Promise<number> {
    if (typeof textOrMessages === "string") return (await this.tokenize(textOrMessages, options)).length;
    const text = await this.applyChatTemplate(textOrMessages);
    return (await this.tokenize(text, { parseSpecial: true, addBos: false, ...options })).length;
  }

  async applyChatTemplate(messages: readonly Message[], options: TemplateOptions = {}): Promise<string> {
    this.#checkAlive();
    checkOptions("applyChatTemplate", options);
    const args = [checkMessages(messages), without(options)];
    return this.#channel.call<string>({ type: "call", method: "applyChatTemplate", args });
  }

  dispose(): Promise<void> {
    this.#disposing ??= this.#dispose();
    return this.#disposing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  async #dispose(): Promise<void> {
    for (const { run } of this.#queue.splice(0)) run.reject(disposed());
    await this.#channel.close(disposed());
  }
}

function disposed(): RivuletError {
  return new RivuletError("disposed", "the model was disposed of; load it again");
}
