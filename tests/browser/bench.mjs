// The figures of the built package in the real browsers, with the default model.
//
//   node tests/browser/bench.mjs [--prompt-tokens N] [--max-tokens N] [--runs N] [--json] [--smoothness [--prompt-tokens 2000]]
//
// Environment: RIVULET_MODELS, RIVULET_CHROMIUM, RIVULET_FIREFOX. Each run gets a prompt of random tokens of its own, so that
// nothing of it is in the KV cache; rates are medians. The first token comes after a short prompt. With --smoothness a prompt of 2,000 tokens is computed instead, once, and
// what is reported is how the page fares beside it: long tasks, frames, submits. On a software adapter the figures say how a change compares with
// what was there before it, and nothing about a GPU.
import { existsSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { serve } from "../tools/serve.mjs";
import { chromium, firefox } from "./browsers.mjs";

const MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf";
const here = path.dirname(fileURLToPath(import.meta.url));
const repo = path.resolve(here, "../..");

const { values } = parseArgs({
  options: {
    "prompt-tokens": { type: "string" },
    "max-tokens": { type: "string", default: "32" },
    runs: { type: "string", default: "3" },
    json: { type: "boolean", default: false },
    smoothness: { type: "boolean", default: false },
  },
});
const promptTokens = Number(values["prompt-tokens"] ?? (values.smoothness ? 2000 : 128));
const maxTokens = Number(values["max-tokens"]);
const runs = Number(values.runs);

const models = process.env.RIVULET_MODELS ?? "";
if (!existsSync(path.join(models, MODEL))) {
  console.error(`bench: RIVULET_MODELS has no ${MODEL}`);
  process.exit(1);
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1];
const site = await serve({ root: { "/": path.join(here, "pages"), "/sdk/": path.join(repo, "www/sdk") }, models });

/** A page that loads the model and says a first word, as a visitor comes: with a fresh profile the first time, then a second. */
async function start(browser) {
  const page = await browser.open(site.url);
  await page.evaluate(async () => {
    for (let i = 0; i < 200 && !globalThis.harness; i++) await new Promise((resolve) => setTimeout(resolve, 50));
  });
  const contextLength = promptTokens + maxTokens + 32;
  const began = performance.now();
  const { info } = await page.evaluate(([n, s, o]) => globalThis.harness.load(n, s, o), ["bench", `/models/${MODEL}`, { contextLength }]);
  const loadMs = Math.round(performance.now() - began);
  const first = ["bench", "Once upon a time", { maxTokens: 1, temperature: 0 }];
  const said = await page.evaluate(([n, p, o]) => globalThis.harness.generate(n, p, o), first);
  if (said.error) throw new Error(`${said.error.code}: ${said.error.message}`);
  return { page, info, loadMs, firstTokenMs: Math.round(performance.now() - began) };
}

async function measure(launch) {
  const browser = await launch();
  if (!browser) return null;
  try {
    const cold = await start(browser);
    const { page, info } = cold;
    const prompt = () => Array.from({ length: promptTokens }, () => Math.floor(Math.random() * info.vocabularySize));
    if (values.smoothness) {
      const smooth = await page.evaluate(([n, p]) => globalThis.harness.smoothness(n, p), ["bench", prompt()]);
      if (smooth.error) throw new Error(`${smooth.error.code}: ${smooth.error.message}`);
      return { browser: browser.name, device: info.device, ...smooth };
    }
    const timings = [];
    for (let run = 0; run < runs; run++) {
      const ids = prompt();
      const result = await page.evaluate(([n, p, o]) => globalThis.harness.generate(n, Uint32Array.from(p), o), [
        "bench",
        ids,
        { maxTokens, temperature: 0, ignoreEos: true },
      ]);
      if (result.error) throw new Error(`${result.error.code}: ${result.error.message}`);
      timings.push(result.timings);
    }
    await page.close();
    const warm = await start(browser);
    return {
      browser: browser.name,
      device: info.device,
      loadMs: cold.loadMs,
      coldFirstTokenMs: cold.firstTokenMs,
      warmFirstTokenMs: warm.firstTokenMs,
      loadPhases: info.loadPhases,
      ttftMs: Math.round(median(timings.map((t) => t.ttftMs))),
      prefillTps: median(timings.map((t) => t.prefillTps)),
      decodeTps: median(timings.map((t) => t.decodeTps)),
    };
  } finally {
    await Promise.race([browser.close(), new Promise((resolve) => setTimeout(resolve, 5000))]);
  }
}

let status = 0;
const rows = [];
for (const [name, launch] of [
  ["chromium", chromium],
  ["firefox", firefox],
]) {
  try {
    const row = await measure(launch);
    if (row) rows.push(row);
    else console.error(`bench: ${name} is not installed`);
    if (row && values.smoothness && !values.json) {
      const { timings } = row;
      console.log(
        `${name.padEnd(9)} ${JSON.stringify(row.device)}: ${promptTokens} tokens in ${(row.ms / 1000).toFixed(1)} s, ${timings.prefillSubmits} submits, ` +
          `the longest ${timings.longestSubmitMs?.toFixed(0)} ms; the page's longest task ${row.longestTaskMs?.toFixed(0) ?? "is not reported"} ms, ` +
          `${row.framesPerSecond.toFixed(0)} frames/s, longest between two frames ${row.longestFrameMs.toFixed(0)} ms`,
      );
    } else if (row && !values.json) {
      console.log(
        `${name.padEnd(9)} ${JSON.stringify(row.device)}: loaded in ${row.loadMs} ms, a first token ${row.coldFirstTokenMs} ms after the ` +
          `page, ${row.warmFirstTokenMs} ms in a second visit; ${promptTokens} tokens of prompt, first one after ${row.ttftMs} ms ` +
          `(prefill ${row.prefillTps.toFixed(1)} tokens/s); decode ${row.decodeTps.toFixed(2)} tokens/s`,
      );
    }
  } catch (error) {
    console.error(`bench: ${name}: ${error.message}`);
    status = 1;
  }
}
if (values.json) console.log(JSON.stringify({ model: MODEL, promptTokens, maxTokens, runs, browsers: rows }));
await site.close();
process.exit(status);
