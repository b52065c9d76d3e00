// What happens in a frame: the shortcut asks for a completion, Tab accepts it, Esc, typing, clicking and leaving dismiss it.

import { complete } from "./client";
import { type Caret, caretOf, completable, type Field, focusedElement, insertText, rememberSecret } from "./field";
import { Ghost } from "./ghost";
import { pressed, type Shortcut } from "./shortcut";
import { codeOf, wordsFor } from "./words";

/** How long a message stays that says why nothing comes. */
const NOTE_MS = 6000;

interface Offer {
  field: Field;
  caret: Caret;
  text: string;
  abort: AbortController;
  /** The stream has ended. */
  whole: boolean;
}

export class Completer {
  private readonly ghost = new Ghost();
  private offer: Offer | null = null;
  private noteTimer: ReturnType<typeof setTimeout> | undefined;
  private frame = 0;
  private inserting = false;
  shortcut: Shortcut | null = null;

  /** Listens in this document. */
  start(): void {
    // On the window and in the capture phase: before the page's own handlers, which may take Tab for themselves.
    addEventListener("keydown", (event) => this.key(event), true);
    addEventListener("focusin", (event) => {
      const target = event.composedPath()[0];
      if (target instanceof Element) rememberSecret(target);
    }, true);
    for (const type of ["focusout", "pointerdown"]) addEventListener(type, () => this.dismiss(), true);
    addEventListener("input", () => {
      if (!this.inserting) this.dismiss();
    }, true);
    document.addEventListener("selectionchange", () => this.caretMoved(), true);
    for (const type of ["scroll", "resize"]) addEventListener(type, () => this.redraw(), { capture: true, passive: true });
    addEventListener("pagehide", () => this.dismiss());
  }

  /** The shortcut was pressed: asks for a completion where the caret is. Does nothing outside text fields. */
  trigger(): void {
    if (!document.hasFocus()) return;
    const field = completable(focusedElement());
    if (field === "none") return;
    this.dismiss();
    if (field === "secret") {
      const element = focusedElement();
      if (element) this.note(element, null, "Rivulet leaves fields for secrets alone.");
      return;
    }
    const caret = caretOf(field);
    if (!caret) return this.note(field, null, "Select nothing: Rivulet writes on at the caret.");
    if (caret.before.trim() === "") return this.note(field, caret, "Write a few words first: Rivulet writes on from there.");
    void this.ask(field, caret);
  }

  private async ask(field: Field, caret: Caret): Promise<void> {
    const offer: Offer = { field, caret, text: "", abort: new AbortController(), whole: false };
    this.offer = offer;
    const mine = (): boolean => this.offer === offer;
    this.ghost.words(field, caret, "…");
    try {
      await complete(
        { before: caret.before, singleLine: field instanceof HTMLInputElement },
        {
          note: (note) => {
            if (!mine() || offer.text) return;
            if (note) this.ghost.note(field, caret, note);
            else this.ghost.words(field, caret, "…");
          },
          text: (text) => {
            if (!mine()) return;
            offer.text += text;
            this.ghost.words(field, caret, offer.text);
          },
        },
        offer.abort.signal,
      );
      if (!mine()) return;
      offer.whole = true;
      if (offer.text) this.ghost.say(`Suggestion: ${offer.text}. Tab accepts, Escape dismisses.`);
      else this.end("The model has nothing to add here.");
    } catch (error) {
      if (!mine()) return;
      const code = codeOf(error);
      if (code === "aborted") this.dismiss();
      // What has come can still be accepted.
      else if (!offer.text) this.end(wordsFor(code), true);
    }
  }

  private end(words: string, error = false): void {
    const { offer } = this;
    this.offer = null;
    if (offer) this.note(offer.field, offer.caret, words, error);
  }

  private note(field: HTMLElement, caret: Caret | null, words: string, error = false): void {
    this.ghost.note(field, caret, words, error);
    this.ghost.say(words);
    clearTimeout(this.noteTimer);
    this.noteTimer = setTimeout(() => {
      if (!this.offer) this.ghost.hide();
    }, NOTE_MS);
  }

  private key(event: KeyboardEvent): void {
    if (event.isComposing || !event.isTrusted) return;
    if (this.shortcut && pressed(event, this.shortcut)) {
      if (completable(focusedElement()) === "none") return;
      take(event);
      this.trigger();
      return;
    }
    const plain = !event.ctrlKey && !event.altKey && !event.metaKey && !event.shiftKey;
    if (this.offer && plain && event.key === "Tab" && this.offer.text) {
      take(event);
      this.accept(this.offer);
    } else if (this.offer && event.key === "Escape") {
      take(event);
      this.dismiss();
    } else if (!["Control", "Shift", "Alt", "Meta"].includes(event.key)) {
      this.dismiss();
    }
  }

  private accept(offer: Offer): void {
    this.dismiss();
    this.inserting = true;
    try {
      insertText(offer.field, offer.text);
    } finally {
      this.inserting = false;
    }
  }

  private caretMoved(): void {
    const { offer } = this;
    if (offer && !this.inserting && caretOf(offer.field)?.mark !== offer.caret.mark) this.dismiss();
  }

  private redraw(): void {
    if (!this.offer?.text || this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const { offer } = this;
      if (offer?.text) this.ghost.words(offer.field, offer.caret, offer.text);
    });
  }

  private dismiss(): void {
    clearTimeout(this.noteTimer);
    this.offer?.abort.abort();
    this.offer = null;
    this.ghost.hide();
  }
}

/** The page must not see a key that was meant for the completion. */
function take(event: KeyboardEvent): void {
  event.preventDefault();
  event.stopImmediatePropagation();
}
