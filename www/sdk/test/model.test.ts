import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type Model, RivuletError, type Token, inspectModel, loadModel } from "../src/index.js";
import { log } from "./fake-engine.js";

const file = new Uint8Array(5000);
file.set(new TextEncoder().encode("GGUF"));

let model: Model;
beforeEach(async () => {
  model = await loadModel(file, { worker: false });
  log.length = 0;
});
afterEach(() => model.dispose());

async function collect(run: AsyncIterable<Token>): Promise<string> {
  let text = "";
  for await (const piece of run) text += piece.text;
  return text;
}

describe("a run", () => {
  test("is iterated, awaited, or both", async () => {
    expect(await collect(model.generate("abc"))).toBe("abc");
    expect(await model.generate("abc").done).toMatchObject({ text: "abc", finishReason: "stop", tokens: [97, 98, 99] });
    const run = model.generate("abc");
    expect(await collect(run)).toBe((await run.done).text);
    expect(await collect(run)).toBe("abc");
  });

  test("calls onToken in order", async () => {
    const seen: Token[] = [];
    await model.generate("hello", { onToken: (token) => seen.push(token), maxTokens: 3 }).done;
    expect(seen.map((t) => [t.index, t.text])).toEqual([[0, "h"], [1, "e"], [2, "l"]]);
  });

  test("break cancels, and the next one begins after it", async () => {
    for await (const piece of model.generate("abcdefghijkl")) if (piece.index === 2) break;
    expect(log.at(-1)).toBe("flag freed");
    expect(log.some((line) => /^end abcd?e?$/.test(line))).toBe(true);
    expect(await collect(model.generate("xyz"))).toBe("xyz");
  });

  test("abort resolves with what there is", async () => {
    const controller = new AbortController();
    const run = model.generate("abcdefghijkl", {
      signal: controller.signal,
      onToken: ({ index }) => {
        if (index === 1) controller.abort();
      },
    });
    const { text, finishReason } = await run.done;
    expect(finishReason).toBe("aborted");
    expect("abcdefghijkl".startsWith(text)).toBe(true);
    expect(text.length).toBeLessThan(6);
    expect(await collect(run)).toBe(text);
  });

  test("aborted before it begins", async () => {
    expect(await model.generate("abc", { signal: AbortSignal.abort() }).done).toMatchObject({ text: "", finishReason: "aborted" });
    expect(log).toEqual([]);
  });

  test("runs are queued in order and never interleave", async () => {
    const runs = ["aaaa", "bbbb", "cccc"].map((prompt) => model.generate(prompt));
    expect(await Promise.all(runs.map(collect))).toEqual(["aaaa", "bbbb", "cccc"]);
    expect(log.filter((line) => !line.startsWith("flag"))).toEqual([
      "begin aaaa", "end aaaa", "begin bbbb", "end bbbb", "begin cccc", "end cccc",
    ]);
  });

  test("abort of a queued one is immediate, and the others go on", async () => {
    const controller = new AbortController();
    const first = model.generate("a".repeat(50));
    const second = model.generate("b", { signal: controller.signal });
    const third = model.generate("c");
    controller.abort();
    expect((await second.done).finishReason).toBe("aborted");
    expect(log.some((line) => line.startsWith("end"))).toBe(false);
    expect((await first.done).text).toHaveLength(50);
    expect((await third.done).text).toBe("c");
    expect(log).not.toContain("begin b");
  });

  test("a failure rejects done and ends the iteration, and the next one works", async () => {
    await expect(model.generate("!fail").done).rejects.toMatchObject({ code: "context-overflow", name: "RivuletError" });
    await expect(collect(model.generate("!fail"))).rejects.toBeInstanceOf(RivuletError);
    expect(await collect(model.generate("ok"))).toBe("ok");
  });

  test("what onToken throws ends the run as it is", async () => {
    const error = new Error("mine");
    const run = model.generate("abcdefgh", {
      onToken: () => {
        throw error;
      },
    });
    await expect(run.done).rejects.toBe(error);
    expect(await collect(model.generate("ok"))).toBe("ok");
  });

  test("no rejection goes unhandled, and none is silent", async () => {
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    const report = vi.spyOn(console, "error").mockImplementation(() => undefined);
    model.generate("!fail");
    await expect(collect(model.generate("!fail"))).rejects.toThrow();
    await new Promise((resolve) => setTimeout(resolve, 2200));
    expect(report).toHaveBeenCalledTimes(1);
    expect(unhandled).not.toHaveBeenCalled();
    process.off("unhandledRejection", unhandled);
    report.mockRestore();
  });
});

test("an abort in the very tick of the call is heard", async () => {
  const controller = new AbortController();
  const run = model.generate("a long answer that nobody waits for", { signal: controller.signal });
  await Promise.resolve();
  controller.abort();
  expect((await run.done).finishReason).toBe("aborted");
});

describe("options", () => {
  test("an unknown one is named", async () => {
    await expect(model.generate("a", { topp: 1 } as object).done).rejects.toMatchObject({
      code: "bad-option",
      message: expect.stringContaining('"topp"') as string,
    });
    await expect(loadModel(file, { contextlength: 5 } as object)).rejects.toMatchObject({ code: "bad-option" });
    await expect(model.tokenize("a", { x: 1 } as object)).rejects.toMatchObject({ code: "bad-option" });
    await expect(model.generate("a", { toString: 1 } as object).done).rejects.toMatchObject({ code: "bad-option" });
    expect(log).toEqual([]);
  });

  test("types are checked", async () => {
    for (const bad of [{ temperature: "1" }, { maxTokens: -1 }, { topK: 1.5 }, { stop: [1] }, { temperature: NaN }, { signal: {} }, { onToken: 1 }]) {
      await expect(model.generate("a", bad as object).done).rejects.toMatchObject({ code: "bad-option" });
    }
    expect((await model.generate("a", { temperature: undefined, stop: "z", logitBias: { 5: 1 } }).done).text).toBe("a");
  });

  test("prompts are checked", async () => {
    for (const bad of [undefined, 5, [], [1, "a"], [-1], [1.5], [{ content: "x" }], null]) {
      await expect(model.generate(bad as unknown as string).done).rejects.toMatchObject({ code: "bad-option" });
    }
    expect((await model.generate([1, 2]).done).text).toBe('{"0":1,"1":2}');
  });
});

describe("adapters", () => {
  const lora = new TextEncoder().encode("lora");
  const other = new Blob(["lora"]);

  test("are fetched once and chosen for each answer", async () => {
    expect((await model.generate("abc", { adapters: [{ source: lora }] }).done).text).toBe("abc");
    await model.generate("def", { adapters: [{ source: other, scale: 0.5 }, { source: lora, scale: -1 }] }).done;
    await model.generate("ghi").done;
    expect(log.filter((line) => /^(begin|adapter)/.test(line))).toEqual([
      "adapter loaded",
      'begin abc with [{"id":0,"scale":1}]',
      "adapter loaded",
      'begin def with [{"id":1,"scale":0.5},{"id":0,"scale":-1}]',
      "begin ghi",
    ]);
  });

  test("of the load are the default", async () => {
    const adapted = await loadModel(file, { worker: false, adapters: [{ source: lora, scale: 2 }] });
    await adapted.generate("abc").done;
    await adapted.generate("def", { adapters: [] }).done;
    await adapted.dispose();
    expect(log.filter((line) => line.startsWith("begin"))).toEqual(['begin abc with [{"id":0,"scale":2}]', "begin def"]);
  });

  test("that are none are refused, and the model answers on", async () => {
    const wrong = new Blob(["GGUF"]);
    await expect(model.generate("abc", { adapters: [{ source: wrong }] }).done).rejects.toMatchObject({ code: "bad-file" });
    expect((await model.generate("abc").done).text).toBe("abc");
    await expect(loadModel(file, { worker: false, adapters: [{ source: wrong }] })).rejects.toMatchObject({ code: "bad-file" });
    for (const adapters of [{}, [{}], [lora], [{ source: lora, scale: "1" }], [{ source: lora, weight: 1 }]]) {
      await expect(model.generate("abc", { adapters } as object).done).rejects.toMatchObject({ code: "bad-option" });
    }
  });
});

describe("embeddings", () => {
  test("one text gives a vector, several give one each, between generations", async () => {
    const run = model.generate("abcdef");
    const [one, several] = await Promise.all([model.embed("abc"), model.embed(["a", "bb"], { dimensions: 2 })]);
    expect([...one]).toEqual([3, 1, 2]);
    expect(several.map((v) => [...v])).toEqual([[1, 1], [2, 1]]);
    expect((await run.done).text).toBe("abcdef");
    expect(await model.embed([])).toEqual([]);
  });

  test("wrong ones are refused, aborts are heard", async () => {
    await expect(model.embed(3 as never)).rejects.toMatchObject({ code: "bad-option" });
    await expect(model.embed(["a", 3 as never])).rejects.toMatchObject({ code: "bad-option" });
    await expect(model.embed("a", { pooling: "max" as never })).rejects.toMatchObject({ code: "bad-option" });
    await expect(model.embed("a", { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "aborted" });
    const controller = new AbortController();
    const vectors = model.embed(["a", "b", "c"], { signal: controller.signal });
    controller.abort();
    await expect(vectors).rejects.toMatchObject({ code: "aborted" });
    expect([...(await model.embed("abc"))]).toEqual([3, 1, 2]);
  });
});

describe("text", () => {
  test("there and back", async () => {
    expect(await model.detokenize(await model.tokenize("abc"))).toBe("abc");
    expect(await model.detokenize([97])).toBe("a");
    expect(await model.countTokens("abc")).toBe(3);
    expect(await model.countTokens([{ role: "user", content: "x" }])).toBe("<user>x".length);
    expect(await model.applyChatTemplate([{ role: "user", content: "x" }])).toBe("<user>x");
  });
});

describe("dispose", () => {
  test("ends what is under way, frees, and is idempotent", async () => {
    const running = model.generate("a".repeat(100));
    const queued = model.generate("b");
    const first = running[Symbol.asyncIterator]();
    await first.next();
    const both = Promise.all([model.dispose(), model.dispose()]);
    await expect(running.done).rejects.toMatchObject({ code: "disposed" });
    await expect(queued.done).rejects.toMatchObject({ code: "disposed" });
    await both;
    expect(log.filter((line) => line === "disposed")).toHaveLength(1);
    expect(log.indexOf("model freed")).toBeGreaterThan(log.findIndex((line) => line.startsWith("end")));
    await expect(model.generate("a").done).rejects.toMatchObject({ code: "disposed" });
    await expect(model.tokenize("a")).rejects.toMatchObject({ code: "disposed" });
    await model.dispose();
  });
});

describe("loading", () => {
  test("reports progress and takes every kind of source", async () => {
    const bytes = file.buffer;
    for (const source of [bytes, new Blob([file]), [new Blob([file.slice(0, 10)]), new Blob([file.slice(10)])], new Response(file).body]) {
      const seen: number[] = [];
      const loaded = await loadModel(source as Blob, { worker: false, onProgress: (p) => seen.push(p.loaded) });
      expect(seen.at(-1)).toBe(5000);
      expect(loaded.info.architecture).toBe("fake");
      await loaded.dispose();
    }
    await expect(loadModel(5 as unknown as string, { worker: false })).rejects.toMatchObject({ code: "bad-option" });
    await expect(loadModel("ftp://x/y", { worker: false })).rejects.toMatchObject({ code: "bad-option" });
    await expect(loadModel([], { worker: false })).rejects.toMatchObject({ code: "bad-option" });
  });

  test("an abort rejects with aborted and frees", async () => {
    const controller = new AbortController();
    const load = loadModel(file, { worker: false, signal: controller.signal, onProgress: () => controller.abort() });
    await expect(load).rejects.toMatchObject({ code: "aborted" });
    await expect(loadModel(file, { worker: false, signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "aborted" });
  });

  test("what onProgress throws ends it", async () => {
    const error = new Error("mine");
    const onProgress = (): void => {
      throw error;
    };
    await expect(loadModel(file, { worker: false, onProgress })).rejects.toBe(error);
  });

  test("only its own options reach the engine", async () => {
    const template = "{{ messages }}";
    const loaded = await loadModel(file, { worker: false, contextLength: 64, template, headers: {}, credentials: "omit" });
    expect(log).toContain('loaded 5000 with {"contextLength":64,"template":"{{ messages }}","subgroups":false,"tunings":{}}');
    const wrong = loadModel(file, { worker: false, template: 7 as unknown as string });
    await expect(wrong).rejects.toMatchObject({ code: "bad-option", message: expect.stringContaining("template") as string });
    await loaded.dispose();
  });

  test("inspectModel reads the header", async () => {
    expect(await inspectModel(file, { worker: false })).toMatchObject({ architecture: "fake", fileBytes: 5000 });
    await expect(inspectModel(new Uint8Array(9), { worker: false })).rejects.toMatchObject({ code: "bad-file" });
  });
});

// Last: a panic breaks this process's engine for good.
test("a panic rejects what is pending and everything later", async () => {
  const other = await loadModel(file, { worker: false });
  const run = model.generate("!panic");
  const next = model.generate("a");
  await expect(run.done).rejects.toMatchObject({ code: "internal", message: expect.stringContaining("out of bounds") as string });
  await expect(next.done).rejects.toMatchObject({ code: "internal" });
  await expect(other.tokenize("a")).rejects.toMatchObject({ code: "internal" });
  expect((await model.lost).code).toBe("internal");
  await expect(loadModel(file, { worker: false })).rejects.toMatchObject({ code: "internal" });
});
