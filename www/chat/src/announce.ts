// What a screen reader hears. The log itself is not live, since every token would be spoken over the last one; instead
// whole sentences are handed over politely, a few seconds apart, and each change of state once.

import { byId, el } from "./dom";

const PAUSE_MS = 3000;

/** Says one short thing about the page's state ("Model loaded", "Stopped"). */
export function announce(text: string): void {
  byId("announce").textContent = text;
}

/** Speaks a growing answer sentence by sentence. One per answer. */
export class Speaker {
  private spoken = 0;
  private last = performance.now();

  constructor(private readonly region: HTMLElement = byId("spoken")) {
    region.replaceChildren();
  }

  /** Offers the whole text so far; speaks what is complete, at most every three seconds. */
  offer(text: string): void {
    const now = performance.now();
    if (now - this.last < PAUSE_MS) return;
    const end = lastSentenceEnd(text);
    if (end <= this.spoken) return;
    this.say(text.slice(this.spoken, end));
    this.spoken = end;
    this.last = now;
  }

  /** Speaks the rest. */
  finish(text: string): void {
    this.say(text.slice(this.spoken));
    this.spoken = text.length;
  }

  private say(text: string): void {
    const words = text.replace(/[`*_#|>]+/g, " ").trim();
    if (words) this.region.append(el("p", {}, words));
  }
}

function lastSentenceEnd(text: string): number {
  let end = 0;
  for (const match of text.matchAll(/[.!?。！？:](?=\s)|\n/g)) end = match.index + match[0].length;
  return end;
}
