// The content script: one classic script without imports, which is all that Chrome runs in pages.
import { resolve } from "node:path";

import { defineConfig } from "vite";

export default defineConfig({
  publicDir: false,
  build: {
    target: "chrome124",
    emptyOutDir: false,
    lib: {
      entry: resolve(import.meta.dirname, "src/content.ts"),
      formats: ["iife"],
      name: "rivuletContent",
      fileName: () => "content.js",
    },
  },
});
