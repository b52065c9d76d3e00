import { describe, expect, test } from "vitest";
import { ticks } from "../src/chart";
import { Slip, parseContexts } from "../src/choices";
import { count, digits, facts, fileName, milliseconds, parseReport, plain, tokens } from "../src/report";
import { explain } from "../src/words";

const row = { context: 0, prefillTps: 1, ttftMs: 2, decodeTps: 3, bytesPerToken: 4, bandwidthGBps: 5, share: 0.6 };
const report = { kind: "rivulet-bench", model: "llama-3.2-1b:q4_k (synthetic)", adapter: "NVIDIA H200", tier: "f16+subgroup", contexts: [row] };

describe("context lengths", () => {
  test("are numbers with anything sensible between them, once each, in order", () => {
    expect(parseContexts("512, 0;2048 0")).toEqual([0, 512, 2048]);
  });
  test("are refused by the word that is none", () => {
    for (const word of ["-1", "2.5", "many", "1e99"]) expect(() => parseContexts(`0, ${word}`)).toThrow(word);
    expect(() => parseContexts(" , ")).toThrow("at least one");
  });
  test("that are none are about their field", () => {
    const slip = (): Slip => {
      try {
        parseContexts("abc");
      } catch (error) {
        if (error instanceof Slip) return error;
      }
      throw new Error("no slip");
    };
    expect(explain(slip())).toMatchObject({ code: "bad-option", field: "contexts", advice: "" });
  });
});

describe("reports", () => {
  test("are read back, and what is none is refused in words", () => {
    expect(parseReport(JSON.stringify(report)).contexts).toEqual([row]);
    expect(() => parseReport("{")).toThrow("no JSON");
    for (const other of ["null", "3", "[]", '{"kind":"rivulet-profile"}']) expect(() => parseReport(other)).toThrow("no result");
    expect(() => parseReport(JSON.stringify({ ...report, contexts: [] }))).toThrow("missing");
    expect(() => parseReport(JSON.stringify({ ...report, contexts: [{ ...row, share: "half" }] }))).toThrow("missing");
    expect(() => parseReport(JSON.stringify({ ...report, adapter: 7 }))).toThrow("adapter");
  });
  test("are written as people read figures", () => {
    expect([0, 0.01234, 3.14159, 99.96, 1234.5, NaN].map(digits)).toEqual(["0", "0.0123", "3.14", "100", "1,235", "–"]);
    expect([49.02, 36.8, 5, 99.94, 0.5].map(digits)).toEqual(["49.0", "36.8", "5.00", "99.9", "0.500"]);
    expect([0, 2.5, 10, 0.25, 154, 99.96].map(plain)).toEqual(["0", "2.5", "10", "0.25", "154", "100"]);
    expect([0, 1, 1.5, 2].map((n) => count(n, "submit"))).toEqual(["0 submits", "1 submit", "1.5 submits", "2 submits"]);
    expect([12.3, 4321].map(milliseconds)).toEqual(["12.3 ms", "4.32 s"]);
    expect([0, 512, 2048, 8192, 1000].map(tokens)).toEqual(["0", "512", "2k", "8k", "1000"]);
    expect(fileName(parseReport(JSON.stringify(report)))).toBe("rivulet-llama-3.2-1b-q4-k-synthetic-nvidia-h200.json");
  });
});

test("ticks are round, from 0 to the most or beyond", () => {
  expect(ticks(1)).toEqual([0, 0.25, 0.5, 0.75, 1]);
  expect(ticks(17.3)).toEqual([0, 5, 10, 15, 20]);
  expect(ticks(0.0042)).toEqual([0, 0.002, 0.004, 0.006]);
  for (const most of [0, -1, NaN, Infinity]) expect(ticks(most)).toEqual([0, 1]);
  for (const most of [0.3, 7, 98, 1234]) {
    const steps = ticks(most);
    expect(steps.at(-1)).toBeGreaterThanOrEqual(most);
    expect(steps.length).toBeLessThanOrEqual(6);
  }
});

test("what no chart can draw is refused", () => {
  const good = JSON.parse(JSON.stringify({ kind: "rivulet-bench", model: "m", adapter: "a", tier: "t", contexts: [row] })) as Record<string, unknown>;
  expect(parseReport(JSON.stringify(good)).model).toBe("m");
  const bad = [
    { quantization: null },
    { skippedContexts: "abc" },
    { contexts: [{ ...row, decodeTps: 5e-324 }] },
    { contexts: [{ ...row, decodeTps: 1.79e308 }] },
    { contexts: Array.from({ length: 5000 }, () => row) },
    { model: { toString: 1 } },
  ];
  for (const change of bad) expect(() => parseReport(JSON.stringify({ ...good, ...change })), JSON.stringify(change).slice(0, 60)).toThrow();
});

describe("facts", () => {
  const whole = {
    ...report,
    ...{ dispatchesPerToken: 154, submitsPerToken: 1, readbacksPerToken: 1, writesPerToken: 0, objectsCreatedPerToken: 0 },
    ...{ runs: 1, promptTokens: 16, maxTokens: 4, loadMs: 1937.4 },
    contexts: [{ ...row, longestSubmitMs: 86.4 }, { ...row, context: 64, longestSubmitMs: 151.2 }],
    loadPhases: { headerMs: 0, tokenizerMs: 407, buffersMs: 0.19, weightsMs: 1519, kernelsMs: 0.05, tuningMs: 0, totalMs: 1937.4 },
    tuning: { key: "k", source: "measured", choices: {}, measured: 5, candidates: 8 },
  };
  const of = (value: object): Record<string, string> => Object.fromEntries(facts(parseReport(JSON.stringify(value))));
  test("tell of one thing as of one", () => {
    expect(of(whole)).toMatchObject({
      "A token takes": "154 dispatches, 1 submit, 1 readback, 0 writes, 0 objects created",
      "Measured with": "1 run, prompts of 16 tokens, 4 tokens decoded",
    });
  });
  test("tell what a load took its time for, the tuning, and the longest submit of all contexts", () => {
    expect(of(whole)).toMatchObject({
      "Of that": "tokenizer 407 ms, weights 1.52 s",
      Tuning: "measured in this load, 5 of 8 choices",
      "Longest submit": "151 ms",
    });
    expect(of({ ...whole, tuning: { ...whole.tuning, source: "stored" } }).Tuning).toBe("stored by an earlier load");
  });
  test("are left out where a file lacks them", () => {
    const known = Object.keys(of(report));
    for (const name of ["Of that", "Tuning", "Longest submit", "Loaded again in"]) expect(known).not.toContain(name);
  });
});

test("failures that name an option are about its field", () => {
  const field = (message: string): string | undefined => explain(Object.assign(new Error(message), { code: "bad-option" })).field;
  expect(field("tier: expected base, f16, …")).toBe("tier");
  expect(field("synthetic: expected one of …")).toBe("model");
  expect(field("wasmUrl: …")).toBeUndefined();
  expect(explain(Object.assign(new Error("tier: x"), { code: "internal" })).field).toBeUndefined();
});

test("failures have plain words, known or not", () => {
  expect(explain(Object.assign(new Error("x"), { code: "out-of-memory" }))).toMatchObject({ code: "out-of-memory", detail: "x" });
  expect(explain("boom")).toMatchObject({ code: "internal", detail: "boom" });
});
