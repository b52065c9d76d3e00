// The message box: it grows with its text, Enter sends, Shift+Enter starts a line, and Send turns into Stop.

import { byId } from "./dom";

export class Composer {
  private readonly box = byId("prompt", HTMLTextAreaElement);
  private readonly sendButton = byId("send", HTMLButtonElement);
  private readonly stopButton = byId("stop", HTMLButtonElement);
  private busy = false;

  /** `send` gets the trimmed text, and may be called only while no answer is under way. */
  constructor(private readonly actions: { send: (text: string) => void; stop: () => void }) {
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.stopButton.addEventListener("click", () => {
      this.focus();
      actions.stop();
    });
    this.box.addEventListener("input", () => this.fit());
    this.box.addEventListener("keydown", (event) => {
      // While an input method composes, Enter belongs to it; Safari ends the composition first and says so by 229 alone.
      // eslint-disable-next-line @typescript-eslint/no-deprecated
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      this.submit();
    });
    this.fit();
  }

  focus(): void {
    this.box.focus({ preventScroll: true });
  }

  set(text: string): void {
    this.box.value = text;
    this.fit();
    this.focus();
    this.box.setSelectionRange(text.length, text.length);
  }

  /** While busy the text can be written but not sent. */
  setBusy(busy: boolean): void {
    this.busy = busy;
    const lost = document.activeElement === this.stopButton;
    this.sendButton.hidden = busy;
    this.stopButton.hidden = !busy;
    if (lost && !busy) this.focus();
    this.enable();
  }

  disable(placeholder: string): void {
    this.box.disabled = true;
    this.box.placeholder = placeholder;
    this.sendButton.disabled = true;
  }

  private submit(): void {
    const text = this.box.value.trim();
    if (!text || this.busy || this.box.disabled) return;
    const keyboardUp = document.activeElement === this.box;
    this.box.value = "";
    this.fit();
    this.actions.send(text);
    // A press on Send must not leave the focus on a hidden button; on a phone it must not raise the keyboard either.
    if (keyboardUp || matchMedia("(hover: hover)").matches) this.focus();
  }

  private fit(): void {
    this.box.style.height = "auto";
    this.box.style.height = `${this.box.scrollHeight + this.box.offsetHeight - this.box.clientHeight}px`;
    this.enable();
  }

  private enable(): void {
    this.sendButton.disabled = this.box.disabled || this.box.value.trim() === "";
  }
}
