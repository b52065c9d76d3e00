/** The page's end of the conversation with a host: calls in, promises out. Worker and in-place hosts look the same. */
import { RivuletError, fromWire, toRivuletError } from "./errors.js";
import { Host } from "./host.js";
import type { Reply, Request, Result } from "./protocol.js";
import type { Progress, SourceOptions, Token } from "./types.js";

/** How long a host may take to free what it holds: a step of the GPU may have to end first. */
const DISPOSE_MS = 3000;

/** A request as callers give it: the channel numbers it. */
type Numbered<T> = T extends { id: number } ? Omit<T, "id"> : never;
export type Call = Numbered<Exclude<Request, { type: "abort" | "dispose" }>>;

interface Pending {
  resolve(value: Result): void;
  reject(error: RivuletError): void;
  onProgress: ((progress: Progress) => void) | undefined;
  onToken: ((token: Token) => void) | undefined;
}

/** Callbacks and the signal of one call. An abort is passed on; the host decides what the call then ends with. */
export interface CallHooks {
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: Progress) => void) | undefined;
  onToken?: ((token: Token) => void) | undefined;
}

interface Port {
  post(request: Request): void;
  close(): void;
}

export class Channel {
  readonly #port: Port;
  readonly #pending = new Map<number, Pending>();
  #next = 0;
  #closed: RivuletError | undefined;
  #tellLost: (error: RivuletError) => void = () => undefined;
  /** Resolves with the reason when the host can answer no more. */
  readonly lost = new Promise<RivuletError>((resolve) => (this.#tellLost = resolve));

  constructor(options: Pick<SourceOptions, "worker" | "workerUrl">) {
    this.#port = options.worker === false ? this.#inPlace() : this.#inWorker(options.workerUrl);
  }

  #inPlace(): Port {
    const host = new Host((reply) => this.#receive(reply));
    return { post: (request) => void host.handle(request), close: () => undefined };
  }

  #inWorker(workerUrl: string | URL | undefined): Port {
    let worker: Worker;
    try {
      worker = workerUrl
        ? new Worker(workerUrl, { type: "module", name: "rivulet" })
        : // Written out for bundlers, which find the file by this very expression.
          new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "rivulet" });
    } catch (error) {
      const { message } = toRivuletError(error);
      throw new RivuletError("internal", `starting the worker: ${message}; serve worker.js from the page's own origin, or give workerUrl`);
    }
    let heard = false;
    worker.addEventListener("message", ({ data }: MessageEvent<Reply>) => {
      heard = true;
      this.#receive(data);
    });
    worker.addEventListener("error", (event) => {
      event.preventDefault();
      const what = event.message || "its script could not be loaded";
      const advice = heard ? "please report this" : "serve worker.js beside the package, or give workerUrl";
      this.fail(new RivuletError("internal", `the worker failed: ${what}; ${advice}`));
    });
    worker.addEventListener("messageerror", () => {
      this.fail(new RivuletError("internal", "a message of the worker could not be read"));
    });
    return { post: (request) => worker.postMessage(request), close: () => worker.terminate() };
  }

  /** Sends a call; the promise settles with its result. */
  call<T extends Result>(call: Call, hooks: CallHooks = {}): Promise<T> {
    const { signal } = hooks;
    if (this.#closed) return Promise.reject(this.#closed);
    const id = this.#next++;
    const abort = (): void => this.#port.post({ type: "abort", id });
    return new Promise<T>((resolve, reject) => {
      this.#pending.set(id, {
        resolve: resolve as (value: Result) => void,
        reject,
        onProgress: hooks.onProgress,
        onToken: hooks.onToken,
      });
      try {
        this.#port.post({ ...call, id });
      } catch (error) {
        this.#pending.delete(id);
        const { message } = toRivuletError(error);
        throw new RivuletError("bad-option", `${call.type}: something in the arguments cannot be sent to a worker: ${message}`);
      }
      signal?.addEventListener("abort", abort);
      if (signal?.aborted) abort();
    }).finally(() => signal?.removeEventListener("abort", abort));
  }

  #receive(reply: Reply): void {
    if (reply.type === "dead") {
      this.fail(fromWire(reply.error));
      return;
    }
    const pending = this.#pending.get(reply.id);
    if (!pending) return;
    switch (reply.type) {
      case "progress":
        pending.onProgress?.(reply.progress);
        return;
      case "token":
        pending.onToken?.(reply.token);
        return;
      case "result":
        this.#pending.delete(reply.id);
        pending.resolve(reply.value);
        return;
      case "failure":
        this.#pending.delete(reply.id);
        pending.reject(fromWire(reply.error));
        return;
    }
  }

  /** Every call, pending or later, fails with this. */
  fail(error: RivuletError): void {
    if (this.#closed) return;
    this.#closed = error;
    this.#tellLost(error);
    for (const pending of this.#pending.values()) pending.reject(error);
    this.#pending.clear();
  }

  /**
   * Ends the host: calls that are pending fail with `error` at once, then the host frees what it holds. A host that does
   * not answer in time is ended without its consent; that frees a worker's GPU memory as well.
   */
  async close(error: RivuletError): Promise<void> {
    const answers = !this.#closed;
    this.fail(error);
    const id = this.#next++;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const freed = new Promise<void>((resolve) => {
      this.#pending.set(id, { resolve: () => resolve(), reject: () => resolve(), onProgress: undefined, onToken: undefined });
      timer = setTimeout(resolve, answers ? DISPOSE_MS : 0);
    });
    this.#port.post({ type: "dispose", id });
    await freed;
    clearTimeout(timer);
    this.#port.close();
  }
}
