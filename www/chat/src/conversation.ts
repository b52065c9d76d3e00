// The conversation: the messages so far, one answer at a time, stopping, making an answer again.

import type { Generated, Message, Model, Prompt } from "rivulet";

import { announce, Speaker } from "./announce";
import { el } from "./dom";
import { codeOf, explain, type PlainError, type Remedy } from "./errors";
import { firstThatFits } from "./fit";
import { duration, rate } from "./format";
import type { Follow } from "./scroll";
import type { Settings } from "./settings";
import { AnswerView, questionElement } from "./turns";

interface Turn {
  question: string;
  questionRoot: HTMLElement;
  answer: AnswerView;
  /** What the model said so far, as it goes back to the model. */
  text: string;
}

export interface Surroundings {
  log: HTMLElement;
  follow: Follow;
  settings: Settings;
  /** The loaded model; loads it first where need be. */
  model: () => Promise<Model>;
  /** Called when a model failed in a way that makes it unusable. */
  broken: (model: Model, error: unknown) => void;
  /** Called whenever an answer begins or ends, and when the conversation is emptied. */
  changed: () => void;
  /** A button for a failure's remedy. */
  remedy: (remedy: Remedy, retry: () => void) => HTMLButtonElement | null;
}

// After these the model behind the page answers nothing more.
const FATAL = new Set(["device-lost", "disposed", "internal", "out-of-memory"]);

export class Conversation {
  private turns: Turn[] = [];
  /** The first turn that the model is sent, and the line above it, once the conversation has outgrown the context. */
  private first = 0;
  private reader: Model | null = null;
  private readonly line = el("p", { class: "forgotten" }, "What stands above no longer fits into the model’s context: it cannot recall it.");
  private running: { abort: AbortController; done: Promise<void> } | null = null;

  constructor(private readonly here: Surroundings) {}

  get busy(): boolean {
    return this.running !== null;
  }

  get empty(): boolean {
    return this.turns.length === 0;
  }

  /** Puts a question and streams the answer. Does nothing while another answer is under way. */
  async ask(question: string): Promise<void> {
    if (this.busy) return;
    const questionRoot = questionElement(question);
    const turn: Turn = { question, questionRoot, answer: this.view(() => turn), text: "" };
    this.turns.push(turn);
    this.here.log.append(questionRoot, turn.answer.root);
    this.markLast();
    this.here.follow.toBottom();
    await this.answer(turn);
  }

  /** Makes the last answer again. */
  async regenerate(): Promise<void> {
    const turn = this.turns.at(-1);
    if (this.busy || !turn) return;
    const fresh = this.view(() => turn);
    turn.answer.root.replaceWith(fresh.root);
    turn.answer = fresh;
    turn.text = "";
    this.markLast();
    this.here.follow.toBottom();
    await this.answer(turn);
  }

  /** Stops the answer under way; what there is stays. Resolves when the model is free again. */
  async stop(): Promise<void> {
    this.running?.abort.abort();
    await this.running?.done;
  }

  /** Empties the conversation. */
  async clear(): Promise<void> {
    await this.stop();
    this.turns = [];
    this.first = 0;
    this.here.log.replaceChildren();
    this.here.changed();
    this.here.follow.toTop();
  }

  private view(turn: () => Turn): AnswerView {
    return new AnswerView(() => this.here.follow.keep(), {
      copy: (button) => void copyText(turn().text, button),
      regenerate: () => void this.regenerate(),
    });
  }

  private markLast(): void {
    for (const turn of this.turns) turn.answer.setLast(turn === this.turns.at(-1));
  }

  private messages(upTo: Turn, first: number): Message[] {
    const messages: Message[] = [];
    const system = this.here.settings.system.trim();
    if (system) messages.push({ role: "system", content: system });
    for (const turn of this.turns.slice(first)) {
      // A turn without an answer (it failed, or was stopped at once) would put two user messages in a row, which
      // many chat templates refuse.
      if (turn !== upTo && turn.text === "") continue;
      messages.push({ role: "user", content: turn.question });
      if (turn === upTo) break;
      messages.push({ role: "assistant", content: turn.text });
    }
    return messages;
  }

  /** The conversation for a model without a chat template: text that it writes on from. */
  private text(upTo: Turn, first: number): string {
    const turns = this.turns.slice(first, this.turns.indexOf(upTo) + 1);
    return turns.map((turn) => (turn === upTo ? turn.question : turn.question + turn.text)).join("\n\n");
  }

  /** What to send for an answer to `turn`; older turns are left out where the context is too short. */
  private async fitting(turn: Turn, model: Model): Promise<Prompt> {
    if (model !== this.reader) {
      // Another model may have a longer context.
      this.reader = model;
      this.first = 0;
      this.line.remove();
    }
    const prompt = (first: number): Message[] | string => (chats(model) ? this.messages(turn, first) : this.text(turn, first));
    const count = (first: number): Promise<number> => model.countTokens(prompt(first));
    const first = await firstThatFits(count, this.first, this.turns.indexOf(turn), model.info.loadedContextLength, this.here.settings.maxTokens);
    if (first !== this.first) this.turns[first]?.questionRoot.before(this.line);
    this.first = first;
    return prompt(first);
  }

  private answer(turn: Turn): Promise<void> {
    const abort = new AbortController();
    const done = this.stream(turn, abort.signal).finally(() => {
      this.running = null;
      this.here.changed();
    });
    this.running = { abort, done };
    this.here.changed();
    return done;
  }

  /** Never rejects: whatever goes wrong is shown in the turn. */
  private async stream(turn: Turn, signal: AbortSignal): Promise<void> {
    const { settings } = this.here;
    const view = turn.answer;
    let model: Model | null = null;
    const speaker = new Speaker();
    try {
      view.waiting("Waiting for the model to load…");
      model = await orAborted(this.here.model(), signal);
      view.waiting("Reading…");
      let tokens = 0;
      let firstAt = 0;
      const run = model.generate(await this.fitting(turn, model), {
        maxTokens: settings.maxTokens,
        temperature: settings.temperature,
        topP: settings.topP,
        topK: settings.topK,
        signal,
        onToken: (token) => {
          tokens += 1;
          turn.text += token.text;
          const now = performance.now();
          if (tokens === 1) firstAt = now;
          else if (now - firstAt > 500) view.setFigures(`${rate((1000 * (tokens - 1)) / (now - firstAt))} tokens/s`);
          view.stream(turn.text);
          speaker.offer(turn.text);
        },
      });
      const result = await run.done;
      view.setFigures(figures(result));
      const base = chats(model) ? "" : "This model has no chat template: it wrote on from your text.";
      view.finish(turn.text, [endNote(result, settings), base].filter(Boolean).join(" "));
      if (result.finishReason === "aborted") announce("Stopped");
      else speaker.finish(turn.text);
    } catch (error) {
      if (codeOf(error) === "aborted") {
        view.finish(turn.text, "Stopped.");
        announce("Stopped");
        return;
      }
      const words: PlainError = explain(error);
      view.fail(turn.text, words, this.here.remedy(words.remedy, () => void this.regenerate()));
      if (model && FATAL.has(words.code)) this.here.broken(model, error);
    }
  }
}

/** Whether the model can answer messages. */
function chats(model: Model): boolean {
  return Boolean(model.info.chatTemplate && !model.info.templateError);
}

function figures(result: Generated): string {
  const { usage, timings } = result;
  if (usage.completionTokens === 0) return "";
  const parts = [`${duration(timings.ttftMs)} to the first token`, `${usage.completionTokens} ${usage.completionTokens === 1 ? "token" : "tokens"}`];
  if (usage.completionTokens > 1 && timings.decodeTps > 0) parts.unshift(`${rate(timings.decodeTps)} tokens/s`);
  return parts.join(" · ");
}

function endNote(result: Generated, settings: Settings): string {
  if (result.finishReason === "aborted") return "Stopped.";
  if (result.finishReason !== "length") return "";
  return result.usage.completionTokens >= settings.maxTokens
    ? `Cut after ${settings.maxTokens} tokens, the longest answer that the settings allow.`
    : "Cut here: the conversation fills the model’s context. Start a new chat to go on.";
}

/** `promise`, or a rejection as soon as `signal` aborts; the work behind `promise` goes on. */
function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(new DOMException("stopped", "AbortError"));
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject);
  });
}

/** Puts text on the clipboard and says so. */
export async function copyText(text: string, button?: HTMLElement): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied");
    if (button) flash(button, "Copied");
  } catch {
    announce("The browser did not allow copying");
    if (button) flash(button, "Not allowed");
  }
}

function flash(button: HTMLElement, word: string): void {
  const before = button.dataset.label ?? button.textContent ?? "";
  button.dataset.label = before;
  button.textContent = word;
  setTimeout(() => (button.textContent = before), 1500);
}
