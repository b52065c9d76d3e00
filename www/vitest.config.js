import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Unit tests run the package's sources in Node with a small engine in place of the WebAssembly.
export default defineConfig({
  resolve: {
    alias: [{ find: /^\.\.\/wasm\/rivulet\.js$/, replacement: fileURLToPath(new URL("sdk/test/fake-engine.ts", import.meta.url)) }],
  },
  test: { include: ["*/test/**/*.test.ts"], environment: "node" },
});
