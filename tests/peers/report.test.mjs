// What the peers' bench makes of what was recorded: `node --test tests/peers/report.test.mjs`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { CONTESTANTS } from "./contestants.mjs";
import { compare, figure, markdown, median, summarise, table } from "./report.mjs";

const run = (ttftMs, decodeTps, promptTokens = 264) => ({
  promptTokens,
  tokens: 32,
  ttftMs,
  prefillTps: (promptTokens / ttftMs) * 1000,
  decodeTps,
});

/** After what was recorded in Chromium on SwiftShader, two cores; rounded. */
const RECORDED = [
  { id: "rivulet", runtime: "rivulet", how: "WebGPU", version: "0.1.0", visits: [{ loadMs: 3200, runs: [run(7000, 3.1)] }, { loadMs: 2000, runs: [run(6800, 3.3)] }] },
  { id: "wllama-1", runtime: "wllama", how: "wasm, 1 thread", version: "3.13.0", visits: [{ loadMs: 1762, runs: [run(17_250, 9.2)] }] },
  { id: "wllama-webgpu", runtime: "wllama", how: "WebGPU", version: "3.13.0", visits: [{ loadMs: 1816, runs: [] }], ranOnCpu: 'its log says\nof every layer: "CPU|0"' },
  { id: "transformers-webgpu", runtime: "transformers.js", how: "WebGPU, q4", version: "4.3.2", visits: [{ loadMs: 2246, runs: [run(54_000, 0.17)] }] },
  { id: "transformers-wasm", runtime: "transformers.js", how: "wasm, q4", version: "4.3.2", visits: [], error: "no memory" },
];

const rows = () => compare(RECORDED.map(summarise));

test("medians", () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 2, 3]), 2.5);
  assert.equal(median([null, 5, Number.NaN, undefined]), 5);
  assert.equal(median([]), null);
});

test("a contestant's row is the medians over all runs of all visits, its load the first and the later ones", () => {
  const [rivulet] = rows();
  assert.equal(rivulet.status, "measured");
  assert.equal(rivulet.ttftMs, 6900);
  assert.ok(Math.abs(rivulet.decodeTps - 3.2) < 1e-9);
  assert.deepEqual([rivulet.firstLoadMs, rivulet.laterLoadMs, rivulet.visits, rivulet.runs], [3200, 2000, 2, 2]);
});

test("ratios say how many times as fast Rivulet is", () => {
  const [rivulet, wllama, , transformers] = rows();
  assert.equal(rivulet.decodeRatio, 1);
  assert.ok(Math.abs(wllama.decodeRatio - 3.2 / 9.2) < 1e-9);
  assert.ok(Math.abs(transformers.decodeRatio - 3.2 / 0.17) < 1e-9);
  assert.ok(Math.abs(transformers.prefillRatio - rivulet.prefillTps / transformers.prefillTps) < 1e-9);
});

test("what did not run has its reason and no figure, also where its visits hold some", () => {
  const [, , fallen, , broken] = rows();
  assert.deepEqual([fallen.status, broken.status, broken.why], ["ran on the CPU", "failed", "no memory"]);
  for (const row of [fallen, broken]) {
    assert.equal(row.prefillTps, undefined);
    assert.equal(row.decodeRatio, null);
  }
  const late = summarise({ ...RECORDED[1], error: "run 2 was under way" });
  assert.deepEqual([late.status, late.prefillTps], ["failed", undefined]);
  assert.equal(summarise({ ...RECORDED[4], error: undefined }).status, "not run");
});

test("without a Rivulet that was measured there are no ratios", () => {
  const alone = compare(RECORDED.slice(1).map(summarise));
  assert.ok(alone.every((row) => row.prefillRatio === null && row.decodeRatio === null));
  const failed = compare([{ ...RECORDED[0], error: "lost" }, RECORDED[1]].map(summarise));
  assert.equal(failed[1].decodeRatio, null);
});

test("figures have three digits", () => {
  assert.deepEqual([350.4, 37.61, 3.14159, 0.174, 0, null, undefined].map(figure), ["350", "37.6", "3.14", "0.17", "0.00", "–", "–"]);
});

test("the table is Markdown with as many cells in each row, and tells what did not run beneath it", () => {
  const text = table({ title: "Chromium 156, adapter | SwiftShader", rows: rows() });
  const lines = text.split("\n").filter((line) => line.startsWith("|"));
  assert.equal(lines.length, 2 + RECORDED.length);
  const cells = (line) => line.replaceAll("\\|", "").split("|").length;
  assert.deepEqual([...new Set(lines.map(cells))], [9]);
  assert.match(text, /\| Rivulet 0\.1\.0, WebGPU \| 3\.20 \/ 2\.00 \| 6\.90 \| 38\.\d \| 3\.20 \|/);
  assert.match(text, /\| transformers\.js 4\.3\.2, WebGPU, q4 \| 2\.25 \| 54\.0 \| 4\.89 \| 0\.17 \| 7\.83× \| 18\.8× \|/);
  assert.match(text, /\| wllama 3\.13\.0, WebGPU \| ran on the CPU \| \| \| \| \| \|/);
  assert.match(text, /^- wllama 3\.13\.0, WebGPU ran on the CPU: its log says of every layer: "CPU\\\|0"$/m);
  assert.match(text, /^- transformers\.js 4\.3\.2, wasm, q4 failed: no memory$/m);
});

const RESULT = {
  date: "2026-11-30T20:00:00.000Z",
  commit: "abc1234",
  minutes: 9.5,
  machine: { cpu: "Some CPU", cores: 2, loadBefore: 0.1 },
  model: { file: "model.gguf", bytes: 98_362_432 },
  prompt: { tokens: 264 },
  rounds: 2,
  leftOut: 0,
  sections: [{ title: "Chromium", rows: rows() }],
  absent: [{ runtime: "web-llm", why: "it cannot" }],
};

test("the report says what was measured on what, and what makes its figures worthless", () => {
  const quiet = markdown(RESULT);
  assert.match(quiet, /model\.gguf \(98 MB\), a prompt of 264 tokens, greedy; 2 rounds in turn, medians; Some CPU, 2 cores; commit abc1234, 2026-11-30/);
  assert.match(quiet, /- web-llm was not run: it cannot\./);
  assert.doesNotMatch(quiet, /in use|Time was up|Not all/);
  const busy = markdown({ ...RESULT, machine: { ...RESULT.machine, loadBefore: 5 }, leftOut: 1 });
  assert.match(busy, /in use \(load 5\.00/);
  assert.match(busy, /Time was up: 1 visit /);
  const odd = [...rows(), { ...rows()[1], id: "odd", promptTokens: 265 }];
  assert.match(markdown({ ...RESULT, sections: [{ title: "x", rows: odd }] }), /Not all counted the same tokens in the prompt: 264 \(.*\); 265 \(odd\)/);
});

test("contestants have names of their own, and Rivulet is the first of each browser", () => {
  for (const list of Object.values(CONTESTANTS)) {
    assert.equal(list[0].runtime, "rivulet");
    assert.equal(new Set(list.map(({ id }) => id)).size, list.length);
  }
});
