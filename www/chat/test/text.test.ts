import { describe, expect, it } from "vitest";

import { together } from "../src/drop";
import { codeOf, explain } from "../src/errors";
import { firstThatFits } from "../src/fit";
import { adapterName, bytes, duration, isSoftware, parameters, rate, wait } from "../src/format";
import { healTail } from "../src/heal";

describe("together", () => {
  it.each([
    [["a-00002-of-00002.gguf", "a-00001-of-00002.gguf"], "a, 2 files"],
    [["config.json", "tokenizer.json", "model.safetensors"], "safetensors, 3 files"],
    [["a-00001-of-00002.gguf", "b-00002-of-00002.gguf"], null],
    [["one.gguf", "two.gguf"], null],
    [["model.safetensors", "tokenizer.json"], null],
  ])("%j is %j", (names, expected) => {
    expect(together(names.map((name) => ({ name })))).toBe(expected);
  });
});

describe("healTail", () => {
  it.each([
    ["plain text", "plain text"],
    ["an **open", "an **open**"],
    ["an **open ", "an **open**"],
    ["an **", "an "],
    ["an **open*", "an **open**"],
    ["**closed** word", "**closed** word"],
    ["some `code", "some `code`"],
    ["some `", "some "],
    ["**done**\n\nnext `x", "**done**\n\nnext `x`"],
    ["a paragraph\n-", "a paragraph\n"],
    ["a paragraph\n---", "a paragraph\n"],
    ["a paragraph\n==", "a paragraph\n"],
    ["a list:\n1.", "a list:\n"],
    ["| a | b |\n|--", "| a | b |\n"],
    ["```js\nlet a = `x", "```js\nlet a = `x"],
    ["```\n---", "```\n---"],
  ])("%j", (text, healed) => {
    expect(healTail(text)).toBe(healed);
  });
});

describe("format", () => {
  it("gives sizes as downloads do", () => {
    expect([0, 999, 1000, 98_362_432, 1_500_000_000].map(bytes)).toEqual(["0 B", "999 B", "1.0 kB", "98.4 MB", "1.5 GB"]);
  });
  it("names adapters, and tells software from a GPU", () => {
    expect(["", "(software)", "nvidia ampere"].map(adapterName)).toEqual(["GPU", "GPU (software)", "nvidia ampere"]);
    expect(["google swiftshader (software)", "llvmpipe", "apple metal-3"].map(isSoftware)).toEqual([true, true, false]);
  });
  it("gives times, rates and counts", () => {
    expect([0.2, 8, 89, 150, 3900, Infinity].map(wait)).toEqual(["under 1 s", "8 s", "89 s", "3 min", "1 h 5 min", ""]);
    expect([240, 3100].map(duration)).toEqual(["240 ms", "3.1 s"]);
    expect([3.14, 171.2, NaN].map(rate)).toEqual(["3.1", "171", "–"]);
    expect([134_515_008, 1_235_814_432].map(parameters)).toEqual(["135 M", "1.2 B"]);
  });
});

describe("firstThatFits", () => {
  /** A conversation of `turns` turns, each of 100 tokens. */
  const conversation = (turns: number) => (first: number) => Promise.resolve(100 * (turns - first));
  it("keeps everything while it fits", async () => {
    expect(await firstThatFits(conversation(7), 0, 6, 1000, 300)).toBe(0);
  });
  it("drops down to a good part of the room, so that the beginning stays put for a while", async () => {
    expect(await firstThatFits(conversation(8), 0, 7, 1000, 512)).toBe(4);
    expect(await firstThatFits(conversation(9), 4, 8, 1000, 512)).toBe(4);
  });
  it("takes less room for an answer where less is asked for", async () => {
    expect(await firstThatFits(conversation(9), 0, 8, 1000, 50)).toBe(0);
  });
  it("always sends the last turn, whatever its length, and begins no later than it", async () => {
    expect(await firstThatFits(() => Promise.resolve(5000), 0, 3, 1000, 100)).toBe(3);
    expect(await firstThatFits(conversation(2), 5, 1, 1000, 100)).toBe(1);
  });
});

describe("errors", () => {
  it("has words for every code of the package", async () => {
    const { ERROR_CODES } = await import("../../sdk/src/errors");
    for (const code of ERROR_CODES) expect(codeOf(Object.assign(new Error("x"), { code }))).toBe(code);
  });
  it("keeps the engine's own words, and takes what it does not know for a defect", () => {
    expect(explain(Object.assign(new Error("magic: found PK"), { code: "bad-file" })).detail).toBe("magic: found PK");
    expect(codeOf(new TypeError("x"))).toBe("internal");
    expect(codeOf(undefined)).toBe("internal");
    expect(codeOf(new DOMException("x", "AbortError"))).toBe("aborted");
  });
});
