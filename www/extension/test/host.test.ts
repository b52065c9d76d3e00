import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { Host } from "../src/host";
import { codeOf } from "../src/words";

interface Options {
  maxTokens: number;
  stop: string;
  signal: AbortSignal;
  onToken: (token: { text: string }) => void;
}

/** What stands in for the package: tests say what each generation does. */
const fake = vi.hoisted(() => {
  const generate: (prompt: string, options: Options) => Promise<void> = () => Promise.resolve();
  return { loads: [] as unknown[], disposed: 0, prompts: [] as string[], generate };
});

vi.mock("rivulet", () => ({
  loadModel: (source: unknown) => {
    fake.loads.push(source);
    return Promise.resolve({
      lost: new Promise(() => undefined),
      generate: (prompt: string, options: Options) => {
        fake.prompts.push(prompt);
        return { done: fake.generate(prompt, options) };
      },
      dispose: () => Promise.resolve(void (fake.disposed += 1)),
    });
  },
}));

const failure = (code: string): Error => Object.assign(new Error(code), { code });
const paris = (_prompt: string, { onToken }: Options): Promise<void> => {
  for (const text of [" Par", "is"]) onToken({ text });
  return Promise.resolve();
};
const untilAborted = (_prompt: string, { signal }: Options): Promise<void> => new Promise((resolve) => signal.addEventListener("abort", () => resolve()));

let store: Map<string, string>;
let host: Host;

function ask(before = "The capital of France is", signal = new AbortController().signal): Promise<string> {
  let text = "";
  return host.complete({ before, singleLine: true }, { note: () => undefined, text: (piece) => (text += piece) }, signal).then(
    () => text,
    (error: unknown) => codeOf(error),
  );
}

beforeEach(() => {
  store = new Map([["rivulet.choice", JSON.stringify({ kind: "url", url: "https://example.org/a.gguf", contextLength: 1024 })]]);
  vi.stubGlobal("localStorage", { getItem: (key: string) => store.get(key) ?? null });
  Object.assign(fake, { loads: [], disposed: 0, prompts: [], generate: paris });
  host = new Host();
});

afterEach(async () => {
  await host.unload();
  vi.unstubAllGlobals();
});

describe("Host", () => {
  it("says that there is no model", async () => {
    store.clear();
    expect(await ask()).toBe("no-model");
  });

  it("loads once and answers many", async () => {
    expect([await ask(), await ask()]).toEqual([" Paris", " Paris"]);
    expect(fake.loads).toEqual(["https://example.org/a.gguf"]);
  });

  it("loads the model that was chosen last", async () => {
    await ask();
    store.set("rivulet.choice", JSON.stringify({ kind: "url", url: "https://example.org/b.gguf", contextLength: 512 }));
    await ask();
    expect(fake.loads).toEqual(["https://example.org/a.gguf", "https://example.org/b.gguf"]);
    expect(fake.disposed).toBe(1);
  });

  it("ends a completion when another is asked for", async () => {
    fake.generate = untilAborted;
    const first = ask();
    await vi.waitFor(() => expect(fake.prompts.length).toBe(1));
    fake.generate = paris;
    expect(await ask()).toBe(" Paris");
    expect(await first).toBe("aborted");
  });

  it("loads anew after the GPU was lost, when no word has come", async () => {
    let times = 0;
    fake.generate = (prompt, options) => (times++ === 0 ? Promise.reject(failure("device-lost")) : paris(prompt, options));
    expect(await ask()).toBe(" Paris");
    expect([fake.loads.length, fake.disposed]).toEqual([2, 1]);
  });

  it("does not say a word twice", async () => {
    fake.generate = (_prompt, { onToken }) => {
      onToken({ text: " Par" });
      return Promise.reject(failure("device-lost"));
    };
    expect(await ask()).toBe("device-lost");
    fake.generate = paris;
    expect(await ask()).toBe(" Paris");
  });

  it("reads the end of a text that is too long", async () => {
    fake.generate = (prompt, options) => (prompt.length > 300 ? Promise.reject(failure("context-overflow")) : paris(prompt, options));
    expect(await ask(`${"x".repeat(1000)} The capital of France is`)).toBe(" Paris");
    expect(fake.prompts.at(-1)?.endsWith("The capital of France is")).toBe(true);
  });

  it("lets go of the model when asked to, and loads it again", async () => {
    await ask();
    await host.unload();
    expect(fake.disposed).toBe(1);
    expect(await ask()).toBe(" Paris");
    expect(fake.loads.length).toBe(2);
  });
});
