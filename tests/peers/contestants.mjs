// Who is measured where. `page` is one of pages/, `options` go to its `load`; `tokens` and `limitS` are set where the default
// of run.mjs would take minutes. Rivulet comes first: the others are compared with it.

/**
 * @typedef {{
 *   id: string, runtime: "rivulet" | "wllama" | "transformers.js", how: string, page: string, file?: string,
 *   options: Record<string, unknown>, tokens?: number, limitS?: number,
 * }} Contestant
 */

const rivulet = { id: "rivulet", runtime: "rivulet", how: "WebGPU", page: "rivulet", options: {} };

const wllama = (id, how, options) => ({ id, runtime: "wllama", how, page: "wllama", options });
const wllama1 = wllama("wllama-1", "wasm, 1 thread", { threads: 1, gpu: false });
const wllama2 = wllama("wllama-2", "wasm, 2 threads", { threads: 2, gpu: false });
const wllamaGpu = { ...wllama("wllama-webgpu", "WebGPU", { threads: 2, gpu: true }), limitS: 90 };

const transformers = (id, how, folder, dtype, device, more = {}) => ({
  id,
  runtime: "transformers.js",
  how,
  page: "transformers",
  file: folder,
  options: { folder, dtype, device, threads: 2 },
  ...more,
});
const transformersGpu = (more) => transformers("transformers-webgpu", "WebGPU, q4", "webgpu-q4", "q4", "webgpu", more);
const transformersWasm = transformers("transformers-wasm", "wasm, q4, 2 threads", "wasm-q4", "q4", "wasm");
const transformersWide = transformers("transformers-wasm-f32", "wasm, f32, 2 threads", "wasm-f32", "fp32", "wasm");

/** @type {Record<"chromium" | "firefox", Contestant[]>} */
export const CONTESTANTS = {
  // On SwiftShader transformers.js takes six seconds for a token.
  chromium: [rivulet, wllama1, wllama2, wllamaGpu, transformersGpu({ tokens: 4, limitS: 380 }), transformersWasm, transformersWide],
  firefox: [rivulet, wllama2, wllamaGpu, transformersGpu({ tokens: 12, limitS: 240 })],
};

/** What is left out for good, and why. */
export const ABSENT = [
  {
    runtime: "web-llm",
    why: "it runs models that were compiled for it ahead of time and come from a host of their own, and cannot load a GGUF file",
  },
];
