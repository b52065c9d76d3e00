import { beforeEach, describe, expect, test } from "vitest";
import { benchmark } from "../src/bench.js";
import type { Progress } from "../src/types.js";
import { log } from "./fake-engine.js";

const file = new Uint8Array(5000);

beforeEach(() => {
  log.length = 0;
});

describe("benchmark", () => {
  test("measures a file or a model by name, and tells how far it is", async () => {
    const seen: Progress[] = [];
    const options = { worker: false, contexts: [0, 64], runs: 2, kvType: "f32" as const, tier: "base" };
    const report = await benchmark(file, { ...options, onProgress: (p) => seen.push(p) });
    expect(report.contexts.map(({ context }) => context)).toEqual([0, 64]);
    expect(seen.map(({ phase, loaded }) => [phase, loaded])).toEqual([0, 1, 2, 3].map((loaded) => ["measure", loaded]));
    expect(log[0]).toBe('bench 5000 with {"kvType":"f32","tier":"base","subgroups":false,"tunings":{}} and {"contexts":[0,64],"runs":2}');
    await benchmark({ synthetic: "llama-3.2-1b:q4_k" }, { worker: false });
    expect(log.some((line) => line.startsWith('bench llama-3.2-1b:q4_k with {"subgroups":false,"tunings":{}} and {}'))).toBe(true);
  });

  test("loads once more where that is asked for", async () => {
    const report = await benchmark(file, { worker: false, warmLoad: true });
    expect(report.warmLoadMs).toBe(5);
    expect(log.filter((line) => line.startsWith("bench ")).length).toBe(2);
  });

  test("ends with the code aborted, before it begins and while it runs", async () => {
    await expect(benchmark(file, { worker: false, signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "aborted" });
    const stop = new AbortController();
    const run = benchmark(file, { worker: false, signal: stop.signal, onProgress: () => stop.abort() });
    await expect(run).rejects.toMatchObject({ code: "aborted", message: "measuring was aborted by the caller" });
    const broken = new Error("the page's own");
    const throws = benchmark(file, {
      worker: false,
      onProgress: () => {
        throw broken;
      },
    });
    await expect(throws).rejects.toBe(broken);
  });

  test("refuses what it does not know by name", async () => {
    const refused = async (model: unknown, options: object): Promise<void> =>
      expect(benchmark(model as Uint8Array, { worker: false, ...options })).rejects.toMatchObject({ code: "bad-option" });
    await refused(file, { context: 3 });
    await refused(file, { contexts: "0,512" });
    await refused({ synthetic: 7 }, {});
    await refused({ syntethic: "llama-3.2-1b:q4_k" }, {});
  });
});
