// The built chat page in real browsers, as a person uses it: from a sub path, under its own CSP, with keys and pointer.
//
//   node tests/browser/chat.mjs [WORD…]     // or as part of tests/browser/run.mjs
//
// Prints `ok NAME`, `FAIL NAME: why`, `skip NAME: why`.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { serve } from "../tools/serve.mjs";
import { CHROMIUM_ARGS, chromiumPath, firefox } from "./browsers.mjs";

const require = createRequire(new URL("../../www/package.json", import.meta.url));
const repo = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");

const MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf";
const QUESTION = "What is the capital of France?";
const ANSWER = "The capital of France is Paris.";
/** Loading, or one answer, on a GPU made of two busy cores. */
const PATIENCE_MS = 240_000;
const SUB_PATH = "some/where/";

/** Runs in the page before its own scripts: collects what must not happen, and what is read afterwards. */
function watch() {
  window.seen = { csp: [], shift: 0, status: [] };
  addEventListener("securitypolicyviolation", (event) => window.seen.csp.push(`${event.violatedDirective}: ${event.blockedURI}`));
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.seen.shift += entry.value;
  }).observe({ type: "layout-shift", buffered: true });
  addEventListener("DOMContentLoaded", () => {
    const note = () => {
      const { phase, step } = document.querySelector("#status").dataset;
      window.seen.status.push(`${phase} ${step ?? ""} ${document.querySelector("#status").innerText.replace(/\s+/g, " ")}`);
    };
    new MutationObserver(note).observe(document.querySelector("#status"), { subtree: true, childList: true, characterData: true, attributes: true });
  });
}

const answers = (page) => page.locator("[data-role=assistant]");
const lastAnswer = (page) => answers(page).last();
const box = (page) => page.getByLabel("Message", { exact: true });
const phase = (page, name) => page.locator(`#status[data-phase=${name}]`).waitFor({ timeout: PATIENCE_MS });
const done = (page) => page.locator("article.answer:last-of-type [data-state=done]").waitFor({ timeout: PATIENCE_MS });

async function ask(page, text) {
  await box(page).fill(text);
  await page.keyboard.press("Enter");
}

const tests = [
  {
    name: "stands without a model, and fetches none unasked",
    async run({ open }) {
      const page = await open("?temperature=0", { before: (p) => p.on("request", (request) => p.asked.push(request.url())) });
      await phase(page, "idle");
      assert.ok(page.asked.length > 2 && !page.asked.some((url) => url.includes(".gguf")), "no model was fetched");
      assert.equal(await page.locator("#load").innerText(), "Load model");
      assert.ok(await page.getByRole("button", { name: "Send", exact: true }).isDisabled(), "there is nothing to send");
      assert.equal(await page.evaluate(() => document.querySelector("a, button, input, textarea").className), "skip", "the skip link comes first");
      await page.locator(".skip").focus();
      assert.ok(await page.locator(".skip").evaluate((link) => link.getBoundingClientRect().top >= 0), "it is seen once it has the focus");
      await page.keyboard.press("Enter");
      assert.equal(await page.evaluate(() => document.activeElement.id), "prompt");
      await page.close();
    },
  },
  {
    name: "says honestly what is missing where there is no WebGPU",
    async run({ open }) {
      const page = await open("", { before: (p) => p.addInitScript(() => Object.defineProperty(Navigator.prototype, "gpu", { get: () => undefined })) });
      await phase(page, "unsupported");
      const words = await page.locator("#missing").innerText();
      assert.match(words, /no WebGPU/);
      assert.match(words, /Chrome and Edge .* Safari .* Firefox/s);
      assert.match(words, /chrome:\/\/flags/);
      assert.ok(await box(page).isDisabled());
      await page.close();
      const blocked = await open("", { before: (p) => p.addInitScript(() => (GPU.prototype.requestAdapter = async () => null)) });
      await phase(blocked, "unsupported");
      assert.match(await blocked.locator("#missing").innerText(), /no GPU answers/);
      await blocked.close();
    },
  },
  {
    name: "settings are kept, and reached by keys alone",
    async run({ open }) {
      const page = await open("");
      await page.locator("#open-settings").focus();
      await page.keyboard.press("Enter");
      await page.getByLabel("Temperature", { exact: true }).waitFor();
      await page.getByLabel("Temperature, exact").fill("0.7");
      await page.getByLabel("Longest answer, exact").fill("99999");
      await page.getByLabel("System prompt").fill("Answer in French.");
      await page.keyboard.press("Escape");
      assert.equal(await page.evaluate(() => document.activeElement.id), "open-settings", "the focus goes back");
      await page.reload();
      await page.locator("#open-settings").click();
      assert.equal(await page.getByLabel("Temperature, exact").inputValue(), "0.7");
      assert.equal(await page.getByLabel("Longest answer, exact").inputValue(), "4096", "a number is kept within its bounds");
      assert.equal(await page.getByLabel("System prompt").inputValue(), "Answer in French.");
      await page.getByRole("button", { name: "Back to the defaults" }).click();
      assert.equal(await page.getByLabel("System prompt").inputValue(), "");
      await page.close();
    },
  },
  {
    name: "a file that is no model is refused in plain words, by picker and by drop",
    async run({ open }) {
      const page = await open("");
      await page.locator("#file").setInputFiles({ name: "letter.gguf", mimeType: "application/octet-stream", buffer: Buffer.from("Dear Sir or Madam") });
      await phase(page, "error");
      assert.equal(await page.locator("#status").getAttribute("data-code"), "bad-file");
      assert.match(await page.locator("#start .trouble").innerText(), /not a whole GGUF file/);
      const drop = (files) =>
        page.evaluate((names) => {
          const data = new DataTransfer();
          for (const name of names) data.items.add(new File(["not a model"], name));
          document.body.dispatchEvent(new DragEvent("dragenter", { dataTransfer: data, bubbles: true, cancelable: true }));
          const veiled = !document.querySelector("#drop").hidden;
          document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
          return veiled;
        }, files);
      assert.equal(await drop(["one.gguf", "two.gguf"]), true, "the page says that it takes files");
      assert.match(await page.locator(".notice").innerText(), /one GGUF file/);
      await drop(["dropped.gguf"]);
      await page.locator("#start-name", { hasText: "dropped.gguf" }).waitFor();
      await phase(page, "error");
      await page.close();
      const missing = await open("?load&model=missing.gguf");
      await phase(missing, "error");
      assert.equal(await missing.locator("#status").getAttribute("data-code"), "network");
      await missing.close();
    },
  },
  {
    name: "all files of a model, by picker: a split GGUF, and a directory of safetensors",
    async run({ open }) {
      const data = path.join(repo, "tests/data");
      const page = await open("");
      await page.locator("#file").setInputFiles([2, 1, 3].map((i) => path.join(data, `split/tiny-0000${i}-of-00003.gguf`)));
      await phase(page, "ready");
      assert.match(await page.locator("#status-detail").innerText(), /^tiny, 3 files on /);
      const names = ["config.json", "tokenizer.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
      await page.locator("#file").setInputFiles(names.map((name) => path.join(data, "hf/llama", name)));
      await page.locator("#status-detail", { hasText: "safetensors, 5 files on " }).waitFor();
      await phase(page, "ready");
      await page.close();
    },
  },
  {
    name: "markdown of any model is harmless and does not flicker",
    async run({ markdown }) {
      const page = await markdown();
      const attacks = [
        "<script>window.hit = 1</script>",
        "<img src=x onerror='window.hit = 1'>",
        "![x](x \"y\" onerror=window.hit=1)",
        "[a](javascript:window.hit=1)",
        "[a](java\nscript:window.hit=1)",
        "[a](data:text/html,<script>window.hit=1</script>)",
        "<a href='javascript:window.hit=1'>x</a>",
        "<svg><animate onbegin='window.hit=1' attributeName=x dur=1s>",
        "<iframe srcdoc='<script>parent.hit=1</script>'></iframe>",
        "```x\" onload=\"window.hit=1\n<b>code</b>\n```",
        "<style>*{display:none}</style>",
        "| <img src=x onerror=window.hit=1> |\n|---|\n| <form action=//evil><input name=a> |",
        "- [ ] <input onfocus=window.hit=1 autofocus>",
        "<math><mtext><table><mglyph><style><img src=x onerror=window.hit=1>",
      ];
      const result = await page.evaluate(async (texts) => {
        const { MarkdownView } = await import("./markdown.js");
        const bad = [];
        for (const text of texts) {
          const root = document.createElement("div");
          document.body.append(root);
          const view = new MarkdownView(root);
          for (let end = 1; end <= text.length; end++) view.update(text.slice(0, end), end < text.length);
          view.update(text, false);
          for (const element of root.querySelectorAll("*")) {
            if (/^(script|img|svg|iframe|style|form|math|object|embed)$/i.test(element.localName)) bad.push(`${text}: <${element.localName}>`);
            for (const { name, value } of element.attributes) {
              if (/^on|^style$|^src/i.test(name) || /^\s*(javascript|data):/i.test(value)) bad.push(`${text}: ${name}=${value}`);
            }
          }
        }
        await new Promise((resolve) => setTimeout(resolve, 300));
        if (window.hit) bad.push("a script ran");

        // What is written stays the same nodes while more arrives, and the end is what drawing it at once gives.
        const text = "# Title\n\nFirst **bold** and `code`.\n\n- one\n- two\n\n```js\nlet a = 1;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nLast words.";
        const growing = document.createElement("div");
        const view = new MarkdownView(growing);
        let first = null;
        let kept = true;
        for (let end = 1; end <= text.length; end++) {
          view.update(text.slice(0, end), true);
          if (end > 9) {
            first ??= growing.firstChild;
            kept &&= growing.firstChild === first;
          }
        }
        view.update(text, false);
        const whole = document.createElement("div");
        new MarkdownView(whole).update(text, false);
        return { bad, kept, same: growing.innerHTML === whole.innerHTML, tags: [...new Set([...whole.querySelectorAll("*")].map((e) => e.localName))].sort().join(" ") };
      }, attacks);
      assert.deepEqual(result.bad, []);
      assert.ok(result.kept, "a finished block was drawn again");
      assert.ok(result.same, "streaming ends in another document than drawing at once");
      assert.match(result.tags, /code .*figure .*h1 .*li .*p pre .*strong .*table/);
      await page.close();
    },
  },
  {
    name: "loads with figures, and answers in a stream",
    needs: "model",
    async run({ shared, say }) {
      const began = Date.now();
      const page = await shared();
      await page.locator("#load").click();
      assert.equal(await page.evaluate(() => document.activeElement.id), "prompt", "the reader can write at once");
      await phase(page, "ready");
      say(`loaded in ${((Date.now() - began) / 1000).toFixed(1)} s`);
      const { status, shift } = await page.evaluate(() => window.seen);
      const bytes = status.filter((line) => /\d MB of \d+(\.\d)? MB/.test(line));
      assert.ok(bytes.length > 1, `bytes were shown: ${status.slice(0, 5).join(" | ")}`);
      assert.ok(bytes.some((line) => /B\/s/.test(line)), "a rate was shown");
      assert.match(await page.locator("#status-detail").innerText(), /SmolLM2.* on .+ · /, "the device is named");
      assert.ok(shift < 0.02, `the page moved while it loaded: ${shift}`);

      await page.evaluate(() => {
        window.lengths = new Set();
        new MutationObserver(() => window.lengths.add(document.querySelector("[data-role=assistant]")?.textContent.length)).observe(document.querySelector("#log"), { subtree: true, childList: true, characterData: true });
      });
      await ask(page, QUESTION);
      assert.equal(await box(page).inputValue(), "");
      assert.equal(await page.locator("[data-role=user]").innerText(), QUESTION);
      await page.getByRole("button", { name: "Stop", exact: true }).waitFor();
      await done(page);
      assert.equal(await lastAnswer(page).innerText(), ANSWER);
      assert.ok((await page.evaluate(() => window.lengths.size)) > 3, "the answer came in pieces");
      const figures = await page.locator(".figures").innerText();
      say(figures);
      assert.match(figures, /tokens\/s · .+ to the first token · \d+ tokens/);
      assert.match(await page.locator("#spoken").textContent(), /Paris/, "a screen reader hears the answer");
      assert.equal(await page.evaluate(() => document.activeElement.id), "prompt");
    },
  },
  {
    name: "Esc stops, Regenerate answers again, New chat clears",
    needs: "model",
    async run({ shared, say }) {
      const page = await shared();
      if ((await page.locator("#status").getAttribute("data-phase")) !== "ready") {
        await page.locator("#load").click();
        await phase(page, "ready");
      }
      await ask(page, "Count from one to one hundred in words.");
      await page.waitForFunction(() => [...document.querySelectorAll("[data-role=assistant]")].at(-1)?.textContent.length > 5, null, { timeout: PATIENCE_MS });
      const began = Date.now();
      await page.keyboard.press("Escape");
      await done(page);
      say(`the stop took ${Date.now() - began} ms`);
      const stopped = await lastAnswer(page).innerText();
      assert.ok(stopped.length > 5);
      assert.match(await page.locator("article.answer:last-of-type .hint").innerText(), /Stopped/);
      await page.getByRole("button", { name: "Send", exact: true }).waitFor();

      const count = await answers(page).count();
      await page.getByRole("button", { name: "Regenerate" }).click();
      await page.waitForFunction((length) => [...document.querySelectorAll("[data-role=assistant]")].at(-1)?.textContent.length >= length, Math.min(stopped.length, 12), { timeout: PATIENCE_MS });
      await page.getByRole("button", { name: "Stop", exact: true }).click();
      await done(page);
      assert.equal(await answers(page).count(), count, "the answer took the old one's place");
      assert.equal((await lastAnswer(page).innerText()).slice(0, 6), stopped.slice(0, 6), "greedy answers begin alike");
      await page.getByRole("button", { name: "New chat" }).click();
      assert.equal(await answers(page).count(), 0);
      assert.ok(await page.locator("#welcome").isVisible());
      assert.equal(await page.evaluate(() => document.activeElement.id), "prompt");
      assert.deepEqual((await page.evaluate(() => window.seen)).csp, []);
    },
  },
  {
    name: "a question before the model loads it, on a phone, in a GGUF of one's own",
    needs: "model",
    async run({ open, model }) {
      const page = await open("?temperature=0&maxTokens=16", { viewport: { width: 360, height: 640 } });
      const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.equal(await overflow(), 0, "nothing scrolls sideways");
      await page.locator("#file").setInputFiles(model);
      await ask(page, QUESTION);
      await done(page);
      assert.equal(await lastAnswer(page).innerText(), ANSWER);
      assert.equal(await overflow(), 0, "nothing scrolls sideways");
      assert.match(await page.locator("#status-detail").innerText(), /SmolLM2/);
      const small = await page.evaluate(() =>
        [...document.querySelectorAll("button:not([hidden])")]
          .filter((button) => button.checkVisibility({ visibilityProperty: true }) && button.getBoundingClientRect().height < 24)
          .map((button) => button.textContent),
      );
      assert.deepEqual(small, [], "buttons that a finger misses");
      await page.close();
    },
  },
];

/** Firefox: the page loads the model and answers as in Chromium. */
async function inFirefox(site, say) {
  const browser = await firefox();
  if (!browser) return "Firefox is not installed";
  try {
    const page = await browser.open(`${site.url}${SUB_PATH}?temperature=0&maxTokens=16`);
    await page.evaluate((text) => {
      const field = document.querySelector("#prompt");
      field.value = text;
      field.dispatchEvent(new Event("input", { bubbles: true }));
      document.querySelector("#send").click();
    }, QUESTION);
    const end = Date.now() + PATIENCE_MS;
    for (;;) {
      const now = await page.evaluate(() => ({
        state: document.querySelector("[data-role=assistant]")?.dataset.state,
        text: document.querySelector("[data-role=assistant]")?.innerText,
        trouble: document.querySelector(".trouble:not([hidden])")?.innerText ?? "",
        status: document.querySelector("#status")?.innerText,
        figures: document.querySelector(".figures")?.innerText,
      }));
      if (now.state === "done") {
        say(now.figures);
        assert.equal(now.text, ANSWER);
        assert.deepEqual(page.problems, []);
        return null;
      }
      assert.ok(!now.trouble && now.state !== "error", `the page says: ${now.trouble}`);
      assert.ok(Date.now() < end, `no answer within ${PATIENCE_MS / 1000} s; the page says: ${now.status}`);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  } finally {
    await Promise.race([browser.close().catch(() => undefined), new Promise((resolve) => setTimeout(resolve, 10_000))]);
  }
}

/** Bundles the page's markdown renderer by itself, so that a test can feed it what no model would say on demand. */
async function bundleMarkdown(folder) {
  const { build } = await import(pathToFileURL(require.resolve("vite")).href);
  await build({
    configFile: false,
    logLevel: "error",
    root: path.join(repo, "www/chat"),
    publicDir: false,
    build: { outDir: folder, emptyOutDir: false, lib: { entry: path.join(repo, "www/chat/src/markdown.ts"), formats: ["es"], fileName: () => "markdown.js" } },
  });
}

/**
 * Runs the tests of the chat page.
 * @param {{ models?: string, wanted?: string[] }} options `models`: the folder that holds SmolLM2; `wanted`: words of names
 * @returns {Promise<{ passed: number, failed: number }>}
 */
export async function chat({ models = process.env.RIVULET_MODELS ?? "", wanted = [] } = {}) {
  const counts = { passed: 0, failed: 0 };
  const FIREFOX = "answers in Firefox";
  const fits = (name) => wanted.every((word) => `chat: ${name}`.includes(word));
  const line = (error) => String(error?.message ?? error).replaceAll(/\s+/g, " ").slice(0, 600);
  const skip = (name, why) => console.log(`skip chat: ${name}: ${why}`);
  const report = async (name, work) => {
    const began = Date.now();
    try {
      const why = await work((text) => console.log(`# chat: ${name}: ${text}`));
      if (why) return skip(name, why);
      counts.passed++;
      console.log(`ok chat: ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
    } catch (error) {
      counts.failed++;
      console.log(`FAIL chat: ${name}: ${line(error)}`);
    }
  };
  const selected = tests.filter((test) => fits(test.name));
  if (selected.length === 0 && !fits(FIREFOX)) return counts;

  const dist = path.join(repo, "www/chat/dist");
  if (!existsSync(path.join(dist, "index.html"))) {
    counts.failed++;
    console.log("FAIL chat: built: www/chat/dist is not there; run `npm run build -w chat` in www");
    return counts;
  }
  const model = existsSync(path.join(models, MODEL)) ? path.join(models, MODEL) : null;
  const scratch = mkdtempSync(path.join(tmpdir(), "rivulet-markdown-"));
  const root = { [`/${SUB_PATH}`]: dist, "/markdown/": scratch };
  if (model) root[`/${SUB_PATH}models/`] = models;
  const site = await serve({ root });
  const executablePath = chromiumPath();
  let browser;
  let page;
  try {
    if (executablePath && selected.length > 0) {
      const { chromium } = require("playwright-core");
      browser = await chromium.launch({ executablePath, headless: true, args: CHROMIUM_ARGS, timeout: 60_000 });
    }
    const open = async (query, { viewport = { width: 1280, height: 800 }, before } = {}) => {
      const opened = await (await browser.newContext({ viewport })).newPage();
      opened.asked = [];
      await opened.addInitScript(watch);
      await before?.(opened);
      await opened.goto(`${site.url}${SUB_PATH}${query}`, { timeout: 60_000 });
      return opened;
    };
    const shared = async () => (page ??= await open("?temperature=0&maxTokens=160"));
    const markdown = async () => {
      await bundleMarkdown(scratch);
      const opened = await browser.newPage();
      await opened.goto(`${site.url}markdown/markdown.js`);
      // The renderer alone, without the CSP that stands behind it on the page.
      await opened.route("**/blank.html", (route) => route.fulfill({ contentType: "text/html", body: "<!doctype html><title>markdown</title>" }));
      await opened.goto(`${site.url}markdown/blank.html`);
      return opened;
    };
    for (const test of selected) {
      if (!executablePath) skip(test.name, "Chromium is not installed");
      else if (test.needs === "model" && !model) skip(test.name, "RIVULET_MODELS has no SmolLM2");
      else {
        await report(test.name, async (say) => {
          try {
            await test.run({ open, shared, markdown, model, say });
          } catch (error) {
            await page?.close().catch(() => undefined);
            page = undefined;
            throw error;
          }
        });
      }
    }
    await Promise.race([browser?.close().catch(() => undefined), new Promise((resolve) => setTimeout(resolve, 10_000))]);
    browser = undefined;
    if (fits(FIREFOX)) {
      if (model) await report(FIREFOX, (say) => inFirefox(site, say));
      else skip(FIREFOX, "RIVULET_MODELS has no SmolLM2");
    }
  } catch (error) {
    counts.failed++;
    console.log(`FAIL chat: starts: ${line(error)}`);
  } finally {
    await browser?.close().catch(() => undefined);
    await site.close();
    rmSync(scratch, { recursive: true, force: true });
  }
  return counts;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { failed } = await chat({ wanted: process.argv.slice(2) });
  process.exit(failed ? 1 : 0);
}
