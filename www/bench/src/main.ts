// The page for measuring: form in, report out.

import { type Progress, benchmark } from "rivulet/bench";
import { fillForm, readForm } from "./choices";
import { byId, el } from "./dom";
import { Results } from "./results";
import { explain, phaseWords } from "./words";

const query = new URLSearchParams(location.search);
const still = matchMedia("(prefers-reduced-motion: reduce)");
let running: AbortController | undefined;

function trouble(title: string, ...words: string[]): void {
  const box = byId("trouble");
  box.replaceChildren(el("p", { class: "title" }, title), ...words.filter(Boolean).map((text) => el("p", {}, text)));
  box.hidden = false;
}

function show(progress: Progress): void {
  const phase = byId("phase");
  const words = `${phaseWords(progress.phase)}…`;
  // Said aloud where it changes only.
  if (phase.textContent !== words) phase.textContent = words;
  const { loaded, total } = progress;
  const runs = progress.phase === "measure" && total > 0;
  byId("count").textContent = runs ? `run ${Math.min(loaded + 1, total)} of ${total}` : total > 1 ? `${Math.floor((100 * loaded) / total)} %` : "";
  const bar = byId("bar", HTMLProgressElement);
  // Where nothing is known the browser moves a piece of the bar about.
  if (total > 1) bar.value = loaded / total;
  else if (still.matches) bar.value = 0;
  else bar.removeAttribute("value");
}

function setRunning(controller: AbortController | undefined): void {
  running = controller;
  byId("form").toggleAttribute("data-running", controller !== undefined);
  byId("start", HTMLButtonElement).disabled = controller !== undefined;
  byId("stop").hidden = controller === undefined;
  byId("running").hidden = controller === undefined;
}

async function measure(): Promise<void> {
  if (running) return;
  byId("trouble").hidden = true;
  const controller = new AbortController();
  try {
    const { model, options } = readForm();
    setRunning(controller);
    show({ phase: "bandwidth", loaded: 0, total: 0, bytesPerSecond: 0 });
    byId("stop").focus();
    results.add(await benchmark(model, { ...options, signal: controller.signal, onProgress: show }));
    byId("results").focus();
  } catch (error) {
    const { code, title, advice, detail } = explain(error);
    if (controller.signal.aborted) trouble("Stopped.");
    else trouble(title, advice, detail);
    byId("trouble").dataset.code = controller.signal.aborted ? "aborted" : code;
    byId("start").focus();
  } finally {
    setRunning(undefined);
  }
}

const results = new Results((words) => trouble("A file was left out", words));
fillForm(query);
byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  void measure();
});
byId("stop").addEventListener("click", () => running?.abort());
addEventListener("keydown", (event) => {
  if (event.key === "Escape") running?.abort();
});
addEventListener("beforeunload", (event) => {
  if (running) event.preventDefault();
});
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  event.preventDefault();
  void results.open([...(event.dataTransfer?.files ?? [])]);
});
if (query.has("start")) void measure();
