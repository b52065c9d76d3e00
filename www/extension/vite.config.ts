// The extension's pages and its service worker, as ES modules. The content script is built by vite.content.config.ts.
import { resolve } from "node:path";

import { defineConfig } from "vite";

const here = import.meta.dirname;

export default defineConfig({
  base: "./",
  build: {
    target: "chrome124",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: {
        offscreen: resolve(here, "offscreen.html"),
        options: resolve(here, "options.html"),
        "service-worker": resolve(here, "src/service-worker.ts"),
      },
      output: {
        // The manifest names it.
        entryFileNames: (chunk) => (chunk.name === "service-worker" ? "service-worker.js" : "assets/[name]-[hash].js"),
      },
    },
  },
  worker: { format: "es" },
});
