// The two real browsers, headless, behind one small interface: a page that opens an address and evaluates functions.
// Chromium is driven by playwright-core over SwiftShader, Firefox by puppeteer-core (WebDriver BiDi) over lavapipe.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

// The drivers are among www's modules; this folder has none of its own.
const require = createRequire(new URL("../../www/package.json", import.meta.url));

const onPath = (...names) => {
  for (const name of names) {
    for (const folder of (process.env.PATH ?? "").split(path.delimiter)) {
      const file = path.join(folder, name);
      if (folder && existsSync(file)) return file;
    }
  }
  return null;
};

export const chromiumPath = () =>
  process.env.RIVULET_CHROMIUM ?? process.env.CHROMIUM ?? onPath("chromium", "chromium-browser", "google-chrome", "google-chrome-stable");
const firefoxPath = () => process.env.RIVULET_FIREFOX ?? process.env.FIREFOX ?? onPath("firefox-esr", "firefox");

export const CHROMIUM_ARGS = [
  "--no-sandbox",
  "--enable-unsafe-webgpu",
  "--use-webgpu-adapter=swiftshader",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** How long one evaluated function may take, in milliseconds. */
const EVALUATE_MS = 400_000;

/**
 * @typedef {{ evaluate(fn: Function, arg?: unknown): Promise<any>, close(): Promise<void>, raw: any, problems: string[] }} Page
 * `problems` collects what the page reports as errors: console errors, uncaught exceptions.
 * @typedef {{ name: string, version: string, open(url: string): Promise<Page>, close(): Promise<void> }} Browser
 */

/** Chromium, or null where it is not installed. @returns {Promise<Browser | null>} */
export async function chromium({ args = [] } = {}) {
  const executablePath = chromiumPath();
  if (!executablePath) return null;
  const { chromium: driver } = require("playwright-core");
  const browser = await driver.launch({ executablePath, headless: true, args: [...CHROMIUM_ARGS, ...args], timeout: 60_000 });
  const context = await browser.newContext();
  return {
    name: "chromium",
    version: browser.version(),
    async open(url) {
      const page = await context.newPage();
      const problems = [];
      page.on("console", (message) => {
        if (message.type() === "error") problems.push(message.text());
      });
      page.on("pageerror", (error) => problems.push(String(error)));
      await page.goto(url, { timeout: 60_000 });
      return { raw: page, problems, evaluate: (fn, arg) => timed(page.evaluate(fn, arg)), close: () => page.close() };
    },
    close: () => browser.close(),
  };
}

/** Firefox, or null where it is not installed. @returns {Promise<Browser | null>} */
export async function firefox() {
  const executablePath = firefoxPath();
  if (!executablePath) return null;
  const { default: puppeteer } = await import(require.resolve("puppeteer-core"));
  const browser = await puppeteer.launch({
    browser: "firefox",
    executablePath,
    headless: true,
    protocolTimeout: EVALUATE_MS,
    timeout: 90_000,
    extraPrefsFirefox: { "dom.webgpu.enabled": true, "gfx.webgpu.ignore-blocklist": true, "dom.webgpu.workers.enabled": true },
  });
  return {
    name: "firefox",
    version: (await browser.version()).replace(/^firefox\//i, ""),
    async open(url) {
      const page = await browser.newPage();
      const problems = [];
      page.on("console", (message) => {
        if (message.type() === "error") problems.push(message.text());
      });
      page.on("pageerror", (error) => problems.push(String(error)));
      await page.goto(url, { timeout: 60_000 });
      return { raw: page, problems, evaluate: (fn, arg) => timed(page.evaluate(fn, arg)), close: () => page.close() };
    },
    close: () => browser.close(),
  };
}

function timed(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing came back within ${EVALUATE_MS / 1000} s`)), EVALUATE_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
