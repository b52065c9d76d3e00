// Rivulet beside its peers: the same model, the same prompt, the same browser, in turn.
//
//   node tests/peers/run.mjs --peers FOLDER [--rounds N] [--tokens N] [--minutes N] [--only chromium,firefox,native]
//                            [--contestants ID,…] [--out FILE]
//
// FOLDER is what setup.sh filled. Environment: RIVULET_MODELS (SmolLM2), RIVULET_BIN (the companion), RIVULET_CHROMIUM,
// RIVULET_FIREFOX. Each round visits every contestant once, in order: a fresh page, a load, a warm-up on another text (so that
// nothing of the prompt is cached), then the prompt, again while that is quick. Everything goes into one JSON file; a table in
// Markdown is printed. Who failed is not tried again, and gets its own error in place of a figure.
import { execFile, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { accessSync, constants, existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import { chromium, firefox } from "../browser/browsers.mjs";
import { serve } from "../tools/serve.mjs";
import { ABSENT, CONTESTANTS } from "./contestants.mjs";
import { compare, markdown, summarise } from "./report.mjs";

const MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf";
const CONTEXT = 1024;
const WARM_UP = "Once upon a time there was a small mill beside a road that nobody used.";
const WARM_UP_TOKENS = 2;
/** A visit repeats the prompt while its runs have taken less than this together, and at most so often. */
const REPEAT_MS = 12_000;
const REPEATS = 3;
/** How long one visit may take in all, where contestants.mjs does not say otherwise. */
const LIMIT_S = 150;
/** No visit of a second or later round is begun that would end after this. */
const MINUTES = 12;

const here = path.dirname(fileURLToPath(import.meta.url));
const repo = path.resolve(here, "../..");
const places = ["chromium", "firefox", "native"];

const fail = (message) => {
  console.error(`peers: ${message}`);
  process.exit(1);
};
const say = (message) => console.error(`== peers: ${message}`);

const options = {
  options: {
    check: { type: "boolean", default: false },
    peers: { type: "string" },
    rounds: { type: "string", default: "2" },
    tokens: { type: "string", default: "32" },
    minutes: { type: "string", default: String(MINUTES) },
    only: { type: "string", default: places.join(",") },
    contestants: { type: "string" },
    out: { type: "string", default: path.join(repo, "target/bench-peers.json") },
  },
};
const { values } = (() => {
  try {
    return parseArgs(options);
  } catch (error) {
    return fail(`${error.message.split("\n")[0]}; the options are ${Object.keys(options.options).map((name) => `--${name}`).join(", ")}`);
  }
})();
const rounds = Number(values.rounds);
const tokens = Number(values.tokens);
const minutes = Number(values.minutes);
const only = values.only.split(",");
const chosen = values.contestants?.split(",");
const known = new Set([...Object.values(CONTESTANTS).flat(), { id: "llama.cpp-1" }, { id: "llama.cpp-2" }].map(({ id }) => id));
if (!(Number.isSafeInteger(rounds) && rounds >= 1) || !(Number.isSafeInteger(tokens) && tokens >= 2) || !(minutes > 0)) fail("--rounds wants 1 or more, --tokens 2 or more, --minutes more than 0");
for (const place of only) if (!places.includes(place)) fail(`--only: ${place} is none of ${places.join(", ")}`);
for (const id of chosen ?? []) if (!known.has(id)) fail(`--contestants: ${id} is none of ${[...known].join(", ")}`);
try {
  if (path.dirname(values.out) === path.join(repo, "target")) mkdirSync(path.join(repo, "target"), { recursive: true });
  accessSync(path.dirname(values.out), constants.W_OK);
} catch (error) {
  fail(`--out: ${values.out} cannot be written (${error.code})`);
}
if (values.check) process.exit(0);
const wanted = (id) => !chosen || chosen.includes(id);

const peers = values.peers;
const modules = path.join(peers ?? "", "node_modules");
const modelFile = path.join(process.env.RIVULET_MODELS ?? "", MODEL);
if (!peers || !existsSync(modules)) fail("--peers names no folder that setup.sh filled");
if (!existsSync(modelFile)) fail(`RIVULET_MODELS has no ${MODEL}`);
if (values.only !== "native" && !existsSync(path.join(repo, "www/sdk/dist/index.js"))) fail("the package is not built: ./build.sh bench --peers builds it");

const promptFile = path.join(here, "prompt.txt");
const prompt = readFileSync(promptFile, "utf8");
const versionOf = (...parts) => JSON.parse(readFileSync(path.join(...parts, "package.json"), "utf8")).version;
const versions = {
  rivulet: versionOf(repo, "www/sdk"),
  wllama: versionOf(modules, "@wllama/wllama"),
  "transformers.js": versionOf(modules, "@huggingface/transformers"),
  "onnxruntime-web": versionOf(modules, "onnxruntime-web"),
};

class LimitError extends Error {}

/** The promise's value, or a LimitError once `ms` are over. */
function within(promise, ms, message) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new LimitError(message)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** An error as one line, with what the page itself complained of where the error says little. */
const oneLine = (text) => String(text).replaceAll(/\s+/g, " ").trim().slice(0, 500);

const began = performance.now();
let leftOut = 0;

/** Whether time is left for another visit of a contestant whose last one took `tookMs`. */
function timeFor(tookMs) {
  if (performance.now() - began + tookMs <= minutes * 60_000) return true;
  leftOut++;
  return false;
}

// ---------------------------------------------------------------------------------------------- in a browser

/** One page of one contestant. @returns the visit, with `ranOnCpu` where a GPU was asked for and not used */
async function visit(page, contestant) {
  const limitS = contestant.limitS ?? LIMIT_S;
  const deadline = performance.now() + limitS * 1000;
  const call = (fn, arg, what) =>
    within(page.evaluate(fn, arg), Math.max(deadline - performance.now(), 1), `${what} was under way when the ${limitS} s of a visit were over`);
  const generate = (text, count, what) => call(([t, n]) => globalThis.peer.generate(t, n), [text, count], what);
  await call(
    async () => {
      for (let i = 0; i < 400 && !globalThis.peer; i++) await new Promise((resolve) => setTimeout(resolve, 50));
      if (!globalThis.peer) throw new Error("the page's script did not load");
    },
    undefined,
    "the page",
  );
  const adapter = await call(() => globalThis.peer.adapter(), undefined, "the adapter");
  const [loadMs, facts] = await call(
    async ([options, file]) => {
      const began = performance.now();
      const loaded = await globalThis.peer.load(options, file);
      return [performance.now() - began, loaded];
    },
    [{ ...contestant.options, contextLength: CONTEXT }, `/models/${MODEL}`],
    "loading",
  );
  const load = os.loadavg()[0];
  // What the libraries want is not in their logs; this is what the page can see.
  const without = adapter && !adapter.f16 ? " (this adapter has no shader-f16)" : "";
  if (facts.ranOnCpu) return { adapter, loadMs, facts, ranOnCpu: facts.ranOnCpu + without, load, runs: [] };
  const began = performance.now();
  const warmUp = await generate(WARM_UP, WARM_UP_TOKENS, "the warm-up");
  const warmUpMs = performance.now() - began;
  if (warmUp.ranOnCpu) return { adapter, loadMs, facts, ranOnCpu: warmUp.ranOnCpu, load, runs: [] };
  const runs = [];
  const start = performance.now();
  do {
    // The same prompt would be found in the KV cache: a number before it makes each its own.
    const text = runs.length === 0 ? prompt : `${runs.length}. ${prompt}`;
    runs.push(await generate(text, contestant.tokens ?? tokens, `run ${runs.length + 1}`));
  } while (runs.length < REPEATS && performance.now() - start < REPEAT_MS);
  return { adapter, loadMs, warmUpMs, facts, load, runs };
}

/** All contestants of one browser, in turn. */
async function inBrowser(name, launch, site) {
  const contestants = CONTESTANTS[name].filter(({ id }) => wanted(id));
  const results = contestants.map((contestant) => ({ contestant, visits: [] }));
  let browser = await launch();
  if (!browser) return { place: name, title: `${name}: not installed`, rows: [], detail: [] };
  const { version } = browser;
  let adapter = null;
  let relaunched = 0;
  for (let round = 1; round <= rounds; round++) {
    for (const result of results) {
      const { contestant } = result;
      if (result.error || result.ranOnCpu || (round > 1 && !timeFor(result.tookMs))) continue;
      const start = performance.now();
      const label = `${name}, round ${round} of ${rounds}, ${contestant.runtime} ${contestant.how}`;
      let page = null;
      try {
        browser ??= await launch();
        page = await browser.open(`${site}${contestant.page}.html`);
        const made = await visit(page, contestant);
        adapter ??= made.adapter;
        if (made.ranOnCpu) result.ranOnCpu = made.ranOnCpu;
        result.visits.push(made);
        const [run] = made.runs;
        say(
          run
            ? `${label}: loaded in ${(made.loadMs / 1000).toFixed(1)} s, prefill ${run.prefillTps.toFixed(1)}, decode ${run.decodeTps?.toFixed(2)} tokens/s`
            : `${label}: ran on the CPU: ${oneLine(made.ranOnCpu)}`,
        );
      } catch (error) {
        const complaint = page?.problems.at(-1);
        const message = oneLine(error.message);
        result.error = complaint && !message.includes(oneLine(complaint)) ? oneLine(`${message}; the page's console: ${complaint}`) : message;
        say(`${label}: ${result.error}`);
        // A page that hangs may leave work with the browser's GPU process: the next one gets a fresh browser.
        await within(browser.close(), 10_000, "closing").catch(() => {});
        browser = null;
        page = null;
        relaunched++;
      }
      await within(page?.close() ?? Promise.resolve(), 10_000, "closing a page").catch(() => {});
      result.tookMs = performance.now() - start;
    }
  }
  await within(browser?.close() ?? Promise.resolve(), 10_000, "closing").catch(() => {});
  const rows = compare(
    results.map(({ contestant, ...rest }) => summarise({ ...contestant, version: versions[contestant.runtime], ...rest })),
  );
  const product = { chromium: "Chromium", firefox: "Firefox" }[name];
  const title = `${product} ${version}, adapter ${adapter ? `${adapter.name || "that the browser does not name"} (f16 ${yes(adapter.f16)}, subgroups ${yes(adapter.subgroups)})` : "none"}`;
  return { place: name, title, browser: version, adapter, relaunched, rows, detail: results };
}

const yes = (flag) => (flag ? "yes" : "no");

// ---------------------------------------------------------------------------------------------- natively

const run = promisify(execFile);

async function llamaCpp(threads, plain = false) {
  const python = path.join(peers, "venv/bin/python");
  const args = [path.join(here, "native.py"), modelFile, promptFile, threads, tokens, 2, ...(plain ? ["plain"] : [])];
  try {
    const { stdout } = await run(python, args.map(String), { timeout: LIMIT_S * 1000 });
    return { ...JSON.parse(stdout), plain };
  } catch (error) {
    if (error.killed) throw new LimitError(`llama.cpp was not done within ${LIMIT_S} s`);
    // Its kernels for AMX crash where a sandbox forbids those instructions.
    if (error.signal && !plain) return llamaCpp(threads, true);
    throw new Error(error.signal ? `ended by ${error.signal}` : error.stderr || error.message);
  }
}

async function companion() {
  const binary = process.env.RIVULET_BIN;
  if (!binary || !existsSync(binary)) throw new Error("RIVULET_BIN names no companion");
  const counted = await run(binary, ["tokenize", modelFile, "--text", prompt, "--json"]);
  const promptTokens = JSON.parse(counted.stdout).ids.length;
  // The prompt from an empty cache on, and decoding after a cache of as many tokens, as everybody else does it.
  const args = ["bench", modelFile, "--json", "--contexts", `0,${promptTokens}`, "--prompt-tokens", promptTokens];
  args.push("--max-tokens", tokens, "--runs", 3);
  const { stdout } = await run(binary, args.map(String), { timeout: LIMIT_S * 1000 }).catch((error) => {
    throw error.killed ? new LimitError(`the companion was not done within ${LIMIT_S} s`) : new Error(error.stderr || error.message);
  });
  const report = JSON.parse(stdout);
  const [{ ttftMs, prefillTps }, { decodeTps }] = report.contexts;
  return { adapter: report.adapter, facts: report, loadMs: report.loadMs, runs: [{ promptTokens, tokens, ttftMs, prefillTps, decodeTps }] };
}

async function natively() {
  const all = [
    { id: "rivulet", runtime: "rivulet", how: "native", go: companion },
    { id: "llama.cpp-1", runtime: "llama.cpp", how: "CPU, 1 thread", go: () => llamaCpp(1) },
    { id: "llama.cpp-2", runtime: "llama.cpp", how: "CPU, 2 threads", go: () => llamaCpp(2) },
  ];
  const results = all.filter(({ id }) => wanted(id)).map((contestant) => ({ contestant, visits: [] }));
  for (let round = 1; round <= rounds; round++) {
    for (const result of results) {
      const { runtime, how, go } = result.contestant;
      if (result.error || (round > 1 && !timeFor(result.tookMs))) continue;
      const start = performance.now();
      const label = `native, round ${round} of ${rounds}, ${runtime} ${how}`;
      try {
        const load = os.loadavg()[0];
        const made = { ...(await go()), load };
        result.visits.push(made);
        const [first] = made.runs;
        say(`${label}: prefill ${first.prefillTps.toFixed(1)}, decode ${first.decodeTps.toFixed(1)} tokens/s`);
      } catch (error) {
        result.error = oneLine(error.message);
        say(`${label}: ${result.error}`);
      }
      result.tookMs = performance.now() - start;
    }
  }
  const visits = (runtime) => results.flatMap((r) => (r.contestant.runtime === runtime ? r.visits : []));
  const rows = results.map(({ contestant: { id, runtime, how }, ...rest }) => {
    const version = runtime === "rivulet" ? versions.rivulet : rest.visits[0]?.version;
    return summarise({ id, runtime: runtime === "llama.cpp" ? "llama-cpp-python" : runtime, how, version, ...rest });
  });
  const plain = visits("llama.cpp").some((v) => v.plain);
  const title =
    `Native, Rivulet on ${visits("rivulet")[0]?.adapter ?? "no adapter"}, llama.cpp on the CPU` +
    (plain ? " (without its AMX kernels, which crashed here)" : "");
  const detail = results.map(({ contestant: { id, runtime, how }, ...rest }) => ({ contestant: { id, runtime, how }, ...rest }));
  return { place: "native", title, rows: compare(rows), detail };
}

// ---------------------------------------------------------------------------------------------- all of it

const loadBefore = os.loadavg()[0];
const commit = (() => {
  try {
    return execFileSync("git", ["describe", "--always", "--dirty"], { cwd: repo, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return "unknown";
  }
})();
const site = await serve({
  root: {
    "/": path.join(here, "pages"),
    "/sdk/": path.join(repo, "www/sdk"),
    "/modules/": modules,
    "/onnx/": path.join(peers, "onnx-models"),
  },
  models: path.dirname(modelFile),
});
const sections = [];
if (only.includes("chromium")) sections.push(await inBrowser("chromium", chromium, site.url));
if (only.includes("firefox")) sections.push(await inBrowser("firefox", firefox, site.url));
if (only.includes("native")) sections.push(await natively());
const counted = sections.flatMap(({ rows }) => rows).find(({ promptTokens }) => promptTokens)?.promptTokens;
await site.close();

const result = {
  kind: "rivulet-peers",
  format: 1,
  date: new Date().toISOString(),
  commit,
  minutes: Number(((performance.now() - began) / 60_000).toFixed(1)),
  machine: { cpu: os.cpus()[0]?.model ?? "unknown", cores: os.cpus().length, memoryGB: Math.round(os.totalmem() / 1e9), loadBefore },
  versions,
  model: { file: MODEL, bytes: statSync(modelFile).size },
  prompt: { tokens: counted ?? null, sha256: createHash("sha256").update(prompt).digest("hex"), contextLength: CONTEXT },
  rounds,
  tokens,
  leftOut,
  sections,
  absent: only.some((place) => place !== "native") ? ABSENT : [],
};
writeFileSync(`${values.out}.part`, JSON.stringify(result, null, 1) + "\n");
renameSync(`${values.out}.part`, values.out);
console.log(markdown(result));
say(`written to ${path.relative(process.cwd(), values.out)}`);
// Peers that cannot run are a finding; Rivulet failing is an error.
const broken = sections.flatMap(({ rows }) => rows).some((row) => row.runtime === "rivulet" && row.status !== "measured");
process.exit(broken ? 1 : 0);
