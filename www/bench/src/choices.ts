// The form: what is chosen in it, and what the address of the page asks for. `?synthetic=NAME` or `?model=ADDRESS`, the
// choices by their names (`contexts=0,512&runs=1`), and `?start` to begin at once.

import type { BenchmarkOptions, ModelSource, SyntheticModel } from "rivulet/bench";
import { byId, el } from "./dom";
import { ADDRESS, FILE, groups } from "./models";

const COUNTS = ["promptTokens", "maxTokens", "runs"] as const;
const CONTEXTS = "0, 512, 2048, 8192";

export interface Chosen {
  model: ModelSource | SyntheticModel;
  options: BenchmarkOptions;
}

/** A slip in the form, in words that name it. `field` is the id of where it was made. */
export class Slip extends Error {
  readonly code = "bad-option";
  constructor(
    readonly field: string,
    words: string,
  ) {
    super(words);
  }
}

/** Whole numbers separated by commas or spaces. */
export function parseContexts(text: string): number[] {
  const words = text.split(/[\s,;]+/).filter(Boolean);
  const numbers = words.map(Number);
  const wrong = words.find((_, i) => !Number.isSafeInteger(numbers[i]) || (numbers[i] ?? -1) < 0 || (numbers[i] ?? 0) > 0xffff_ffff);
  if (wrong !== undefined) throw new Slip("contexts", `Context lengths are whole numbers separated by commas, such as ${CONTEXTS}. This is none: ${wrong}`);
  if (numbers.length === 0) throw new Slip("contexts", "Name at least one context length, such as 0.");
  return [...new Set(numbers)].sort((a, b) => a - b);
}

const input = (id: string): HTMLInputElement => byId(id, HTMLInputElement);
const select = (id: string): HTMLSelectElement => byId(id, HTMLSelectElement);

/** Fills the form, with what the address asks for. */
export function fillForm(query: URLSearchParams): void {
  const model = select("model");
  model.append(
    ...groups().map(({ label, choices }) =>
      el("optgroup", { label }, ...choices.map(({ value, words }) => el("option", { value }, words))),
    ),
  );
  const address = query.get("model");
  const synthetic = query.get("synthetic");
  if (address) {
    model.value = ADDRESS;
    input("address").value = address;
  } else if (synthetic && ![...model.options].some((option) => option.value === synthetic)) {
    // Whether there is such a model is the engine's to say.
    model.append(el("option", { value: synthetic, selected: true }, synthetic));
  } else if (synthetic) {
    model.value = synthetic;
  }
  input("contexts").value = query.get("contexts") ?? CONTEXTS;
  for (const name of [...COUNTS, "tier"]) input(name).value = query.get(name) ?? "";
  select("kvType").value = query.get("kvType") === "f32" ? "f32" : "f16";
  input("warmLoad").checked = query.has("warmLoad");
  const more = byId("form").querySelector("details");
  if (more) more.open = [...COUNTS, "tier", "kvType", "warmLoad"].some((name) => query.has(name));
  model.addEventListener("change", showFields);
  showFields();
}

function showFields(): void {
  const { value } = select("model");
  byId("address-field").hidden = value !== ADDRESS;
  byId("file-field").hidden = value !== FILE;
  const named = value !== ADDRESS && value !== FILE;
  byId("model-help").textContent = named ? "Noise for weights, made on the GPU: no download. The size is what it takes there." : "";
}

/** What is chosen. Throws a {@link Slip}. */
export function readForm(): Chosen {
  const options: BenchmarkOptions = { contexts: parseContexts(input("contexts").value) };
  for (const name of COUNTS) {
    const { value, validity, valueAsNumber } = input(name);
    if (!validity.valid) throw new Slip(name, `${byId("form").querySelector(`label[for=${name}]`)?.textContent ?? name}: a whole number is wanted.`);
    if (value !== "") options[name] = valueAsNumber;
  }
  options.kvType = select("kvType").value === "f32" ? "f32" : "f16";
  const tier = input("tier").value.trim();
  if (tier) options.tier = tier;
  options.warmLoad = input("warmLoad").checked;
  return { model: chosenModel(), options };
}

function chosenModel(): ModelSource | SyntheticModel {
  const { value } = select("model");
  if (value === ADDRESS) {
    const address = input("address").value.trim();
    if (!address) throw new Slip("address", "Give the address of a GGUF file.");
    return address.startsWith("hf://") ? address : new URL(address, document.baseURI).href;
  }
  if (value === FILE) {
    const file = input("file").files?.[0];
    if (!file) throw new Slip("file", "Choose a GGUF file.");
    return file;
  }
  return { synthetic: value };
}
