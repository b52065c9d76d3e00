// transformers.js: onnxruntime-web, on WebGPU or in wasm.
import { AutoModelForCausalLM, AutoTokenizer, env } from "/modules/@huggingface/transformers/dist/transformers.web.js";
import { Stopwatch, adapter, countSubmits } from "./stopwatch.js";

env.allowRemoteModels = false;
env.allowLocalModels = true;
env.localModelPath = "/onnx/";
env.useBrowserCache = false;
env.useWasmCache = false;
env.backends.onnx.wasm.wasmPaths = "/modules/onnxruntime-web/dist/";

const gpu = countSubmits();
let tokenizer;
let model;
let wantsGpu;

globalThis.peer = {
  adapter,

  async load({ folder, device, dtype, threads }) {
    wantsGpu = device === "webgpu";
    env.backends.onnx.wasm.numThreads = threads;
    tokenizer = await AutoTokenizer.from_pretrained(folder);
    model = await AutoModelForCausalLM.from_pretrained(folder, { device, dtype });
    return { threads };
  },

  async generate(prompt, maxTokens) {
    const before = gpu.submits;
    const watch = new Stopwatch();
    const inputs = tokenizer(prompt);
    let puts = 0;
    // The streamer is handed the prompt first.
    const streamer = { put: () => (puts++ === 0 ? undefined : watch.token()), end() {} };
    const output = await model.generate({
      ...inputs,
      max_new_tokens: maxTokens,
      min_new_tokens: maxTokens,
      do_sample: false,
      streamer,
    });
    const promptTokens = inputs.input_ids.dims.at(-1);
    const ids = output.tolist()[0].slice(promptTokens).map(Number);
    const submits = gpu.submits - before;
    return {
      ...watch.result({ promptTokens, text: tokenizer.decode(ids) }),
      cached: 0,
      submits,
      ranOnCpu: wantsGpu && submits === 0 ? "it submitted nothing to the GPU" : null,
    };
  },
};
