// The page for measuring: form in, report out.

import { type Progress, benchmark } from "rivulet/bench";
import { fillForm, readForm } from "./choices";
import { byId, el } from "./dom";
import { Results } from "./results";
import { explain, phaseWords } from "./words";

const query = new URLSearchParams(location.search);
const still = matchMedia("(prefers-reduced-motion: reduce)");
let running: AbortController | undefined;

/** Says what went wrong: below the field that it is about, which is marked and gets the focus, or at the end of the form. */
function trouble(code: string, field: string | undefined, title: string, ...words: string[]): void {
  const box = byId("trouble");
  const wrong = field === undefined ? null : document.getElementById(field);
  if (wrong) wrong.parentElement?.append(box);
  else byId("form").append(box);
  box.dataset.code = code;
  box.replaceChildren(el("p", { class: "title" }, title), ...words.filter(Boolean).map((text) => el("p", {}, text)));
  box.hidden = false;
  if (wrong) {
    wrong.setAttribute("aria-invalid", "true");
    wrong.setAttribute("aria-describedby", [...described(wrong), box.id].join(" "));
    // It cannot have the focus while it is folded away.
    wrong.closest("details")?.setAttribute("open", "");
  }
  (wrong ?? byId("start")).focus();
}

const described = (field: Element): string[] => (field.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => id && id !== "trouble");

function noTrouble(): void {
  byId("trouble").hidden = true;
  for (const field of document.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    const rest = described(field).join(" ");
    if (rest) field.setAttribute("aria-describedby", rest);
    else field.removeAttribute("aria-describedby");
  }
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
  noTrouble();
  const controller = new AbortController();
  try {
    const { model, options } = readForm();
    setRunning(controller);
    show({ phase: "bandwidth", loaded: 0, total: 0, bytesPerSecond: 0 });
    byId("stop").focus();
    const report = await benchmark(model, { ...options, signal: controller.signal, onProgress: show });
    setRunning(undefined);
    results.add(report);
    byId("results").focus();
  } catch (error) {
    // First, for the focus goes to no button that is disabled.
    setRunning(undefined);
    const { code, field, title, advice, detail } = explain(error);
    if (controller.signal.aborted) trouble("aborted", undefined, "Stopped.");
    else trouble(code, field, title, advice, detail);
  }
}

const results = new Results();
fillForm(query);
byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  void measure();
});
byId("form").addEventListener("input", (event) => {
  if (event.target instanceof Element && event.target.hasAttribute("aria-invalid")) noTrouble();
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
