// A GGUF file from the reader's own disk: by the picker, or dropped anywhere on the page. Nothing is uploaded.

import { byId } from "./dom";

/** Calls `open` with the file, or `refuse` with plain words. */
export function fileDoors(open: (file: File) => void, refuse: (words: string) => void): { pick: () => void } {
  const input = byId("file", HTMLInputElement);
  const veil = byId("drop");

  const take = (files: FileList | null | undefined): void => {
    const file = files?.[0];
    if (!file) return refuse("What was dropped is not a file.");
    if (files.length > 1) return refuse("Please drop one GGUF file; a model in several files has to be joined first.");
    if (file.size === 0) return refuse(`${file.name} is empty.`);
    open(file);
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
