import { describe, expect, test } from "vitest";
import { ticks } from "../src/chart";
import { parseContexts } from "../src/choices";
import { digits, fileName, milliseconds, parseReport, tokens } from "../src/report";
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

test("failures have plain words, known or not", () => {
  expect(explain(Object.assign(new Error("x"), { code: "out-of-memory" }))).toMatchObject({ code: "out-of-memory", detail: "x" });
  expect(explain("boom")).toMatchObject({ code: "internal", detail: "boom" });
});
