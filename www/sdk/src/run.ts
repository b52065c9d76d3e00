/** An answer under way: tokens are kept until they are asked for (never more than maxTokens), and `done` settles once. */
import type { Generated, Run, Token } from "./types.js";

/** A failure that nobody has looked at by then is reported on the console, so that it is not lost. */
const UNSEEN_MS = 2000;

/** The other end of a run: whoever produces its tokens. */
export class RunState implements Run {
  readonly #tokens: Token[] = [];
  readonly #cancel: () => void;
  readonly #done: Promise<Generated>;
  #resolve!: (generated: Generated) => void;
  #reject!: (error: unknown) => void;
  #outcome: { generated: Generated } | { error: unknown } | undefined;
  #seen = false;
  /** Iterators that wait for the next token or the end. */
  #waiting: (() => void)[] = [];

  constructor(cancel: () => void) {
    this.#cancel = cancel;
    this.#done = new Promise<Generated>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // Whoever only iterates sees the failure there; an unhandled rejection beside it would end a Node process.
    this.#done.catch(() => undefined);
  }

  get done(): Promise<Generated> {
    this.#seen = true;
    return this.#done;
  }

  /** Resolves when the run has ended, in whatever way. */
  get finished(): Promise<void> {
    return this.#done.then(
      () => undefined,
      () => undefined,
    );
  }

  get settled(): boolean {
    return this.#outcome !== undefined;
  }

  cancel(): void {
    if (!this.settled) this.#cancel();
  }

  push(token: Token): void {
    if (this.settled) return;
    this.#tokens.push(token);
    this.#wake();
  }

  resolve(generated: Generated): void {
    if (this.settled) return;
    this.#outcome = { generated };
    this.#resolve(generated);
    this.#wake();
  }

  /** `error` is a RivuletError, or what the caller's own onToken threw. */
  reject(error: unknown): void {
    if (this.settled) return;
    this.#outcome = { error };
    this.#reject(error);
    this.#wake();
    setTimeout(() => {
      if (!this.#seen) console.error("rivulet: a run failed that nobody awaits:", error);
    }, UNSEEN_MS);
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) wake();
  }

  [Symbol.asyncIterator](): AsyncIterator<Token, undefined> {
    this.#seen = true;
    let next = 0;
    const end = { done: true, value: undefined } as const;
    return {
      next: async () => {
        for (;;) {
          const value = this.#tokens[next];
          if (value) {
            next++;
            return { done: false, value };
          }
          if (this.#outcome) {
            if ("error" in this.#outcome) throw this.#outcome.error;
            return end;
          }
          await new Promise<void>((resolve) => this.#waiting.push(resolve));
        }
      },
      // `break` out of a loop: the run is cancelled, and the loop goes on once it has ended.
      return: async () => {
        next = Infinity;
        this.cancel();
        await this.finished;
        return end;
      },
    };
  }
}

/** What an aborted run ends with before it had its turn. */
export function emptyAborted(): Generated {
  return {
    text: "",
    tokens: [],
    finishReason: "aborted",
    usage: { promptTokens: 0, completionTokens: 0, cachedTokens: 0 },
    timings: { ttftMs: 0, prefillTps: 0, decodeTps: 0, prefillSubmits: 0 },
  };
}

/** Calls a caller's callback; what it throws is the caller's error, not ours, and is kept as it is. */
export function guarded<T>(callback: ((value: T) => void) | undefined, onThrow: (error: unknown) => void): (value: T) => void {
  return (value) => {
    try {
      callback?.(value);
    } catch (error) {
      onThrow(error);
    }
  };
}

