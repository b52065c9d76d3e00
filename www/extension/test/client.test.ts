import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { complete } from "../src/client";
import { type CompletionEvent, SILENCE_MS } from "../src/protocol";
import { codeOf } from "../src/words";

const request = { before: "The capital of France is", singleLine: false };

/** A port whose other side the test plays. */
class FakePort {
  posted: unknown[] = [];
  closed = false;
  #message: (event: CompletionEvent) => void = () => undefined;
  #disconnect: () => void = () => undefined;
  onMessage = { addListener: (listener: (event: CompletionEvent) => void) => (this.#message = listener) };
  onDisconnect = { addListener: (listener: () => void) => (this.#disconnect = listener) };
  postMessage = (message: unknown): void => void this.posted.push(message);
  disconnect = (): void => void (this.closed = true);
  say(...events: CompletionEvent[]): void {
    for (const event of events) this.#message(event);
  }
  die(): void {
    this.#disconnect();
  }
}

let ports: FakePort[];
let runtime: { id: string | undefined; sendMessage: (message: unknown) => Promise<unknown>; connect: () => FakePort };

function start(signal = new AbortController().signal): { text: () => string; notes: string[]; done: Promise<string> } {
  let text = "";
  const notes: string[] = [];
  const done = complete(request, { note: (note) => notes.push(note), text: (piece) => (text += piece) }, signal).then(
    () => "end",
    (error: unknown) => codeOf(error),
  );
  return { text: () => text, notes, done };
}

/** The port that the client opened last. */
async function port(nth = 0): Promise<FakePort> {
  await vi.advanceTimersByTimeAsync(0);
  const opened = ports[nth];
  if (!opened) throw new Error("no port was opened");
  return opened;
}

beforeEach(() => {
  vi.useFakeTimers();
  ports = [];
  runtime = {
    id: "rivulet",
    sendMessage: () => Promise.resolve({ ok: true }),
    connect: () => {
      const opened = new FakePort();
      ports.push(opened);
      return opened;
    },
  };
  vi.stubGlobal("chrome", { runtime });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("complete", () => {
  it("streams, and closes its port at the end", async () => {
    const { text, notes, done } = start();
    const opened = await port();
    expect(opened.posted).toEqual([request]);
    opened.say({ type: "alive", note: "Loading the model… 10 %" }, { type: "text", text: " Par" }, { type: "text", text: "is" }, { type: "end" });
    expect(await done).toBe("end");
    expect([text(), notes, opened.closed]).toEqual([" Paris", ["Loading the model… 10 %"], true]);
  });

  it("passes the other side's error on", async () => {
    const { done } = start();
    (await port()).say({ type: "error", code: "out-of-memory", words: "" });
    expect(await done).toBe("out-of-memory");
  });

  it("does not wait for ever: silence of the model", async () => {
    const { done } = start();
    const opened = await port();
    await vi.advanceTimersByTimeAsync(SILENCE_MS - 1);
    opened.say({ type: "alive", note: "" });
    await vi.advanceTimersByTimeAsync(SILENCE_MS - 1);
    expect(opened.closed).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(await done).toBe("unanswered");
    expect(opened.closed).toBe(true);
  });

  it("does not wait for ever: silence of the service worker", async () => {
    runtime.sendMessage = () => new Promise(() => undefined);
    const { done } = start();
    await vi.advanceTimersByTimeAsync(SILENCE_MS);
    expect(await done).toBe("unanswered");
  });

  it("asks once more when the offscreen document vanished before the first word", async () => {
    const { text, done } = start();
    (await port()).die();
    (await port(1)).say({ type: "text", text: " Paris" }, { type: "end" });
    expect(await done).toBe("end");
    expect(text()).toBe(" Paris");
  });

  it("says so when it vanishes after the first word, or twice", async () => {
    const late = start();
    const opened = await port();
    opened.say({ type: "text", text: " Par" });
    opened.die();
    expect(await late.done).toBe("gone");
    const twice = start();
    (await port(1)).die();
    (await port(2)).die();
    expect(await twice.done).toBe("gone");
  });

  it("tells an update of the extension from a failure", async () => {
    runtime.id = undefined;
    expect(await start().done).toBe("updated");
  });

  it("closes its port when the reader dismisses", async () => {
    const abort = new AbortController();
    const { done } = start(abort.signal);
    const opened = await port();
    abort.abort();
    expect(await done).toBe("aborted");
    expect(opened.closed).toBe(true);
  });
});
