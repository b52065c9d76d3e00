// The strip above the message box: what state the model is in, how far loading is, and the one thing to press.

import { announce } from "./announce";
import { byId } from "./dom";
import type { State } from "./engine";
import { explain } from "./errors";
import { adapterName, bytes, wait } from "./format";

/** Phases as people understand them; a phase that is not here is shown by its own name. */
const PHASES: Record<string, string> = {
  download: "Downloading",
  header: "Reading the file’s header",
  tokenizer: "Building the tokenizer",
  weights: "Copying the weights to the GPU",
  kernels: "Preparing the GPU’s programs",
  tuning: "Fitting them to this GPU",
};
/** Phases whose count is of bytes that move. */
const BYTE_PHASES = new Set(["download", "weights"]);

export class Status {
  private readonly root = byId("status");
  private readonly text = byId("status-text");
  private readonly detail = byId("status-detail");
  private readonly action = byId("status-action", HTMLButtonElement);
  private readonly bar = byId("bar", HTMLProgressElement);
  private onAction: () => void = () => {};
  private last = "";

  constructor(private readonly actions: { load: () => void; cancel: () => void }) {
    this.action.addEventListener("click", () => this.onAction());
  }

  /** Shows the engine's state. */
  show(state: State, answering: boolean): void {
    this.root.dataset.phase = state.phase;
    this.root.toggleAttribute("data-answering", answering);
    delete this.root.dataset.step;
    delete this.root.dataset.code;
    switch (state.phase) {
      case "idle":
        this.write("No model loaded", state.choice.name, "Load", this.actions.load);
        break;
      case "loading":
        this.loading(state);
        break;
      case "ready": {
        const { device } = state.model.info;
        const where = [adapterName(device.adapter), device.tier, bytes(device.memoryBytes)].filter(Boolean).join(" · ");
        this.write(answering ? "Answering" : "Ready", `${state.choice.name} on ${where}`);
        break;
      }
      case "error": {
        const words = explain(state.error);
        this.root.dataset.code = words.code;
        this.write(words.title, "", "Try again", this.actions.load);
        break;
      }
    }
    this.bar.hidden = state.phase !== "loading";
    if (state.phase !== this.last) this.speak(state);
    this.last = state.phase;
  }

  /** For a browser in which nothing can be loaded. */
  unsupported(title: string): void {
    this.root.dataset.phase = "unsupported";
    this.write(title, "");
  }

  private loading(state: Extract<State, { phase: "loading" }>): void {
    const { progress } = state;
    if (!progress) {
      this.bar.removeAttribute("value");
      this.write("Opening", state.choice.name, "Cancel", this.actions.cancel);
      return;
    }
    const { phase, loaded, total, bytesPerSecond } = progress;
    this.root.dataset.step = phase;
    // A phase that says nothing of its progress shows that something moves, not how far.
    if (total > 0 && loaded > 0) this.bar.value = Math.min(1, loaded / total);
    else this.bar.removeAttribute("value");
    const parts: string[] = [];
    if (BYTE_PHASES.has(phase) && loaded > 0) {
      parts.push(total > 0 ? `${bytes(loaded)} of ${bytes(total)}` : bytes(loaded));
      if (bytesPerSecond > 0) {
        parts.push(`${bytes(bytesPerSecond)}/s`);
        if (total > loaded) parts.push(`${wait((total - loaded) / bytesPerSecond)} left`);
      }
    } else if (phase === "kernels" && total > 1) parts.push(`${loaded} of ${total}`);
    this.write(PHASES[phase] ?? phase, parts.join(" · "), "Cancel", this.actions.cancel);
  }

  private write(text: string, detail: string, action = "", onAction: () => void = () => {}): void {
    this.text.textContent = text;
    this.detail.textContent = detail;
    this.detail.title = detail;
    if (this.action.textContent !== action) this.action.textContent = action;
    this.action.hidden = !action;
    this.onAction = onAction;
  }

  private speak(state: State): void {
    if (state.phase === "loading") announce(`Loading ${state.choice.name}`);
    else if (state.phase === "ready") announce(`${state.choice.name} is ready`);
    else if (state.phase === "error") announce(explain(state.error).title);
  }
}
