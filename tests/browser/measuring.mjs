// The built page for measuring (www/bench) in Chromium, as a person uses it: from a sub path, under its own CSP.
//
//   node tests/browser/measuring.mjs [WORD…]     // or as part of tests/browser/run.mjs
//
// Environment: RIVULET_CHROMIUM, RIVULET_BIN (the companion, whose report is drawn beside the page's own).
// Prints `ok NAME`, `FAIL NAME: why`, `skip NAME: why`. No rate is judged.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { serve } from "../tools/serve.mjs";
import { CHROMIUM_ARGS, chromiumPath } from "./browsers.mjs";

const require = createRequire(new URL("../../www/package.json", import.meta.url));
const repo = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const tiny = path.join(repo, "tests/data/models/q-llama/Q4_0.gguf");
const SUB_PATH = "some/where/";
const PATIENCE_MS = 240_000;
const TINY = "?model=models/Q4_0.gguf&contexts=0,64&promptTokens=16&maxTokens=6";
const NUMBERS = [
  "prefillTps",
  "ttftMs",
  "decodeTps",
  "bytesPerToken",
  "bandwidthGBps",
  "share",
  "dispatchesPerToken",
  "submitsPerToken",
  "readbacksPerToken",
  "writesPerToken",
  "objectsCreatedPerToken",
];
const PHONE = { width: 360, height: 740 };

async function measured(page) {
  await page.locator("#reports article, #trouble:not([hidden])").first().waitFor({ timeout: PATIENCE_MS });
  assert.equal(await page.locator("#trouble").isVisible(), false, await page.locator("#trouble").innerText());
}

async function downloaded(page) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download JSON" }).first().click()]);
  assert.match(download.suggestedFilename(), /^rivulet-[a-z0-9.-]+\.json$/);
  return { file: await download.path(), report: JSON.parse(readFileSync(await download.path(), "utf8")) };
}

const fitsWidth = (page) => page.evaluate(() => document.scrollingElement.scrollWidth <= innerWidth);

const tests = [
  {
    name: "a file is measured, shown and handed out as JSON",
    async run({ open, say }) {
      const page = await open(`${TINY}&runs=2&warmLoad`);
      await page.getByRole("button", { name: "Measure" }).focus();
      await page.keyboard.press("Enter");
      await page.locator("#running").waitFor();
      assert.equal(await page.evaluate(() => document.activeElement.id), "stop", "the way out has the focus");
      await measured(page);
      const { report } = await downloaded(page);
      assert.equal(report.kind, "rivulet-bench");
      assert.deepEqual(report.contexts.map((row) => row.context), [0, 64]);
      for (const row of [report, ...report.contexts]) for (const name of NUMBERS) assert.ok(Number.isFinite(row[name]), `${name} is a number`);
      for (const name of ["loadMs", "warmLoadMs", "peakGpuBytes", "peakWasmBytes", "measuredBandwidthGBps", "pipelines"]) {
        assert.ok(report[name] > 0, `${name} is there: ${report[name]}`);
      }
      assert.ok(report.userAgent.includes("Chrome") && report.tier.length > 0);
      for (const row of report.contexts) {
        assert.equal(row.objectsCreatedPerToken, 0);
        assert.ok(row.submitsPerToken <= 1 && row.readbacksPerToken <= 1);
        assert.ok(row.dispatchesPerToken >= 4 * report.layers);
        assert.equal(row.decodeTpsRuns.length, 2);
      }
      assert.ok(report.contexts[1].bytesPerToken > report.contexts[0].bytesPerToken, "more keys, more bytes");
      assert.equal(await page.locator("tbody tr").count(), 2);
      assert.equal(await page.locator("#rates svg .mark-point").count(), 2);
      assert.match(await page.locator("#rates svg").getAttribute("aria-label"), /after 0, .* after 64/);
      say(`${report.tier} on ${report.adapter}: memory reads ${report.measuredBandwidthGBps.toFixed(1)} GB/s`);
      await page.close();
    },
  },
  {
    name: "results of page and companion are drawn together, also on a phone",
    async run({ open, scratch, skip }) {
      const binary = process.env.RIVULET_BIN;
      if (!binary || !existsSync(binary)) return skip("RIVULET_BIN names no companion");
      const files = ["native", "other"].map((name) => path.join(scratch, `${name}.json`));
      const args = ["bench", tiny, "--contexts", "0,32,64", "--prompt-tokens", "8", "--max-tokens", "4", "--runs", "1", "--json", "--out", files[0]];
      execFileSync(binary, args, { stdio: "ignore" });
      const report = JSON.parse(readFileSync(files[0], "utf8"));
      writeFileSync(files[1], JSON.stringify({ ...report, adapter: "another" }));
      writeFileSync(path.join(scratch, "letter.json"), "{}");
      const page = await open("", PHONE);
      await page.locator("#open").setInputFiles([...files, path.join(scratch, "letter.json")]);
      await page.locator("#reports article").nth(1).waitFor();
      assert.match(await page.locator("#unread").innerText(), /letter\.json cannot be drawn: it is JSON, but no result/);
      assert.ok(await page.locator("#trouble").isHidden(), "a file's trouble is none of measuring");
      assert.equal(await page.locator("#rates .series").count(), 2);
      assert.equal(await page.locator("#legend li").count(), 2);
      assert.ok(await fitsWidth(page), "nothing stands out to the side at 360 px");
      const { report: back } = await downloaded(page);
      assert.deepEqual(back, { ...report, adapter: "another" }, "a file comes out as it went in");
      await page.getByRole("button", { name: /^Remove/ }).first().click();
      assert.equal(await page.locator("#reports article").count(), 1);
      await page.locator("#open").setInputFiles(files[0]);
      await page.locator("#unread").waitFor({ state: "hidden" });
      await page.getByRole("button", { name: "Clear" }).click();
      assert.ok(await page.locator("#empty").isVisible());
      return page.close();
    },
  },
  {
    name: "stops when it is told to",
    async run({ open }) {
      const page = await open(`${TINY}&runs=500&start`);
      await page.locator("#count", { hasText: /run \d+ of 1000/ }).waitFor({ timeout: PATIENCE_MS });
      await page.keyboard.press("Escape");
      await page.locator("#trouble[data-code=aborted]").waitFor({ timeout: 60_000 });
      assert.equal(await page.locator("#trouble").innerText(), "Stopped.");
      assert.ok(await page.getByRole("button", { name: "Measure" }).isEnabled());
      assert.equal(await page.evaluate(() => document.activeElement.id), "start", "the focus stays in the form");
      await page.close();
    },
  },
  {
    name: "says in plain words what is wrong",
    async run({ open }) {
      const cases = [
        ["?synthetic=gpt-2:q4_k&contexts=0", "bad-option", /synthetic: expected one of llama-3\.2-1b:q4_k/],
        ["?contexts=0,many", "bad-option", /whole numbers separated by commas/],
        ["?model=index.html&contexts=0", "bad-file", /not a whole GGUF file/],
        ["?model=models/none.gguf&contexts=0", "network", /could not be downloaded/],
        ["?model=models/Q4_0.gguf&contexts=100000", "context-overflow", /No context length fits/],
      ];
      const page = await open("");
      for (const [query, code, words] of cases) {
        await page.goto(new URL(`${query}&start`, page.url()).href);
        await page.locator("#trouble:not([hidden])").waitFor({ timeout: PATIENCE_MS });
        assert.equal(await page.locator("#trouble").getAttribute("data-code"), code, await page.locator("#trouble").innerText());
        assert.match(await page.locator("#trouble").innerText(), words);
        if (code !== "bad-option") continue;
        const field = page.locator("[aria-invalid=true][aria-describedby~=trouble]");
        assert.ok(await field.evaluate((node) => node === document.activeElement), "the field is marked and has the focus");
        if ((await field.getAttribute("id")) !== "contexts") continue;
        await field.fill("0");
        assert.equal(await page.locator("[aria-invalid]").count(), 0, "and is let go once it is changed");
      }
      await page.close();
    },
  },
];

/**
 * Runs the tests of the page.
 * @param {{ wanted?: string[] }} options `wanted`: words of names
 * @returns {Promise<{ passed: number, failed: number }>}
 */
export async function measuring({ wanted = [] } = {}) {
  const counts = { passed: 0, failed: 0 };
  const selected = tests.filter((test) => wanted.every((word) => `measuring: ${test.name}`.includes(word)));
  if (selected.length === 0) return counts;
  const line = (error) => String(error?.message ?? error).replaceAll(/\s+/g, " ").slice(0, 600);
  const fail = (name, error) => {
    counts.failed++;
    console.log(`FAIL measuring: ${name}: ${line(error)}`);
  };
  const dist = path.join(repo, "www/bench/dist");
  if (!existsSync(path.join(dist, "index.html"))) {
    fail("built", "www/bench/dist is not there; run `npm run build -w bench` in www");
    return counts;
  }
  const executablePath = chromiumPath();
  if (!executablePath) {
    for (const test of selected) console.log(`skip measuring: ${test.name}: Chromium is not installed`);
    return counts;
  }
  const scratch = mkdtempSync(path.join(tmpdir(), "rivulet-measuring-"));
  const site = await serve({ root: { [`/${SUB_PATH}`]: dist, [`/${SUB_PATH}models/`]: path.dirname(tiny) } });
  const { chromium } = require("playwright-core");
  const browser = await chromium.launch({ executablePath, headless: true, args: CHROMIUM_ARGS, timeout: 60_000 });
  try {
    for (const test of selected) {
      const began = Date.now();
      const violations = [];
      const open = async (query, viewport = { width: 1280, height: 900 }) => {
        const page = await (await browser.newContext({ viewport, reducedMotion: "reduce" })).newPage();
        page.on("console", (message) => {
          if (/Content Security Policy/.test(message.text())) violations.push(message.text());
        });
        page.on("pageerror", (error) => violations.push(String(error)));
        await page.goto(`${site.url}${SUB_PATH}${query}`, { timeout: 60_000 });
        return page;
      };
      let why = "";
      try {
        await test.run({ open, scratch, say: (text) => console.log(`# measuring: ${test.name}: ${text}`), skip: (text) => (why = text) });
        assert.deepEqual(violations, []);
        if (why) {
          console.log(`skip measuring: ${test.name}: ${why}`);
          continue;
        }
        counts.passed++;
        console.log(`ok measuring: ${test.name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
      } catch (error) {
        fail(test.name, error);
      }
    }
  } finally {
    await Promise.race([browser.close().catch(() => undefined), new Promise((resolve) => setTimeout(resolve, 10_000))]);
    await site.close();
    rmSync(scratch, { recursive: true, force: true });
  }
  return counts;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { failed } = await measuring({ wanted: process.argv.slice(2) });
  process.exit(failed ? 1 : 0);
}
