// Rivulet as a page uses it: the built package, its defaults, its worker.
import { loadModel } from "/sdk/dist/index.js";
import { Stopwatch, adapter } from "./stopwatch.js";

let model;

globalThis.peer = {
  adapter,

  async load({ contextLength }, file) {
    model = await loadModel(file, { contextLength });
    return { device: model.info.device };
  },

  async generate(prompt, maxTokens) {
    const watch = new Stopwatch();
    const run = model.generate(prompt, { maxTokens, temperature: 0, ignoreEos: true, onToken: () => watch.token() });
    const { text, usage, timings } = await run.done;
    return { ...watch.result({ promptTokens: usage.promptTokens, text }), cached: usage.cachedTokens, own: timings };
  },
};
