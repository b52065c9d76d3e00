// The tests of a browser, in the order in which they run. Each gets `page()` (one page for all), `fresh()` (one of its own),
// the golden data, and `say` for measurements. Functions given to `evaluate` run in the page, where `harness` is.
import assert from "node:assert/strict";

const { equal, deepEqual, ok } = assert;

/** Greedy, as long as nothing else is said. Few tokens: a GPU made of a CPU gives a handful of tokens a second. */
const greedy = (maxTokens) => ({ maxTokens, temperature: 0, ignoreEos: true });

const evaluateGenerate = (page, name, prompt, options) =>
  page.evaluate(([n, p, o]) => globalThis.harness.generate(n, p, o), [name, prompt, options]);

const evaluateLoad = (page, name, source, options = {}) =>
  page.evaluate(([n, s, o]) => globalThis.harness.load(n, s, o), [name, source, options]);

const dispose = (page, name) =>
  page.evaluate(async (n) => {
    await globalThis.harness.models.get(n)?.dispose();
    globalThis.harness.models.delete(n);
  }, name);

/** What every way of consuming a run gave must be one and the same. */
function consistent(result) {
  equal(result.error, undefined, `the run failed: ${JSON.stringify(result.error)}`);
  equal(result.iterated, result.text, "the streamed text is not the final text");
  equal(result.called, result.text, "onToken's text is not the final text");
  deepEqual(result.iteratedIds, result.tokens, "the streamed ids are not the final ids");
  ok(result.logprobs.every((p) => p <= 0 && p > -50), `log-probabilities: ${result.logprobs}`);
  deepEqual(result.indices, result.tokens.map((_, i) => i), "onToken was not called once a token, in order");
}

/** SmolLM2, loaded once and kept for the tests that follow. */
async function smollm2(t) {
  if (!t.model) t.skip("RIVULET_MODELS has no SmolLM2");
  const page = await t.page();
  if (!(await page.evaluate(() => globalThis.harness.models.has("smollm2")))) {
    // f32 for the cache: the golden ids were computed with it.
    const began = Date.now();
    const { info, phases } = await evaluateLoad(page, "smollm2", t.model, { contextLength: 512, kvType: "f32" });
    const phaseMs = Object.entries(info.loadPhases).map(([phase, ms]) => `${phase} ${Math.round(ms)}`);
    t.say(`loaded in ${((Date.now() - began) / 1000).toFixed(1)} s: ${phaseMs.join(", ")}; ${JSON.stringify(info.device)}`);
    deepEqual(phases, ["header", "tokenizer", "weights", "kernels"]);
    equal(info.architecture, "llama");
    equal(info.quantization, "Q4_1");
    equal(info.vocabularySize, 49152);
  }
  return page;
}

export const tests = [
  {
    name: "every linked shader compiles",
    async run(t) {
      if (!t.shaders) t.skip("neither RIVULET_SHADERS nor RIVULET_BIN is given");
      const page = await t.fresh();
      const { compiled, pipelines, failed, skipped, info } = await page.evaluate((variants) => globalThis.harness.shaders(variants), t.shaders);
      await page.close();
      t.say(`${compiled} compiled on ${info}, ${pipelines} made pipelines, ${skipped.length} want what it lacks`);
      for (const missing of new Set(skipped.map((s) => s.missing))) {
        const count = skipped.filter((s) => s.missing === missing).length;
        console.log(`skip ${t.browser.name}: ${count} shaders with ${missing}: this adapter lacks it`);
      }
      for (const { file, label, message } of failed.slice(0, 20)) t.say(`${file} (${label}): ${message}`);
      equal(failed.length, 0, `${failed.length} failed, such as ${failed[0]?.label}: ${failed[0]?.message}`);
      ok(compiled > 0);
    },
  },
  {
    name: "what is supported is said before anything is downloaded",
    async run(t) {
      if (!t.tiny) t.skip("tests/data/models/q-llama is not there");
      const page = await t.page();
      const { info, support } = await page.evaluate(async (url) => {
        const model = await globalThis.harness.inspectModel(url);
        return { info: model, support: await globalThis.harness.checkSupport(model, { contextLength: 256 }) };
      }, `${t.tiny.url}Q4_0.gguf`);
      equal(info.architecture, "llama");
      equal(info.quantization, "Q4_0");
      equal(info.vocabularySize, 512);
      deepEqual(info.unsupported, []);
      equal(support.ok, true, support.reasons.join("; "));
      ok(support.memoryBytes > info.weightBytes);
      ok(support.adapter);
    },
  },
  {
    name: "precision fast multiplies packed bytes",
    async run(t) {
      if (!t.tiny?.has("Q4_0.gguf")) t.skip("tests/data/models/q-llama is not there");
      const page = await t.page();
      const prompt = t.tiny.golden.prompt_ids.short;
      const { info } = await evaluateLoad(page, "tiny", `${t.tiny.url}Q4_0.gguf`, { contextLength: 128, precision: "fast" });
      ok(info.device.tier.endsWith("+int8"), info.device.tier);
      const result = await evaluateGenerate(page, "tiny", prompt, greedy(8));
      await dispose(page, "tiny");
      consistent(result);
      equal(result.tokens.length, 8);
      t.say(`${info.device.tier}: ${result.tokens}`);
    },
  },
  {
    name: "small models of every format continue as the reference does",
    async run(t) {
      if (!t.tiny) t.skip("tests/data/models/q-llama is not there");
      const page = await t.page();
      const wrong = [];
      let count = 0;
      for (const { format, file, prompts } of t.tiny.golden.formats) {
        // SwiftShader takes ten seconds to compile a model's kernels. All formats run on it natively (tests/kernels.rs).
        if (t.browser.name === "chromium" && !["Q4_0", "Q5_K_M", "F16", "IQ2_XS", "MXFP4"].includes(format)) continue;
        if (!t.tiny.has(file)) continue;
        const prompt = prompts.find((p) => p.name === "short") ?? prompts[0];
        // Up to the first step at which the two best tokens are too close to call.
        const close = prompt.greedy_margins.findIndex((margin) => margin < 2e-2);
        const expected = prompt.greedy_f32_dequant.slice(0, Math.min(close < 0 ? 8 : close, 8));
        if (expected.length === 0) continue;
        await evaluateLoad(page, "tiny", t.tiny.url + file, { contextLength: 128, kvType: "f32" });
        const result = await evaluateGenerate(page, "tiny", t.tiny.golden.prompt_ids[prompt.name], greedy(expected.length));
        await dispose(page, "tiny");
        count++;
        consistent(result);
        if (JSON.stringify(result.tokens) !== JSON.stringify(expected)) wrong.push(`${format}: ${result.tokens} for ${expected}`);
      }
      t.say(`${count} formats`);
      ok(count > 0);
      deepEqual(wrong, []);
    },
  },
  {
    name: "a split GGUF model, by address, in arrays and as Files",
    async run(t) {
      const page = await t.page();
      const files = [1, 2, 3].map((i) => `/data/split/tiny-0000${i}-of-00003.gguf`);
      const ids = [5, 260, 300, 7, 411, 33, 260, 90];
      const load = { contextLength: 64, kvType: "f32" };
      await evaluateLoad(page, "split", files[1], load);
      const first = await evaluateGenerate(page, "split", ids, greedy(6));
      consistent(first);
      const found = await page.evaluate(
        async ([urls, prompt, options]) => {
          const { inspectModel, loadModel, outcome, models } = globalThis.harness;
          const blobs = await Promise.all(urls.map(async (url) => (await fetch(url)).blob()));
          const named = blobs.map((blob, i) => new File([blob], urls[i].split("/").pop()));
          const sources = { addresses: urls.toReversed(), blobs, files: named.toReversed() };
          const tensors = {};
          for (const [name, source] of Object.entries(sources)) tensors[name] = (await inspectModel(source)).parameters;
          const of = async (source) => (await outcome(loadModel(source, options))).error;
          const errors = {
            missing: await of(named.slice(0, 2)),
            cut: await of([named[0], new File([blobs[1].slice(0, 9000)], named[1].name), named[2]]),
            absent: await of("/data/split/tiny-00001-of-00004.gguf"),
            quantize: (await outcome(loadModel(named, { ...options, quantize: "q8_0" }))).error,
          };
          // What was loaded before is as it was.
          const again = await models.get("split").generate(prompt, { maxTokens: 6, temperature: 0, ignoreEos: true }).done;
          return { tensors, errors, again: again.tokens };
        },
        [files, ids, load],
      );
      await dispose(page, "split");
      deepEqual(found.again, first.tokens);
      equal(new Set(Object.values(found.tensors)).size, 1, JSON.stringify(found.tensors));
      const { missing, cut, absent, quantize } = found.errors;
      deepEqual([missing?.code, cut?.code, absent?.code, quantize?.code], ["network", "bad-file", "network", "bad-option"]);
      ok(missing.message.includes("tiny-00003-of-00003.gguf"), missing.message);
      ok(cut.message.includes("tiny-00002-of-00003.gguf"), cut.message);
    },
  },
  {
    name: "a directory of safetensors continues as transformers does",
    async run(t) {
      const page = await t.page();
      const golden = await page.evaluate(async () => (await fetch("/data/hf/llama/golden.json")).json());
      const close = golden.greedy_margins.findIndex((margin) => margin < 2e-2);
      const expected = golden.greedy_q8_0.slice(0, Math.min(close < 0 ? 8 : close, 8));
      const { info, phases } = await evaluateLoad(page, "hf", "/data/hf/llama/", { contextLength: 64, kvType: "f32" });
      const result = await evaluateGenerate(page, "hf", golden.prompt_ids.short, greedy(expected.length));
      await dispose(page, "hf");
      consistent(result);
      deepEqual(result.tokens, expected);
      deepEqual([info.architecture, info.vocabularySize, info.quantization], ["llama", 512, "Q8_0"]);
      ok(phases.includes("weights"), phases.join());
      // The same from a picked folder, with four bits; and a folder without one of its files.
      const found = await page.evaluate(async () => {
        const { loadModel, outcome } = globalThis.harness;
        const names = ["config.json", "tokenizer.json", "model.safetensors.index.json"];
        const shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
        const files = [];
        for (const name of [...names, ...shards]) files.push(new File([await (await fetch(`/data/hf/llama/${name}`)).blob()], name));
        const model = await loadModel(files, { contextLength: 64, quantize: "q4_0" });
        const { quantization } = model.info;
        const floats = (await globalThis.harness.inspectModel(files, { quantize: "none" })).quantization;
        await model.dispose();
        const error = (await outcome(loadModel(files.slice(0, -1), { contextLength: 64 }))).error;
        return { quantization, floats, error };
      });
      ok(["Q4_0", "Q8_0"].includes(found.quantization), found.quantization);
      equal(found.floats, "F16");
      equal(found.error?.code, "network");
      ok(found.error.message.includes("model-00002-of-00002.safetensors"), found.error.message);
    },
  },
  {
    name: "small models of every family continue as the reference does",
    async run(t) {
      const page = await t.page();
      let played = 0;
      // SwiftShader takes ten seconds to compile a model's kernels: one model for each kind of kernel.
      const sample = ["gpt2", "olmo2", "lfm2-tiny", "qwen35-tiny", "qwen2moe-tiny"];
      for (const { name, golden, url } of t.families) {
        if (t.browser.name === "chromium" && !sample.includes(name)) continue;
        const wanted = (golden.prompts ?? []).filter((prompt) => prompt.greedy?.transformers);
        for (const prompt of wanted.slice(0, 1)) {
          // Up to the first step at which the two best tokens are too close to call. CPU adapters multiply in f32 in every tier.
          const steps = prompt.greedy.margins.findIndex((margin) => margin < 2e-2);
          const ids = prompt.greedy.transformers.slice(0, Math.min(steps < 0 ? 8 : steps, 8));
          if (ids.length === 0) continue;
          await evaluateLoad(page, name, url, { kvType: "f32", autotune: false });
          const answer = await evaluateGenerate(page, name, prompt.ids, greedy(ids.length));
          consistent(answer);
          deepEqual(answer.tokens, ids, `${name}: greedy tokens`);
          await dispose(page, name);
          played++;
        }
      }
      t.say(`${played} families`);
      ok(played >= 4, `only ${played} models were played`);
    },
  },
  {
    name: "an embeddings model gives the reference's vectors, and generates nothing",
    async run(t) {
      const page = await t.page();
      const url = "/data/models-embed/bert-mean/";
      await evaluateLoad(page, "embed", `${url}model.gguf`, { kvType: "f32", autotune: false });
      const found = await page.evaluate(async (folder) => {
        const { models, outcome } = globalThis.harness;
        const golden = await (await fetch(`${folder}golden.json`)).json();
        const floats = new Float32Array(await (await fetch(`${folder}golden.f32`)).arrayBuffer());
        const model = models.get("embed");
        const vectors = await model.embed(golden.texts.map(({ text }) => text), { pooling: "mean", normalize: false });
        // Each text's vectors by mean, cls and last, one after another.
        const worst = golden.texts.map(({ offset }, i) =>
          Math.max(...vectors[i].map((v, k) => Math.abs(v - floats[offset + k]))),
        );
        const unit = await model.embed(golden.texts[0].text, { dimensions: 16 });
        const length = Math.hypot(...unit);
        const error = (await outcome(model.generate("hello", { maxTokens: 1 }).done)).error;
        return { worst, length, n: unit.length, code: error?.code };
      }, url);
      await dispose(page, "embed");
      ok(Math.max(...found.worst) < 1e-4, `vectors differ by ${found.worst}`);
      ok(Math.abs(found.length - 1) < 1e-5 && found.n === 16);
      equal(found.code, "unsupported-architecture");
    },
  },
  {
    name: "adapters change an answer, and are taken back",
    async run(t) {
      const page = await t.page();
      await evaluateLoad(page, "adapted", "/data/models/llama-spm/model.gguf", { kvType: "f32", autotune: false });
      const ids = [1, 376, 285, 667];
      const answer = async (adapters) => (await evaluateGenerate(page, "adapted", ids, { ...greedy(8), adapters })).tokens;
      const plain = await answer([]);
      const adapter = { source: "/data/adapters/llama-all.gguf" };
      const changed = await answer([adapter]);
      ok(changed.join() !== plain.join(), "the adapter changed nothing");
      deepEqual(await answer([]), plain);
      deepEqual(await answer([adapter]), changed);
      const wrong = await evaluateGenerate(page, "adapted", ids, { ...greedy(8), adapters: [{ source: "/data/adapters/gemma-all.gguf" }] });
      equal(wrong.error?.code, "bad-file", JSON.stringify(wrong.error));
      deepEqual(await answer([]), plain);
      await dispose(page, "adapted");
    },
  },
  {
    name: "damaged files end in results or errors",
    async run(t) {
      if (!t.tiny) t.skip("tests/data/models/q-llama is not there");
      const page = await t.fresh();
      const { codes, bad, failed, slowest } = await page.evaluate((arg) => globalThis.harness.corruptions(arg), {
        url: `${t.tiny.url}Q4_0.gguf`,
        headerLength: 13_000,
        count: 1000,
        loads: t.browser.name === "chromium" ? 12 : 60,
        options: { contextLength: 64 },
      });
      await page.close();
      t.say(`${JSON.stringify(codes)}; the slowest header took ${Math.round(slowest)} ms`);
      equal(failed, 0, JSON.stringify(bad));
      ok(codes.header > 100 && codes["bad-file"] > 200 && codes.generated > 0, `the damage is too light or too heavy: ${JSON.stringify(codes)}`);
      ok(slowest < 5000, `a header took ${slowest} ms`);
    },
  },
  {
    name: "SmolLM2's text and ids",
    async run(t) {
      const page = await smollm2(t);
      for (const { text, ids } of t.golden.prompts) {
        const found = await page.evaluate(async (input) => {
          const model = globalThis.harness.models.get("smollm2");
          const tokens = await model.tokenize(input);
          return { ids: [...tokens], back: await model.detokenize(tokens), count: await model.countTokens(input) };
        }, text);
        deepEqual(found.ids, ids, `ids of ${JSON.stringify(text.slice(0, 20))}`);
        equal(found.back, text);
        equal(found.count, ids.length);
      }
      const rendered = await page.evaluate(
        (content) => globalThis.harness.models.get("smollm2").applyChatTemplate([{ role: "user", content }]),
        t.golden.chat.user,
      );
      ok(rendered.includes(`<|im_start|>user\n${t.golden.chat.user}<|im_end|>`), rendered);
      ok(rendered.endsWith("<|im_start|>assistant\n"), rendered);
    },
  },
  {
    name: "SmolLM2 continues as the f32 reference does",
    async run(t) {
      const page = await smollm2(t);
      const { text, greedy: expected } = t.golden.prompts[0];
      const result = await evaluateGenerate(page, "smollm2", text, greedy(12));
      consistent(result);
      deepEqual(result.tokens, expected.slice(0, 12));
      equal(result.finishReason, "length");
      equal(result.usage.promptTokens, 5);
      equal(result.usage.completionTokens, 12);
      t.say(`first token after ${Math.round(result.timings.ttftMs)} ms, then ${result.timings.decodeTps.toFixed(2)} tokens/s`);
    },
  },
  {
    name: "SmolLM2 answers in a chat, and tokens stream",
    async run(t) {
      const page = await smollm2(t);
      const result = await evaluateGenerate(page, "smollm2", [{ role: "user", content: t.golden.chat.user }], { maxTokens: 16, temperature: 0 });
      consistent(result);
      equal(result.text, t.golden.chat.answer);
      equal(result.finishReason, "stop");
      ok(result.spread > 0, "all tokens came at once");
      t.say(`${result.usage.promptTokens} prompt tokens at ${result.timings.prefillTps.toFixed(1)} tokens/s`);
    },
  },
  {
    name: "abort ends a run with what there is, and the next is right",
    async run(t) {
      const page = await smollm2(t);
      const { text, greedy: expected } = t.golden.prompts[0];
      const aborted = await page.evaluate(async (prompt) => {
        const controller = new AbortController();
        let at = 0;
        const run = globalThis.harness.models.get("smollm2").generate(prompt, {
          maxTokens: 200,
          temperature: 0,
          ignoreEos: true,
          signal: controller.signal,
          onToken: ({ index }) => {
            if (index === 1) {
              at = performance.now();
              controller.abort();
            }
          },
        });
        const result = await run.done;
        return { ...result, took: performance.now() - at };
      }, text);
      equal(aborted.finishReason, "aborted");
      ok(aborted.tokens.length >= 2 && aborted.tokens.length < 40, `${aborted.tokens.length} tokens`);
      deepEqual(aborted.tokens.slice(0, 2), expected.slice(0, 2));
      t.say(`the abort took ${Math.round(aborted.took)} ms`);
      ok(aborted.took < 1500, `the abort took ${aborted.took} ms`);
      const broken = await page.evaluate(async (prompt) => {
        const run = globalThis.harness.models.get("smollm2").generate(prompt, { maxTokens: 200, temperature: 0, ignoreEos: true });
        for await (const { index } of run) if (index === 0) break;
        return (await run.done).finishReason;
      }, text);
      equal(broken, "aborted");
      const next = await evaluateGenerate(page, "smollm2", text, greedy(4));
      consistent(next);
      deepEqual(next.tokens, expected.slice(0, 4));
    },
  },
  {
    name: "a long prompt leaves the page alone, and ends at once",
    async run(t) {
      const page = await smollm2(t);
      const ids = Array.from({ length: 300 }, (_, i) => 1000 + ((i * 7919) % 40_000));
      const smooth = await page.evaluate(([n, p]) => globalThis.harness.smoothness(n, p), ["smollm2", ids]);
      equal(smooth.error, undefined, `the run failed: ${JSON.stringify(smooth.error)}`);
      const { prefillSubmits, longestSubmitMs, prefillTps } = smooth.timings;
      t.say(
        `${ids.length} tokens at ${prefillTps.toFixed(1)} tokens/s in ${prefillSubmits} submits, the longest ${longestSubmitMs?.toFixed(0)} ms; ` +
          `longest task ${smooth.longestTaskMs ?? "not reported"} ms, ${smooth.framesPerSecond.toFixed(0)} frames/s, longest frame ${smooth.longestFrameMs.toFixed(0)} ms`,
      );
      ok(prefillSubmits > 10, `${prefillSubmits} submits`);
      ok((smooth.longestTaskMs ?? 0) <= 50, `a task of the page took ${smooth.longestTaskMs} ms`);
      const aborted = await page.evaluate(async (prompt) => {
        const controller = new AbortController();
        const run = globalThis.harness.models.get("smollm2").generate(prompt, { maxTokens: 9, signal: controller.signal });
        await new Promise((resolve) => setTimeout(resolve, 300));
        const at = performance.now();
        controller.abort();
        const { finishReason, tokens, timings } = await run.done;
        return { finishReason, tokens, timings, took: performance.now() - at };
      }, ids.toReversed());
      t.say(`aborted after ${aborted.timings.prefillSubmits} submits; that took ${aborted.took.toFixed(0)} ms`);
      deepEqual([aborted.finishReason, aborted.tokens], ["aborted", []]);
      ok(aborted.took < 1500, `the abort took ${aborted.took} ms`);
      const { text, greedy: expected } = t.golden.prompts[0];
      const next = await evaluateGenerate(page, "smollm2", text, greedy(4));
      deepEqual(next.tokens, expected.slice(0, 4));
    },
  },
  {
    name: "two generations at once do not interleave",
    async run(t) {
      const page = await smollm2(t);
      const { text, greedy: expected } = t.golden.prompts[0];
      const { texts, order, queued, counted } = await page.evaluate(async (prompt) => {
        const model = globalThis.harness.models.get("smollm2");
        const seen = [];
        const options = (name) => ({ maxTokens: 4, temperature: 0, ignoreEos: true, onToken: () => seen.push(name) });
        const controller = new AbortController();
        const a = model.generate(prompt, options("a"));
        const b = model.generate(prompt, options("b"));
        const c = model.generate(prompt, { ...options("c"), signal: controller.signal });
        controller.abort();
        const first = await c.done;
        const doneFirst = seen.length === 0;
        // Texts are counted while an answer is made.
        const counted = (await model.countTokens(prompt)) && seen.length < 4;
        const results = await Promise.all([a.done, b.done]);
        return { counted, texts: results.map((r) => r.tokens), order: seen.join(""), queued: doneFirst ? first.finishReason : "late" };
      }, text);
      deepEqual(texts, [expected.slice(0, 4), expected.slice(0, 4)]);
      equal(order, "aaaabbbb");
      equal(queued, "aborted");
      ok(counted, "counting tokens waited for the answer");
    },
  },
  {
    name: "seeds and stop strings",
    async run(t) {
      const page = await smollm2(t);
      const { text } = t.golden.prompts[0];
      const sampled = { maxTokens: 5, temperature: 1, topK: 40, topP: 0.95, seed: 7, ignoreEos: true };
      const [one, two] = [await evaluateGenerate(page, "smollm2", text, sampled), await evaluateGenerate(page, "smollm2", text, sampled)];
      consistent(one);
      deepEqual(one.tokens, two.tokens, "the same seed gave different tokens");
      const stopped = await evaluateGenerate(page, "smollm2", text, { ...greedy(12), stop: "The" });
      consistent(stopped);
      equal(stopped.finishReason, "stop-string");
      ok(!stopped.text.includes("The"), stopped.text);
    },
  },
  {
    name: "wrong options are named",
    async run(t) {
      const page = await smollm2(t);
      const errors = await page.evaluate(async () => {
        const { models, outcome, loadModel } = globalThis.harness;
        const model = models.get("smollm2");
        const of = async (promise) => (await outcome(promise)).error ?? null;
        return {
          unknown: await of(model.generate("a", { topp: 0.5 }).done),
          range: await of(model.generate("a", { topP: 7 }).done),
          context: await of(model.generate("word ".repeat(3000)).done),
          kv: await of(loadModel("/x.gguf", { kvType: "q3" })),
          precision: await of(loadModel("/x.gguf", { precision: "half" })),
          missing: await of(loadModel("/missing.gguf")),
          notModel: await of(loadModel(new Blob(["<!doctype html><p>404</p>"]))),
        };
      });
      equal(errors.unknown?.code, "bad-option");
      ok(errors.unknown.message.includes("topp"));
      equal(errors.range?.code, "bad-option");
      ok(errors.range.message.includes("topP"), errors.range.message);
      equal(errors.context?.code, "context-overflow");
      equal(errors.kv?.code, "bad-option");
      equal(errors.precision?.code, "bad-option");
      equal(errors.missing?.code, "network");
      ok(errors.missing.message.includes("404"), errors.missing.message);
      equal(errors.notModel?.code, "bad-file");
    },
  },
  {
    name: "a second page has a model of its own",
    async run(t) {
      await smollm2(t);
      const { text, greedy: expected } = t.golden.prompts[0];
      const page = await t.fresh();
      await evaluateLoad(page, "smollm2", t.model, { contextLength: 128, kvType: "f32" });
      const result = await evaluateGenerate(page, "smollm2", text, greedy(3));
      consistent(result);
      deepEqual(result.tokens, expected.slice(0, 3));
      await page.close();
      const first = await t.page();
      deepEqual((await evaluateGenerate(first, "smollm2", text, greedy(3))).tokens, expected.slice(0, 3));
    },
  },
  {
    name: "dispose, and load again",
    async run(t) {
      const page = await smollm2(t);
      const { text, greedy: expected } = t.golden.prompts[0];
      const after = await page.evaluate(async (prompt) => {
        const { models, outcome } = globalThis.harness;
        const model = models.get("smollm2");
        const run = model.generate(prompt, { maxTokens: 50, temperature: 0 });
        const iterator = run[Symbol.asyncIterator]();
        await iterator.next();
        await Promise.all([model.dispose(), model.dispose()]);
        models.delete("smollm2");
        return { pending: (await outcome(run.done)).error, later: (await outcome(model.generate("a").done)).error };
      }, text);
      equal(after.pending?.code, "disposed");
      equal(after.later?.code, "disposed");
      // The default f16 cache this time, from a Blob, in place.
      const again = await page.evaluate(
        async ([url, prompt]) => {
          const { loadModel } = globalThis.harness;
          const blob = await (await fetch(url)).blob();
          const model = await loadModel([blob.slice(0, 1000), blob.slice(1000)], { contextLength: 128, worker: false });
          const result = await model.generate(prompt, { maxTokens: 3, temperature: 0, ignoreEos: true }).done;
          await model.dispose();
          return { ...result, wasmBytes: await globalThis.harness.wasmBytes() };
        },
        [t.model, text],
      );
      deepEqual(again.tokens, expected.slice(0, 3));
      t.say(`${(again.wasmBytes / 2 ** 20).toFixed(1)} MiB of WebAssembly memory`);
      ok(again.wasmBytes < 64 * 2 ** 20, `${again.wasmBytes} bytes of WebAssembly memory; weights must not be held there`);
    },
  },
  {
    name: "a lost device rejects what is pending",
    async run(t) {
      if (!t.tiny) t.skip("tests/data/models/q-llama is not there");
      const page = await t.fresh();
      const { run, lost } = await page.evaluate(async (url) => {
        const { loadModel, outcome } = globalThis.harness;
        const { requestDevice } = GPUAdapter.prototype;
        let device;
        GPUAdapter.prototype.requestDevice = async function (...args) {
          device = await requestDevice.apply(this, args);
          return device;
        };
        const model = await loadModel(url, { worker: false, contextLength: 128 });
        GPUAdapter.prototype.requestDevice = requestDevice;
        const pending = model.generate([1, 2, 3], { maxTokens: 100, ignoreEos: true });
        await pending[Symbol.asyncIterator]().next();
        device.destroy();
        const result = { run: (await outcome(pending.done)).error, lost: (await model.lost).code };
        await model.dispose();
        return result;
      }, `${t.tiny.url}Q4_0.gguf`);
      await page.close();
      equal(run?.code, "device-lost", JSON.stringify([run, lost]));
      equal(lost, "device-lost");
    },
  },
];
