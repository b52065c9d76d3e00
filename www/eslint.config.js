import js from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["**/dist/**", "**/wasm/**", "**/node_modules/**", "**/*.d.ts"] },
  js.configs.recommended,
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { project: ["*/tsconfig.json", "*/tsconfig.test.json"], tsconfigRootDir: import.meta.dirname } },
    rules: {
      // Numbers in messages are what templates are for.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // A body that does nothing is how a promise's failure is declined.
      "@typescript-eslint/no-confusing-void-expression": "off",
      // Callers of a package are not all type-checked: what the types promise is checked at its borders.
      "@typescript-eslint/no-unnecessary-condition": "off",
    },
  },
  { files: ["**/*.js", "**/*.mjs"], languageOptions: { globals: { console: "readonly", process: "readonly", URL: "readonly" } } },
);
