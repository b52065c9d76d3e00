// A model from the reader's own disk, one file or all of its files: by the picker, or dropped anywhere on the page. Nothing is
// uploaded.

import { byId } from "./dom";

/** What several files are together: the shards of one GGUF model, or a model in safetensors. Null where they are no one model. */
export function together(files: readonly { name: string }[]): string | null {
  const names = files.map((file) => file.name);
  if (names.includes("config.json") && names.some((name) => name.endsWith(".safetensors"))) return `safetensors, ${names.length} files`;
  const stems = new Set(names.map((name) => /^(.+)-\d{5}-of-\d{5}\.gguf$/.exec(name)?.[1]));
  const [stem] = stems;
  return stems.size === 1 && stem !== undefined ? `${stem}, ${names.length} files` : null;
}

/** Calls `open` with the files of one model and its name, or `refuse` with plain words. */
export function fileDoors(open: (files: File[], name: string) => void, refuse: (words: string) => void): { pick: () => void } {
  const input = byId("file", HTMLInputElement);
  const veil = byId("drop");

  const take = (files: FileList | null | undefined): void => {
    const all = [...(files ?? [])];
    const [file] = all;
    if (!file) return refuse("What was dropped is not a file.");
    const name = all.length === 1 ? file.name : together(all);
    if (name === null) return refuse("Please drop one GGUF file, or all files of one model.");
    const empty = all.find(({ size }) => size === 0);
    if (empty) return refuse(`${empty.name} is empty.`);
    open(all, name);
  };

  input.addEventListener("change", () => {
    if (input.files?.length) take(input.files);
    input.value = "";
  });

  // dragenter and dragleave come for every element passed over: count them.
  let depth = 0;
  const hasFiles = (event: DragEvent): boolean => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const show = (on: boolean): void => {
    veil.hidden = !on;
  };
  addEventListener("dragenter", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    depth += 1;
    show(true);
  });
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    if (event.dataTransfer) event.dataTransfer.dropEffect = "copy";
  });
  addEventListener("dragleave", (event) => {
    if (!hasFiles(event)) return;
    depth = Math.max(0, depth - 1);
    if (depth === 0) show(false);
  });
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    depth = 0;
    show(false);
    take(event.dataTransfer?.files);
  });

  return { pick: () => input.click() };
}
