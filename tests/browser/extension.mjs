// The extension in a real Chromium, from the packed zip: a model is chosen in its options page, and a text field of an
// ordinary page is completed. It does what a person does and reads what a person sees.
//
//   node tests/browser/extension.mjs [WORD…]     // or as part of tests/browser/run.mjs
//
// Prints `ok NAME`, `FAIL NAME: why`, `skip NAME: why`.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { serve } from "../tools/serve.mjs";
import { CHROMIUM_ARGS, chromiumPath } from "./browsers.mjs";

const require = createRequire(new URL("../../www/package.json", import.meta.url));
const repo = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");

const MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf";
const SHORTCUT = "Control+Shift+Space";
const PROMPT = "The capital of France is";
/** A GPU made of a CPU gives a handful of tokens a second. */
const TOKENS = 5;
/** Loading and completing on two cores that others use too. */
const PATIENCE_MS = 180_000;

const PAGE = `<!doctype html><meta charset="utf-8"><title>A page</title>
<style>textarea, input, [contenteditable] { display: block; width: 30rem; margin: 8px; font: 16px/1.4 sans-serif } textarea { height: 6rem }</style>
<textarea id="text">${PROMPT}</textarea>
<input id="line" value="${PROMPT}">
<div id="rich" contenteditable="true"><p>A first paragraph.</p><p>${PROMPT}</p></div>
<input id="password" type="password" value="${PROMPT}">
<input id="shown" type="password" value="${PROMPT}">
<input id="card" autocomplete="cc-number" value="${PROMPT}">
<input id="code" autocomplete="section-a one-time-code" value="${PROMPT}">
<input id="named" name="cardNumber" value="${PROMPT}">
<textarea id="empty"></textarea>
<div id="shadow"></div>
<iframe id="frame" srcdoc="<textarea id=inner style='width:20rem;height:5rem'>${PROMPT}</textarea>"></iframe>
<script>
  document.querySelector("#shadow").attachShadow({ mode: "closed" }).innerHTML = "<textarea style='width:30rem;height:4rem'>${PROMPT}</textarea>";
  addEventListener("input", (event) => { window.lastInput = event.inputType; });
</script>`;

/** Unpacks the zip into a new folder. */
function unpack(zip) {
  const { unzipSync } = require("fflate");
  const folder = mkdtempSync(path.join(tmpdir(), "rivulet-extension-"));
  for (const [name, bytes] of Object.entries(unzipSync(readFileSync(zip)))) {
    const file = path.join(folder, name);
    assert.ok(file.startsWith(folder + path.sep), `the zip names ${name}`);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, bytes);
  }
  return folder;
}

/** What the content script shows: its shadow tree is closed to the page, and open to the debugger. */
async function shown(cdp) {
  const { root } = await cdp.send("DOM.getDocument", { depth: -1, pierce: true });
  const attribute = (node, name) => {
    const at = node.attributes?.indexOf(name) ?? -1;
    return at >= 0 && at % 2 === 0 ? node.attributes[at + 1] : null;
  };
  const all = (node) => [node, ...[...(node.children ?? []), ...(node.shadowRoots ?? []), ...(node.contentDocument ? [node.contentDocument] : [])].flatMap(all)];
  const text = (node) => (attribute(node, "class") === "keys" ? "" : (node.nodeValue ?? "") + (node.children ?? []).map(text).join(""));
  const found = { ghost: "", bubble: "", live: "" };
  for (const host of all(root).filter((node) => attribute(node, "data-rivulet") !== null)) {
    for (const part of host.shadowRoots?.[0]?.children ?? []) {
      const name = (attribute(part, "class") ?? "").split(" ")[0];
      if (name in found && !(attribute(part, "style") ?? "").includes("display: none")) found[name] += text(part);
    }
  }
  return found;
}

async function until(what, check, limit = PATIENCE_MS) {
  const end = Date.now() + limit;
  let last;
  for (;;) {
    last = await check();
    if (last) return last;
    if (Date.now() > end) throw new Error(`${what} did not come within ${limit / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** The whole completion at the caret; fails with the bubble's words when there are some instead. */
function completion(cdp) {
  return until("a completion", async () => {
    const { ghost, bubble, live } = await shown(cdp);
    if (live.startsWith("Suggestion: ")) return ghost || bubble;
    if (live) throw new Error(`the extension says: ${bubble}`);
    return null;
  });
}

const atEnd = (page, selector) =>
  page.locator(selector).evaluate((box) => {
    box.focus();
    box.setSelectionRange(box.value.length, box.value.length);
  });

const tests = [
  {
    name: "without a model it says so",
    async run({ page, cdp }) {
      await atEnd(page, "#text");
      await page.keyboard.press(SHORTCUT);
      const { bubble } = await until("a message", async () => {
        const now = await shown(cdp);
        return now.bubble.includes("no model") && now;
      });
      assert.match(bubble, /choose one/);
      assert.equal(await page.locator("#text").inputValue(), PROMPT);
    },
  },
  {
    name: "a file that is no model is refused in plain words",
    async run({ options }) {
      await options.locator("#file").setInputFiles({ name: "notes.gguf", mimeType: "application/octet-stream", buffer: Buffer.from("just some notes") });
      await options.locator("#trouble:not([hidden])").waitFor({ timeout: 60_000 });
      assert.match(await options.locator("#trouble").innerText(), /not a whole GGUF file/);
      assert.match(await options.locator("#model").innerText(), /No model chosen/);
    },
  },
  {
    name: "a model is chosen from a file",
    async run({ options, model, say }) {
      const began = Date.now();
      await options.locator("#file").setInputFiles(model);
      await options.locator("#model[data-state=ready]").waitFor({ timeout: PATIENCE_MS });
      say(`copied and read in ${((Date.now() - began) / 1000).toFixed(1)} s`);
      assert.equal(await options.locator("#model").innerText(), MODEL);
      assert.match(await options.locator("#facts").innerText(), /Q4_1/);
      await options.locator("#max-tokens").fill(String(TOKENS));
      await options.locator("#max-tokens").blur();
    },
  },
  {
    name: "grey words in a textarea, and Tab accepts",
    async run({ page, cdp, say }) {
      const began = Date.now();
      await atEnd(page, "#text");
      await page.keyboard.press(SHORTCUT);
      const words = await completion(cdp);
      say(`${JSON.stringify(words)} after ${((Date.now() - began) / 1000).toFixed(1)} s, model loaded in that time`);
      assert.match(words, /^ Paris\b/);
      assert.equal(await page.locator("#text").inputValue(), PROMPT, "grey words are not in the field");
      await page.keyboard.press("Tab");
      assert.equal(await page.locator("#text").inputValue(), PROMPT + words);
      assert.equal(await page.evaluate(() => window.lastInput), "insertText");
      assert.equal(await page.evaluate(() => document.activeElement.id), "text", "Tab did not leave the field");
      assert.equal((await shown(cdp)).ghost, "");
      await page.keyboard.press("Control+z");
      assert.equal(await page.locator("#text").inputValue(), PROMPT, "the page's undo takes the words back");
    },
  },
  {
    name: "Esc dismisses, typing dismisses, Tab is Tab again",
    async run({ page, cdp }) {
      await atEnd(page, "#text");
      await page.keyboard.press(SHORTCUT);
      await completion(cdp);
      await page.keyboard.press("Escape");
      assert.deepEqual(await shown(cdp), { ghost: "", bubble: "", live: "" });
      assert.equal(await page.locator("#text").inputValue(), PROMPT);
      await page.keyboard.press(SHORTCUT);
      await completion(cdp);
      await page.keyboard.type("x");
      assert.equal((await shown(cdp)).ghost, "");
      assert.equal(await page.locator("#text").inputValue(), `${PROMPT}x`);
      await page.keyboard.press("Backspace");
      await page.keyboard.press("Tab");
      assert.equal(await page.evaluate(() => document.activeElement.id), "line");
    },
  },
  {
    name: "one-line inputs, editable regions, shadow trees and frames",
    async run({ page, cdp }) {
      await atEnd(page, "#line");
      await page.keyboard.press(SHORTCUT);
      const line = await completion(cdp);
      await page.keyboard.press("Tab");
      assert.equal(await page.locator("#line").inputValue(), PROMPT + line);

      await page.evaluate(() => {
        document.querySelector("#rich").focus();
        getSelection().selectAllChildren(document.querySelector("#rich p:last-child"));
        getSelection().collapseToEnd();
      });
      await page.keyboard.press(SHORTCUT);
      await completion(cdp);
      await page.keyboard.press("Tab");
      // The words may hold a line break, which makes a paragraph of its own.
      assert.match((await page.locator("#rich").innerText()).replaceAll("\u00a0", " "), /A first paragraph\.\s+The capital of France is \S/);

      await page.locator("#empty").focus();
      await page.keyboard.press("Tab");
      await page.keyboard.press("Control+End");
      await page.keyboard.press(SHORTCUT);
      await completion(cdp);
      await page.keyboard.press("Escape");

      await page.frameLocator("#frame").locator("#inner").focus();
      await page.keyboard.press("Control+End");
      await page.keyboard.press(SHORTCUT);
      const words = await completion(cdp);
      await page.keyboard.press("Tab");
      assert.equal(await page.frameLocator("#frame").locator("#inner").inputValue(), PROMPT + words);
    },
  },
  {
    name: "fields of secrets are left alone",
    async run({ page, cdp }) {
      await page.locator("#shown").focus();
      await page.locator("#shown").evaluate((box) => (box.type = "text"));
      for (const id of ["password", "shown", "card", "code", "named"]) {
        await atEnd(page, `#${id}`);
        await page.keyboard.press(SHORTCUT);
        await new Promise((resolve) => setTimeout(resolve, 1500));
        const { ghost, bubble } = await shown(cdp);
        assert.equal(ghost, "", `#${id}`);
        assert.match(bubble, /secrets alone/, `#${id}`);
        assert.equal(await page.locator(`#${id}`).inputValue(), PROMPT);
      }
      await page.locator("#empty").focus();
      await page.keyboard.press(SHORTCUT);
      await until("a hint", async () => (await shown(cdp)).bubble.includes("a few words first"), 5000);
    },
  },
  {
    name: "it answers again after its service worker was ended",
    async run({ page, cdp, options, workers }) {
      const session = await options.context().newCDPSession(options);
      await session.send("ServiceWorker.enable");
      await session.send("ServiceWorker.stopAllWorkers");
      await until("the end of the service worker", async () => (await workers()).length === 0, 15_000);
      await atEnd(page, "#text");
      await page.keyboard.press(SHORTCUT);
      assert.match(await completion(cdp), /^ Paris\b/);
      await page.keyboard.press("Escape");
    },
  },
  {
    name: "it answers again after its offscreen document was closed",
    async run({ page, cdp, options }) {
      await options.evaluate(() => chrome.offscreen.closeDocument());
      await atEnd(page, "#text");
      await page.keyboard.press(SHORTCUT);
      assert.match(await completion(cdp), /^ Paris\b/);
      await page.keyboard.press("Escape");
    },
  },
  {
    name: "the stored model can be deleted",
    async run({ page, cdp, options }) {
      await options.locator("#forget").click();
      await options.locator("#model[data-state=none]").waitFor();
      await atEnd(page, "#text");
      await page.keyboard.press(SHORTCUT);
      await until("a message", async () => (await shown(cdp)).bubble.includes("no model"));
    },
  },
];

/** Rules that Chrome's store and Manifest V3 set, read from the packed files. */
function readRules(folder) {
  const manifest = JSON.parse(readFileSync(path.join(folder, "manifest.json"), "utf8"));
  const csp = manifest.content_security_policy.extension_pages;
  assert.match(csp, /script-src 'self' 'wasm-unsafe-eval';/);
  assert.match(csp, /worker-src 'self';/);
  for (const page of ["options.html", "offscreen.html"]) {
    const html = readFileSync(path.join(folder, page), "utf8");
    assert.doesNotMatch(html, /<script(?![^>]*src=)|src="(https?:)?\/\/|\son\w+=/, `${page}: inline or remote script`);
  }
}

/**
 * Runs the tests of the extension.
 * @param {{ models?: string, wanted?: string[] }} options `models`: the folder that holds SmolLM2; `wanted`: words of names
 * @returns {Promise<{ passed: number, failed: number }>}
 */
export async function extension({ models = process.env.RIVULET_MODELS ?? "", wanted = [] } = {}) {
  const counts = { passed: 0, failed: 0 };
  const name = (test) => `extension: ${test}`;
  const fits = (test) => wanted.every((word) => name(test).includes(word));
  // The tests tell one story: whoever wants one gets all.
  if (!["packed under MV3's rules", ...tests.map((test) => test.name)].some(fits)) return counts;
  const fail = (test, error) => {
    counts.failed++;
    console.log(`FAIL ${name(test)}: ${String(error.message ?? error).replaceAll(/\s+/g, " ").slice(0, 600)}`);
  };
  const ok = (test, ms) => {
    counts.passed++;
    console.log(`ok ${name(test)} (${(ms / 1000).toFixed(1)} s)`);
  };

  const zip = path.join(repo, "www/extension/rivulet-extension.zip");
  if (!existsSync(zip)) {
    fail("packed", new Error("www/extension/rivulet-extension.zip is not there; run `npm run build -w extension && npm run pack -w extension` in www"));
    return counts;
  }
  const executablePath = chromiumPath();
  if (!executablePath) {
    for (const test of tests) console.log(`skip ${name(test.name)}: Chromium is not installed`);
    return counts;
  }
  const folder = unpack(zip);
  const profile = mkdtempSync(path.join(tmpdir(), "rivulet-profile-"));
  const pages = mkdtempSync(path.join(tmpdir(), "rivulet-page-"));
  writeFileSync(path.join(pages, "index.html"), PAGE);
  const site = await serve({ root: pages });
  let context;
  try {
    try {
      readRules(folder);
      ok("packed under MV3's rules", 0);
    } catch (error) {
      fail("packed under MV3's rules", error);
    }
    const model = path.join(models, MODEL);
    if (!existsSync(model)) {
      for (const test of tests) console.log(`skip ${name(test.name)}: RIVULET_MODELS has no SmolLM2`);
      return counts;
    }
    const { chromium } = require("playwright-core");
    context = await chromium.launchPersistentContext(profile, {
      executablePath,
      headless: true,
      timeout: 60_000,
      viewport: { width: 900, height: 1000 },
      ignoreDefaultArgs: ["--disable-extensions"],
      args: [...CHROMIUM_ARGS, `--disable-extensions-except=${folder}`, `--load-extension=${folder}`, "--disable-features=DisableLoadExtensionCommandLineSwitch"],
    });
    const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent("serviceworker", { timeout: 30_000 }));
    const id = new URL(worker.url()).host;
    const problems = [];
    // The extension opens it by itself when it is installed.
    const address = `chrome-extension://${id}/options.html`;
    const options = await until("the options page", () => context.pages().find((opened) => opened.url() === address), 30_000);
    options.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    options.on("pageerror", (error) => problems.push(String(error)));
    await options.locator("#model").waitFor();
    const page = await context.newPage();
    page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    await page.goto(site.url);
    const cdp = await context.newCDPSession(page);
    const control = await context.newCDPSession(page);
    const workers = async () => {
      const { targetInfos } = await control.send("Target.getTargets");
      return targetInfos.filter((target) => target.type === "service_worker" && target.url.includes(id));
    };
    for (const test of tests) {
      const began = Date.now();
      const say = (text) => console.log(`# ${name(test.name)}: ${text}`);
      try {
        await page.bringToFront();
        await test.run({ page, cdp, options, model, workers, say });
        ok(test.name, Date.now() - began);
      } catch (error) {
        fail(test.name, error);
        if (problems.length > 0) console.log(`# the pages said: ${problems.join(" | ").replaceAll(/\s+/g, " ").slice(0, 600)}`);
        await page.keyboard.press("Escape").catch(() => undefined);
        await page.goto(site.url).catch(() => undefined);
      }
      problems.length = 0;
    }
  } catch (error) {
    fail("starts", error);
  } finally {
    if (context) await Promise.race([context.close().catch(() => undefined), new Promise((resolve) => setTimeout(resolve, 10_000))]);
    await site.close();
    for (const path of [folder, profile, pages]) rmSync(path, { recursive: true, force: true });
  }
  return counts;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { failed } = await extension({ wanted: process.argv.slice(2) });
  process.exit(failed ? 1 : 0);
}
