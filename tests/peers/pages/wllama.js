// wllama: llama.cpp compiled to wasm.
import { Wllama } from "/modules/@wllama/wllama/esm/index.js";
import { Stopwatch, adapter } from "./stopwatch.js";

let wllama;

/** What llama.cpp logged while it loaded, which is where it says on which device it runs. */
const log = [];
const note = (...words) => log.push(words.join(" ").trim());

/** Why a run that was to be on the GPU was not, in the library's own words; null where it was. */
function fellBack() {
  const assigned = log.map((line) => /layer\s+\d+ assigned to device (\w+)/.exec(line)).filter(Boolean);
  if (assigned.some(([, device]) => /webgpu/i.test(device))) return null;
  return assigned.length > 0 ? `its log says of every layer: "${assigned[0][0]}"` : "its log names no GPU";
}

globalThis.peer = {
  adapter,

  async load({ contextLength, threads, gpu }, file) {
    wllama = new Wllama(
      { default: "/modules/@wllama/wllama/esm/wasm/wllama.wasm" },
      { suppressNativeLog: !gpu, logger: { debug: note, log: note, warn: note, error: note } },
    );
    const blob = await (await fetch(file)).blob();
    await wllama.loadModel([blob], {
      n_ctx: contextLength,
      n_threads: threads,
      n_gpu_layers: gpu ? 999 : 0,
      warmup: true,
      // Only the debug log says which device a layer is on.
      ...(gpu ? { log_level: 1 } : {}),
    });
    return {
      threads: wllama.getNumThreads(),
      llamaCpp: Wllama.getLibllamaVersion(),
      ranOnCpu: gpu ? fellBack() : null,
    };
  },

  async generate(prompt, maxTokens) {
    const watch = new Stopwatch();
    const chunks = await wllama.createCompletion({
      prompt,
      max_tokens: maxTokens,
      stream: true,
      timings_per_token: true,
      temperature: 0,
      top_k: 1,
      ignore_eos: true,
      cache_prompt: false,
    });
    let text = "";
    let own;
    for await (const chunk of chunks) {
      const piece = chunk.choices?.[0]?.text ?? "";
      // The last chunk holds counts and no token.
      if (piece !== "") watch.token();
      text += piece;
      own = chunk.timings ?? own;
    }
    const result = watch.result({ promptTokens: own.prompt_n, tokens: own.predicted_n, text });
    return { ...result, cached: own.cache_n ?? 0, own };
  },
};
