// The model behind the page: which one is wanted, how far it is loaded, and the one loaded instance. It knows the
// package and no DOM; the page listens through `onChange`.

import { checkSupport, inspectModel, loadModel, type Model, type Progress } from "rivulet";

import { codeOf } from "./errors";

/** Where the wanted model comes from. */
export interface Choice {
  source: string | readonly File[];
  /** For people: a file name. */
  name: string;
  /** Bytes of the files, where known before a download. */
  bytes?: number;
}

export type State =
  | { phase: "idle"; choice: Choice }
  | { phase: "loading"; choice: Choice; progress: Progress | null }
  | { phase: "ready"; choice: Choice; model: Model }
  | { phase: "error"; choice: Choice; error: unknown };

/** Thrown by `load` when the device looks too small; the reader may insist. */
export class DoubtfulFit extends Error {
  readonly code = "out-of-memory";
}

export class Engine {
  state: State;
  onChange: (state: State) => void = () => {};
  private loading: { abort: AbortController; done: Promise<Model> } | null = null;

  constructor(choice: Choice) {
    this.state = { phase: "idle", choice };
  }

  /** The loaded model, loading the wanted one where that has not begun. Rejects as loading does. */
  ready(): Promise<Model> {
    if (this.state.phase === "ready") return Promise.resolve(this.state.model);
    return this.loading?.done ?? this.load(this.state.choice);
  }

  /** Loads `choice` in place of whatever is loaded or loading. `insist` skips the estimate of memory. */
  async load(choice: Choice, insist = false): Promise<Model> {
    const before = this.loading;
    const previous = this.state.phase === "ready" ? this.state.model : null;
    const abort = new AbortController();
    const done = (async () => {
      before?.abort.abort();
      await before?.done.catch(() => {});
      // The old model goes first: two at once may not fit.
      await previous?.dispose();
      return await this.fetch(choice, insist, abort.signal);
    })();
    const mine = { abort, done };
    this.loading = mine;
    this.set({ phase: "loading", choice, progress: null });
    try {
      const model = await done;
      if (this.loading !== mine) {
        await model.dispose();
        throw new DOMException("another model was chosen", "AbortError");
      }
      this.set({ phase: "ready", choice, model });
      void model.lost.then((error) => this.gone(model, error));
      return model;
    } catch (error) {
      if (this.loading === mine) this.set(codeOf(error) === "aborted" ? { phase: "idle", choice } : { phase: "error", choice, error });
      throw error;
    } finally {
      if (this.loading === mine) this.loading = null;
    }
  }

  /** Stops loading; the page goes back to offering the model. */
  cancel(): void {
    this.loading?.abort.abort();
  }

  /** Says that `model` can no longer be used (its device is lost, or it failed inside). */
  gone(model: Model, error: unknown): void {
    if (this.state.phase !== "ready" || this.state.model !== model) return;
    this.set({ phase: "error", choice: this.state.choice, error });
    void model.dispose().catch(() => {});
  }

  private async fetch(choice: Choice, insist: boolean, signal: AbortSignal): Promise<Model> {
    const { source } = choice;
    // A file of the reader's own is asked first what it is. The default is known to be small and supported, and its
    // header is not worth a second download.
    if (typeof source !== "string" && !insist) {
      const info = await inspectModel(source, { signal });
      const reason = info.unsupported[0];
      if (reason) throw Object.assign(new Error(reason.message), { code: reason.code });
      const check = await checkSupport(info);
      if (!check.ok) throw new DoubtfulFit(check.reasons.join(" "));
    }
    return await loadModel(source, {
      signal,
      onProgress: (progress) => {
        if (!signal.aborted) this.set({ phase: "loading", choice, progress });
      },
    });
  }

  private set(state: State): void {
    this.state = state;
    this.onChange(state);
  }
}
