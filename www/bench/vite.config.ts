import { defineConfig } from "vite";

export default defineConfig({
  // Relative addresses: the page works below any path.
  base: "./",
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    // The polyfill would be an inline script, which the page's CSP refuses, and every browser with WebGPU preloads modules.
    modulePreload: { polyfill: false },
  },
  worker: { format: "es" },
});
