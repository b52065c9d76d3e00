// The models to choose from: those by name, an address, a file.

const SIZES: [model: string, words: string, parameters: number][] = [
  ["llama-3.2-1b", "Llama 3.2 1B", 1.236e9],
  ["qwen3-0.6b", "Qwen 3 0.6B", 0.596e9],
  ["qwen3-4b", "Qwen 3 4B", 4.022e9],
  ["llama-3.1-8b", "Llama 3.1 8B", 8.03e9],
];
const FORMATS: [format: string, bits: number][] = [
  ["q4_k", 4.5],
  ["q4_0", 4.5],
  ["q8_0", 8.5],
  ["f16", 16],
];

export interface Choice {
  value: string;
  words: string;
}

/** What stands for an address and for a file. */
export const ADDRESS = "address";
export const FILE = "file";

/** Choices in groups. */
export function groups(): { label: string; choices: Choice[] }[] {
  const named = SIZES.map(([model, words, parameters]) => ({
    label: `${words}, by name`,
    choices: FORMATS.map(([format, bits]) => ({
      value: `${model}:${format}`,
      words: `${words} in ${format}, ${((parameters * bits) / 8 / 1e9).toFixed(1)} GB`,
    })),
  }));
  const own = {
    label: "A real one",
    choices: [
      { value: ADDRESS, words: "A GGUF file at an address…" },
      { value: FILE, words: "A GGUF file on this device…" },
    ],
  };
  return [...named, own];
}
