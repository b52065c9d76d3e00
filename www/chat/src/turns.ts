// One question or answer on the page: its elements and what can be shown in them. It decides nothing.

import { el } from "./dom";
import type { PlainError } from "./errors";
import { MarkdownView } from "./markdown";

/** A message of the reader, as plain text. */
export function questionElement(text: string): HTMLElement {
  return el("article", { class: "turn question" }, el("h2", { class: "hidden" }, "You"), el("div", { class: "said", dir: "auto", "data-role": "user" }, text));
}

export type AnswerState = "waiting" | "streaming" | "done" | "error";

/** An answer of the model: text that grows, a line of figures, buttons, and words for a failure. */
export class AnswerView {
  readonly root: HTMLElement;
  private readonly body: HTMLElement;
  private readonly hint: HTMLElement;
  private readonly figures: HTMLElement;
  private readonly tools: HTMLElement;
  private readonly trouble: HTMLElement;
  private readonly markdown: MarkdownView;
  private frame = 0;
  private pending = "";
  /** Not to be drawn before this time: drawing may take a quarter of the main thread, not all of it. */
  private restUntil = 0;

  /** `drawn` is called after each change of the text's height. */
  constructor(
    private readonly drawn: () => void,
    actions: { copy: (button: HTMLElement) => void; regenerate: () => void },
  ) {
    this.body = el("div", { class: "prose", dir: "auto", "data-role": "assistant", "data-state": "streaming" });
    this.hint = el("p", { class: "hint" });
    this.figures = el("span", { class: "figures" });
    const copy = el("button", { type: "button", class: "quiet small", "data-copy": "answer" }, "Copy");
    const again = el("button", { type: "button", class: "quiet small", "data-action": "regenerate" }, "Regenerate");
    copy.addEventListener("click", () => actions.copy(copy));
    again.addEventListener("click", actions.regenerate);
    this.tools = el("span", { class: "turn-tools" }, copy, again);
    this.trouble = el("div", { class: "trouble", role: "alert", hidden: true });
    this.root = el(
      "article",
      { class: "turn answer" },
      el("h2", { class: "hidden" }, "Rivulet"),
      this.hint,
      this.body,
      this.trouble,
      el("div", { class: "turn-foot" }, this.figures, this.tools),
    );
    this.markdown = new MarkdownView(this.body);
  }

  /** What is going on before the first word. */
  waiting(hint: string): void {
    this.hint.textContent = hint;
    this.hint.hidden = false;
    this.state("waiting");
  }

  /** The text so far; drawn once a frame at most, whatever the speed of the model. */
  stream(text: string): void {
    this.hint.hidden = true;
    this.state("streaming");
    this.pending = text;
    if (!this.frame) this.frame = requestAnimationFrame((now) => this.draw(now));
  }

  private draw(now: number): void {
    if (now < this.restUntil) {
      this.frame = requestAnimationFrame((later) => this.draw(later));
      return;
    }
    this.frame = 0;
    const began = performance.now();
    this.markdown.update(this.pending, true);
    this.drawn();
    const ended = performance.now();
    this.restUntil = ended + 3 * (ended - began);
  }

  /** The whole text; `note` says why it ended early, if it did. */
  finish(text: string, note: string): void {
    this.settle(text);
    this.hint.hidden = !note;
    this.hint.textContent = note;
    if (note) this.body.after(this.hint);
    this.state("done");
    this.drawn();
  }

  /** Whatever text there was, and what went wrong. */
  fail(text: string, error: PlainError, button: HTMLButtonElement | null): void {
    this.settle(text);
    this.hint.hidden = true;
    this.trouble.hidden = false;
    this.trouble.dataset.code = error.code;
    this.trouble.replaceChildren(...troubleWords(error), ...(button ? [button] : []));
    this.state("error");
    this.drawn();
  }

  setFigures(text: string): void {
    this.figures.textContent = text;
  }

  /** Whether this is the last answer: only that one can be made again. */
  setLast(last: boolean): void {
    this.root.toggleAttribute("data-last", last);
  }

  private settle(text: string): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.markdown.update(text, false);
  }

  private state(state: AnswerState): void {
    this.body.dataset.state = state === "waiting" ? "streaming" : state;
    this.root.dataset.state = state;
  }
}

/** A failure as elements: title, advice, and the engine's own words folded away. */
export function troubleWords(error: PlainError): HTMLElement[] {
  const words: HTMLElement[] = [el("p", { class: "trouble-title" }, error.title)];
  if (error.advice) words.push(el("p", {}, error.advice));
  if (error.detail) words.push(el("details", {}, el("summary", {}, "What exactly"), el("p", {}, `${error.detail} (${error.code})`)));
  return words;
}
