// Drives the built package in headless Chromium and headless Firefox.
//
//   node tests/browser/run.mjs [WORD…]      // only tests whose name holds all words; `chromium …`, `firefox …`
//
// Environment: RIVULET_MODELS (SmolLM2), RIVULET_SHADERS (what `rivulet shaders DIR` wrote), RIVULET_CHROMIUM, RIVULET_FIREFOX.
// Prints `ok NAME`, `FAIL NAME: why`, `skip NAME: why`; exit status 1 when anything failed. `# …` lines are measurements.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { serve } from "../tools/serve.mjs";
import { chromium, firefox } from "./browsers.mjs";
import { tests } from "./cases.mjs";
import { chat } from "./chat.mjs";
import { extension } from "./extension.mjs";
import { measuring } from "./measuring.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const repo = path.resolve(here, "../..");
const wanted = process.argv.slice(2);

const MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf";
const models = process.env.RIVULET_MODELS ?? "";

/** One line of a message: the first of an error's, cut. */
const line = (text) => String(text).replaceAll(/\s+/g, " ").slice(0, 600);

if (!existsSync(path.join(repo, "www/sdk/wasm/rivulet_bg.wasm")) || !existsSync(path.join(repo, "www/sdk/dist/index.js"))) {
  console.log("FAIL browsers: the package is not built; run ./build.sh wasm and npm run build in www");
  process.exit(1);
}

// The linked shaders: given, or written by the companion, where there is one.
let written = null;
function shaderFolder() {
  if (process.env.RIVULET_SHADERS) return path.resolve(process.env.RIVULET_SHADERS);
  const binary = process.env.RIVULET_BIN;
  if (!binary || !existsSync(binary)) return null;
  written = mkdtempSync(path.join(tmpdir(), "rivulet-shaders-"));
  execFileSync(binary, ["shaders", written], { stdio: "ignore" });
  return written;
}

const shaders = shaderFolder();
const site = await serve({
  root: {
    "/": path.join(here, "pages"),
    "/sdk/": path.join(repo, "www/sdk"),
    "/data/": path.join(repo, "tests/data"),
    ...(shaders ? { "/shaders/": shaders } : {}),
  },
  ...(existsSync(models) ? { models } : {}),
});

const context = {
  site: site.url,
  model: existsSync(path.join(models, MODEL)) ? `/models/${MODEL}` : null,
  golden: JSON.parse(readFileSync(path.join(repo, "tests/data/browser/smollm2.json"), "utf8")),
  tiny: tinyModels(),
  families: families(),
  shaders: shaders ? JSON.parse(readFileSync(path.join(shaders, "index.json"), "utf8")) : null,
};

/** The small quantised models with golden greedy ids, where they are. */
function tinyModels() {
  const folder = path.join(repo, "tests/data/models/q-llama");
  if (!existsSync(path.join(folder, "golden.json"))) return null;
  const golden = JSON.parse(readFileSync(path.join(folder, "golden.json"), "utf8"));
  return { golden, url: "/data/models/q-llama/", has: (file) => existsSync(path.join(folder, file)) };
}

/** The small models of other families, with golden greedy ids. */
function families() {
  const folder = path.join(repo, "tests/data/models");
  const golden = (name) => JSON.parse(readFileSync(path.join(folder, name, "golden.json"), "utf8"));
  const names = readdirSync(folder).filter((name) => existsSync(path.join(folder, name, "model.gguf")));
  return names.sort().map((name) => ({ name, golden: golden(name), url: `/data/models/${name}/model.gguf` }));
}

// The drivers close their browsers on this signal, but leave the process; without this it would go on failing tests.
process.on("SIGTERM", () => setTimeout(() => process.exit(143), 2000));

class Skip extends Error {}
let failed = 0;
let ran = 0;

async function suite(name, launch) {
  const selected = tests.filter((test) => wanted.every((word) => `${name} ${test.name}`.includes(word)));
  if (selected.length === 0) return;
  let browser;
  try {
    browser = await launch();
  } catch (error) {
    failed++;
    console.log(`FAIL ${name} starts: ${line(error.message)}`);
    return;
  }
  if (!browser) {
    for (const test of selected) console.log(`skip ${name}: ${test.name}: this browser is not installed`);
    return;
  }
  try {
    let shared = null;
    const page = async () => (shared ??= await ready(browser));
    for (const test of selected) {
      const began = Date.now();
      const say = (text) => console.log(`# ${name}: ${test.name}: ${text}`);
      const skip = (why) => {
        throw new Skip(why);
      };
      try {
        await test.run({ ...context, browser, page, fresh: () => ready(browser), say, skip });
        ran++;
        console.log(`ok ${name}: ${test.name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
      } catch (error) {
        if (error instanceof Skip) {
          console.log(`skip ${name}: ${test.name}: ${line(error.message)}`);
          continue;
        }
        failed++;
        console.log(`FAIL ${name}: ${test.name}: ${line(error.message)}`);
        if (shared?.problems.length) console.log(`# the page said: ${line(shared.problems.join(" | "))}`);
        // What failed may have left the page in any state: the next test gets a new one.
        await shared?.close().catch(() => undefined);
        shared = null;
      }
    }
  } finally {
    await Promise.race([browser.close().catch(() => undefined), new Promise((resolve) => setTimeout(resolve, 10_000))]);
  }
}

/** A page with the harness loaded. */
async function ready(browser) {
  const page = await browser.open(site.url);
  const found = await page.evaluate(async () => {
    for (let i = 0; i < 200 && !globalThis.harness; i++) await new Promise((resolve) => setTimeout(resolve, 50));
    return Boolean(globalThis.harness);
  });
  if (!found) throw new Error(`the harness did not load: ${page.problems.join(" | ")}`);
  return page;
}

try {
  await suite("chromium", chromium);
  await suite("firefox", firefox);
  // The programs that are built on the package bring their own pages.
  for (const program of [chat, extension, measuring]) {
    const counts = await program({ models, wanted });
    ran += counts.passed;
    failed += counts.failed;
  }
} finally {
  await site.close();
  if (written) rmSync(written, { recursive: true, force: true });
}
console.log(`# ${ran} passed, ${failed} failed`);
// A browser's leftover handles must not keep this process.
process.exit(failed ? 1 : 0);
