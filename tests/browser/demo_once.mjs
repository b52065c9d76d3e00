// Asks the built chat page one question in headless Chromium, greedily, and prints its answer as it streams.
//
//   node tests/browser/demo_once.mjs "PROMPT"
//
// It does what a person does: types into the page's message box, presses Send, reads what appears. The page knows nothing of
// it; `temperature`, `maxTokens` and `model` are address parameters that anybody may use. The answer goes to stdout, everything else to stderr.
import { existsSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { serve } from "../tools/serve.mjs";
import { chromium } from "./browsers.mjs";

const MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf";
const LIMIT_MS = 300_000;
const POLL_MS = 50;

const repo = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const prompt = process.argv[2];
const models = process.env.RIVULET_MODELS ?? "";

function fail(why) {
  console.error(`demo: ${why}`);
  process.exit(1);
}

if (!prompt) fail('expected a prompt: demo_once.mjs "What is the capital of France?"');
const root = path.join(repo, "www/chat/dist");
if (!existsSync(path.join(root, "index.html"))) fail("the chat page is not built; run ./build.sh demo");
if (!existsSync(path.join(models, MODEL))) fail(`RIVULET_MODELS has no ${MODEL}`);

const site = await serve({ root, models });
const browser = await chromium();
if (!browser) fail("Chromium is not installed; name it in RIVULET_CHROMIUM");

/** The last answer's text and state, and the strip that says how far loading is. */
const look = () => {
  const answers = document.querySelectorAll("[data-role=assistant]");
  const answer = answers[answers.length - 1];
  const trouble = [...document.querySelectorAll("[role=alert], .trouble")].filter((box) => !box.hidden && box.textContent.trim());
  return {
    text: answer?.innerText ?? "",
    state: answer?.dataset.state ?? "",
    trouble: trouble.map((box) => box.textContent.trim()).join(" "),
    status: document.querySelector("#status")?.innerText.replace(/\s+/g, " ").trim() ?? "",
  };
};

let status = 0;
try {
  const page = await browser.open(`${site.url}?temperature=0&maxTokens=256&model=${encodeURIComponent(`/models/${MODEL}`)}`);
  await page.raw.getByLabel("Message", { exact: true }).fill(prompt);
  await page.raw.getByRole("button", { name: "Send", exact: true }).click();
  const end = Date.now() + LIMIT_MS;
  let printed = "";
  let said = "";
  for (;;) {
    const { text, state, trouble, status: now } = await page.evaluate(look);
    // What was printed cannot be taken back: text that is drawn anew (a list, say) is printed from where it differs no more.
    if (text.startsWith(printed) && text.length > printed.length) {
      process.stdout.write(text.slice(printed.length));
      printed = text;
    }
    if (!printed && now && now !== said) console.error(`   ${now}`);
    said = now;
    if (state === "done") {
      if (printed !== text) process.stdout.write(`\n${text}`);
      process.stdout.write("\n");
      break;
    }
    if (state === "error" || trouble) throw new Error(`the page says: ${trouble || now}`);
    if (Date.now() > end) throw new Error(`no answer within ${LIMIT_MS / 1000} s; the page says: ${now}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
} catch (error) {
  console.error(`demo: ${error.message}`);
  status = 1;
} finally {
  await Promise.race([browser.close(), new Promise((resolve) => setTimeout(resolve, 5000))]);
  await site.close();
}
process.exit(status);
