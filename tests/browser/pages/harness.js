// What the tests call inside a page. It stands on the built package alone, by its public names.
import * as rivulet from "/sdk/dist/index.js";

const { loadModel, inspectModel, checkSupport } = rivulet;

/** A failure as data, so that it can leave the page. */
const failure = (error) => ({ name: error?.name, code: error?.code, message: String(error?.message ?? error) });

/** The outcome of a promise as data. */
const outcome = (promise) => promise.then((value) => ({ value }), (error) => ({ error: failure(error) }));

/** Models by name, kept between calls of one page. */
const models = new Map();

async function load(name, source, options) {
  const phases = [];
  let progress = 0;
  const model = await loadModel(source, {
    ...options,
    onProgress: (p) => {
      progress++;
      if (phases.at(-1) !== p.phase) phases.push(p.phase);
    },
  });
  models.set(name, model);
  return { info: { ...model.info, chatTemplate: model.info.chatTemplate?.length ?? 0 }, phases, progress };
}

/** Bytes of the WebAssembly memory of models that are in place; it never shrinks, so this is the peak. */
async function wasmBytes() {
  const { default: init } = await import("/sdk/wasm/rivulet.js");
  return (await init()).memory.buffer.byteLength;
}

/** Runs a generation in every way of consuming it at once, and says whether they agree. */
async function generate(name, prompt, options) {
  const called = [];
  const run = models.get(name).generate(prompt, { ...options, onToken: (token) => called.push(token) });
  const iterated = [];
  const times = [];
  try {
    for await (const token of run) {
      iterated.push(token);
      times.push(performance.now());
    }
  } catch {
    // run.done says it too
  }
  const { value, error } = await outcome(run.done);
  return {
    ...value,
    error,
    iterated: iterated.map((t) => t.text).join(""),
    iteratedIds: iterated.map((t) => t.id),
    called: called.map((t) => t.text).join(""),
    indices: called.map((t) => t.index),
    logprobs: called.map((t) => t.logprob),
    spread: times.length > 1 ? times.at(-1) - times[0] : 0,
  };
}

/**
 * Computes a prompt while the page animates a box, and says how the page fared: its longest task (where the browser reports long
 * ones), frames a second, and the longest time between two frames.
 */
async function smoothness(name, ids, options) {
  const box = document.createElement("div");
  box.style.cssText = "width: 50px; height: 50px; background: teal";
  document.body.append(box);
  box.animate({ transform: ["rotate(0turn)", "rotate(1turn)"] }, { duration: 1000, iterations: Infinity });
  const tasks = [];
  const seen = (list) => tasks.push(...list.getEntries().map((entry) => entry.duration));
  const reported = PerformanceObserver.supportedEntryTypes.includes("longtask");
  const observer = new PerformanceObserver(seen);
  if (reported) observer.observe({ type: "longtask" });
  let [frames, longestFrameMs, last, going] = [0, 0, performance.now(), true];
  const began = last;
  const frame = () => {
    const now = performance.now();
    longestFrameMs = Math.max(longestFrameMs, now - last);
    last = now;
    frames++;
    if (going) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  const run = models.get(name).generate(ids, { maxTokens: 1, temperature: 0, ...options });
  const { value, error } = await outcome(run.done);
  const ms = performance.now() - began;
  going = false;
  seen({ getEntries: () => observer.takeRecords() });
  observer.disconnect();
  box.remove();
  const longestTaskMs = reported ? Math.max(0, ...tasks) : null;
  return { error, timings: value?.timings, usage: value?.usage, ms, framesPerSecond: (frames * 1000) / ms, longestFrameMs, longestTaskMs };
}

/** splitmix64, as in tests/common/mod.rs. */
class Rng {
  constructor(seed) {
    this.state = BigInt(seed);
  }
  next() {
    const wrap = (x) => BigInt.asUintN(64, x);
    this.state = wrap(this.state + 0x9e3779b97f4a7c15n);
    let z = this.state;
    z = wrap((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
    z = wrap((z ^ (z >> 27n)) * 0x94d049bb133111ebn);
    return z ^ (z >> 31n);
  }
  below(n) {
    return Number(this.next() % BigInt(n));
  }
  bytes(n) {
    return Uint8Array.from({ length: n }, () => Number(this.next() >> 56n));
  }
}

/** Numbers that overflow when they are added, multiplied or taken for a length. */
const ODD = [0n, 1n, 0x7fffffffn, 0x80000000n, 0xffffffffn, 2n ** 64n - 1n, 2n ** 63n - 1n, 1n << 61n, 1n << 32n];

const splice = (bytes, at, piece) => {
  const result = new Uint8Array(bytes.length + piece.length);
  result.set(bytes.subarray(0, at));
  result.set(piece, at);
  result.set(bytes.subarray(at), at + piece.length);
  return result;
};

/** Damages a copy of `good` as tests/fuzz.rs does natively, with the same kinds of damage in the same shares. */
function damaged(good, headerLength, rng) {
  let bytes = good.slice();
  const rounds = 1 + rng.below(3);
  for (let round = 0; round < rounds; round++) {
    const within = rng.below(2) === 0 ? Math.min(headerLength, bytes.length) : bytes.length;
    if (within === 0) break;
    const at = rng.below(within);
    const length = 1 + rng.below(Math.min(64, bytes.length - at));
    switch (rng.below(8)) {
      case 0:
        bytes[at] ^= 1 << rng.below(8);
        break;
      case 1:
        bytes[at] = Number(rng.next() & 255n);
        break;
      case 2: {
        const odd = new DataView(new ArrayBuffer(8));
        odd.setBigUint64(0, ODD[rng.below(ODD.length)], true);
        const width = Math.min(bytes.length - at, rng.below(2) === 0 ? 4 : 8);
        bytes.set(new Uint8Array(odd.buffer, 0, width), at);
        break;
      }
      case 3:
        bytes = bytes.slice(0, at);
        break;
      case 4: {
        const rest = bytes.slice(at + length);
        bytes = splice(bytes.slice(0, at), at, rest);
        break;
      }
      case 5:
        bytes = splice(bytes, at, rng.bytes(length));
        break;
      case 6: {
        const from = rng.below(bytes.length);
        const piece = Math.min(length, bytes.length - from);
        bytes.copyWithin(Math.min(at, bytes.length - piece), from, from + piece);
        break;
      }
      default: {
        const from = rng.below(bytes.length);
        bytes = splice(bytes, at, bytes.slice(from, from + length));
      }
    }
  }
  return bytes;
}

/**
 * Reads damaged copies. Each must end in a result or in an error with a code other than `internal`.
 * `loads` of them are loaded wholly, with a token generated where that works.
 */
async function corruptions({ url, headerLength, count, loads, options }) {
  const good = new Uint8Array(await (await fetch(url)).arrayBuffer());
  const rng = new Rng(2026);
  const codes = {};
  const bad = [];
  let slowest = 0;
  const judge = (copy, step, error) => {
    codes[error.code] = (codes[error.code] ?? 0) + 1;
    if (error.name !== "RivuletError" || error.code === "internal") bad.push({ copy, step, ...failure(error) });
  };
  for (let copy = 0; copy < count; copy++) {
    const bytes = damaged(good, headerLength, rng);
    const began = performance.now();
    try {
      await inspectModel(bytes, { worker: false });
      codes.header = (codes.header ?? 0) + 1;
    } catch (error) {
      judge(copy, "inspect", error);
    }
    slowest = Math.max(slowest, performance.now() - began);
    if (copy >= loads) continue;
    try {
      const model = await loadModel(bytes, { worker: false, ...options });
      try {
        await model.generate([1, 2, 3], { maxTokens: 2, temperature: 0 }).done;
        codes.generated = (codes.generated ?? 0) + 1;
      } finally {
        await model.dispose();
      }
    } catch (error) {
      judge(copy, "load", error);
    }
  }
  return { codes, bad: bad.slice(0, 5), failed: bad.length, slowest };
}

/** Pipelines of one kernel. SwiftShader takes up to three seconds for each, and a module 10 ms. */
const PIPELINES = 2;

/**
 * Compiles variants as `rivulet shaders` lists them, and makes pipelines of a few of each kernel, with their own overrides and
 * bindings. Resolves with what failed, and with what wants features that this adapter lacks.
 */
async function shaders(variants) {
  const adapter = await navigator.gpu.requestAdapter();
  const features = ["shader-f16", "subgroups"].filter((f) => adapter.features.has(f));
  const { limits } = adapter;
  const requiredLimits = Object.fromEntries(
    ["maxStorageBuffersPerShaderStage", "maxComputeWorkgroupStorageSize", "maxComputeInvocationsPerWorkgroup"].map((l) => [l, limits[l]]),
  );
  const device = await adapter.requestDevice({ requiredFeatures: features, requiredLimits });
  const failed = [];
  const skipped = [];
  const made = new Map();
  let compiled = 0;
  let pipelines = 0;
  for (const { file, label, overrides, f16, subgroups, readOnly } of variants) {
    const missing = [f16 && "shader-f16", subgroups && "subgroups"].find((f) => f && !features.includes(f));
    if (missing) {
      skipped.push({ label, missing });
      continue;
    }
    const code = await (await fetch(`/shaders/${file}`)).text();
    device.pushErrorScope("validation");
    const module = device.createShaderModule({ code });
    const { messages } = await module.getCompilationInfo();
    const scoped = await device.popErrorScope();
    const error = messages.find((m) => m.type === "error");
    if (error || scoped) {
      failed.push({ file, label, message: error ? `${error.lineNum}:${error.linePos} ${error.message}` : scoped.message });
      continue;
    }
    compiled++;
    const kernel = label.split(/[+,]/)[0];
    made.set(kernel, (made.get(kernel) ?? 0) + 1);
    if (made.get(kernel) > PIPELINES) continue;
    const entries = [{ binding: 0, visibility: GPUShaderStage.COMPUTE, buffer: { type: "uniform" } }];
    readOnly.forEach((read, i) => {
      const type = read ? "read-only-storage" : "storage";
      entries.push({ binding: i + 1, visibility: GPUShaderStage.COMPUTE, buffer: { type } });
    });
    const layout = device.createPipelineLayout({ bindGroupLayouts: [device.createBindGroupLayout({ entries })] });
    await device
      .createComputePipelineAsync({ layout, compute: { module, constants: overrides } })
      .then(() => pipelines++)
      .catch((e) => failed.push({ file, label, message: `pipeline: ${e.message}` }));
  }
  device.destroy();
  const info = adapter.info.description || adapter.info.architecture || "an unnamed adapter";
  return { compiled, pipelines, failed, skipped, info };
}

globalThis.harness = { ...rivulet, models, load, generate, smoothness, outcome, failure, corruptions, shaders, wasmBytes, loadModel, inspectModel, checkSupport };
