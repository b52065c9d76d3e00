// The model in the offscreen document: loaded when first asked for, kept for as long as it is used, loaded anew after
// the GPU was lost. One completion at a time; a new one ends the one before, since a person types in one place.

import { loadModel, type Model } from "rivulet";

import { type Choice, readChoice, readManner } from "./choice";
import { storedModel } from "./library";
import type { CompletionRequest } from "./protocol";
import { Seam } from "./seam";
import { codeOf, ExtensionError } from "./words";

/** A model that nobody asked for this long gives its memory back. */
const IDLE_MS = 10 * 60_000;
/** After these a fresh model may well answer. */
const WORTH_A_SECOND_TRY = new Set(["device-lost", "disposed", "internal"]);

export interface Listener {
  note: (note: string) => void;
  text: (text: string) => void;
}

export class Host {
  private loaded: { key: string; model: Promise<Model> } | null = null;
  private current: AbortController | null = null;
  private turn: Promise<void> = Promise.resolve();
  private idle: ReturnType<typeof setTimeout> | undefined;
  /** What loading is doing; completions that wait for it repeat it. */
  private loadingNote = "";

  /** Streams a completion to `listener`; resolves at its end, and when `signal` aborts. */
  async complete(request: CompletionRequest, listener: Listener, signal: AbortSignal): Promise<void> {
    this.current?.abort();
    const mine = new AbortController();
    this.current = mine;
    signal.addEventListener("abort", () => mine.abort(), { once: true });
    const before = this.turn;
    const done = (async () => {
      await before;
      if (!mine.signal.aborted) await this.attempt(request, listener, mine.signal);
    })();
    this.turn = done.catch(() => {});
    try {
      await done;
    } finally {
      this.rest();
    }
    // Ended by a later request, not by its own caller, who has to hear of it.
    if (mine.signal.aborted && !signal.aborted) throw new ExtensionError("aborted");
  }

  /** Lets go of the model, because another was chosen or nobody needs it. */
  async unload(): Promise<void> {
    const { loaded } = this;
    this.loaded = null;
    this.current?.abort();
    await this.turn;
    await loaded?.model.then((model) => model.dispose(), () => {});
  }

  private async attempt(request: CompletionRequest, listener: Listener, signal: AbortSignal): Promise<void> {
    let said = false;
    const once: Listener = {
      note: listener.note,
      text: (text) => {
        said = true;
        listener.text(text);
      },
    };
    try {
      await this.generate(request, once, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (WORTH_A_SECOND_TRY.has(codeOf(error))) {
        const { loaded } = this;
        this.loaded = null;
        await loaded?.model.then((model) => model.dispose()).catch(() => {});
        if (!said) return await this.generate(request, once, signal);
      }
      throw error;
    }
  }

  private async generate(request: CompletionRequest, listener: Listener, signal: AbortSignal): Promise<void> {
    const model = await this.model(listener, signal);
    if (signal.aborted) return;
    listener.note("");
    const manner = readManner();
    let { before } = request;
    for (;;) {
      const seam = new Seam(before, listener.text);
      try {
        const run = model.generate(seam.prompt, {
          maxTokens: manner.maxTokens,
          temperature: manner.temperature,
          topP: 0.95,
          stop: request.singleLine ? "\n" : "\n\n",
          signal,
          onToken: (token) => seam.push(token.text),
        });
        await run.done;
        return;
      } catch (error) {
        // Some scripts need a token and more for a character: the end of the text is what counts, so try with half.
        if (codeOf(error) !== "context-overflow" || before.length < 100) throw error;
        before = before.slice(before.length >> 1);
      }
    }
  }

  private async model(listener: Listener, signal: AbortSignal): Promise<Model> {
    const choice = readChoice();
    if (!choice) throw new ExtensionError("no-model");
    const key = JSON.stringify(choice);
    if (this.loaded && this.loaded.key !== key) {
      const old = this.loaded;
      this.loaded = null;
      await old.model.then((model) => model.dispose(), () => {});
    }
    // Loading is not tied to `signal`: the person who presses Escape now will press the shortcut again.
    if (!this.loaded) {
      const entry = { key, model: this.load(choice) };
      this.loaded = entry;
      const drop = (): void => {
        if (this.loaded === entry) this.loaded = null;
      };
      entry.model.then((model) => void model.lost.then(drop), drop);
    }
    const report = setInterval(() => listener.note(this.loadingNote), 250);
    try {
      return await Promise.race([
        this.loaded.model,
        new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(new ExtensionError("aborted")), { once: true })),
      ]);
    } finally {
      clearInterval(report);
    }
  }

  private async load(choice: Choice): Promise<Model> {
    this.loadingNote = "Loading the model…";
    const source = choice.kind === "url" ? choice.url : await storedModel();
    if (!source) throw new ExtensionError("model-missing");
    return await loadModel(source, {
      contextLength: choice.contextLength,
      onProgress: ({ loaded, total }) => {
        const share = total > 0 ? ` ${Math.floor((100 * loaded) / total)} %` : "";
        this.loadingNote = `Loading the model…${share}`;
      },
    });
  }

  private rest(): void {
    clearTimeout(this.idle);
    this.idle = setTimeout(() => void this.unload(), IDLE_MS);
  }
}
