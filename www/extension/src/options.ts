// The options page: choosing a model (and being told at once what it is), how completions are made, and a field to try
// them in, with the very code that runs in other pages.

import { checkSupport, inspectModel, type ModelInfo } from "rivulet";

import { type Choice, CONTEXT_LENGTH, readChoice, readManner, writeChoice, writeManner } from "./choice";
import { Completer } from "./completer";
import { forgetModel, storedModel, storeModel } from "./library";
import { parseShortcut } from "./shortcut";
import { codeOf, wordsFor } from "./words";

function byId(id: string): HTMLElement;
function byId<T extends HTMLElement>(id: string, type: new () => T): T;
function byId(id: string, type: new () => HTMLElement = HTMLElement): HTMLElement {
  const element = document.getElementById(id);
  if (!(element instanceof type)) throw new Error(`options.html has no ${type.name} with id "${id}"`);
  return element;
}

const mb = (bytes: number): string => (bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${(bytes / 1e6).toFixed(0)} MB`);

const completer = new Completer();
let busy: AbortController | null = null;

async function show(): Promise<void> {
  const choice = readChoice();
  const model = byId("model");
  byId("forget").hidden = choice?.kind !== "file";
  byId("facts").replaceChildren();
  if (!choice) {
    model.dataset.state = "none";
    model.textContent = "No model chosen yet.";
    return;
  }
  model.textContent = choice.kind === "file" ? choice.name : choice.url;
  model.dataset.state = "checking";
  try {
    const source = choice.kind === "file" ? await storedModel() : choice.url;
    if (!source) throw Object.assign(new Error("the stored file is gone"), { code: "model-missing" });
    const info = await inspectModel(source);
    facts(info);
    const support = await checkSupport(info, { contextLength: choice.contextLength });
    if (!support.ok) trouble(support.reasons.join(" "));
    model.dataset.state = support.ok ? "ready" : "doubtful";
  } catch (error) {
    model.dataset.state = "error";
    trouble(explain(error));
  }
}

function facts(info: ModelInfo): void {
  const rows: [string, string][] = [
    ["Model", info.name ?? info.architecture],
    ["Weights", `${(info.parameters / 1e6).toFixed(0)} M in ${info.quantization}`],
    ["Size", mb(info.fileBytes)],
  ];
  byId("facts").replaceChildren(
    ...rows.flatMap(([name, value]) => {
      const dt = document.createElement("dt");
      const dd = document.createElement("dd");
      dt.textContent = name;
      dd.textContent = value;
      return [dt, dd];
    }),
  );
}

/** Plain words, and the engine's own behind them. */
function explain(error: unknown): string {
  const detail = error instanceof Error ? error.message : String(error);
  return `${wordsFor(codeOf(error))} (${detail})`;
}

function trouble(words: string): void {
  const box = byId("trouble");
  box.textContent = words;
  box.hidden = !words;
}

function say(words: string): void {
  byId("said").textContent = words;
}

async function choose(choice: Choice): Promise<void> {
  writeChoice(choice);
  trouble("");
  await show();
  if (byId("model").dataset.state === "ready") say("The model is ready to use");
}

async function takeFile(file: File): Promise<void> {
  busy?.abort();
  const mine = new AbortController();
  busy = mine;
  trouble("");
  const bar = byId("bar", HTMLProgressElement);
  try {
    // What it is comes first: copying gigabytes of something else helps nobody.
    const contextLength = await usableContext(file, mine.signal);
    byId("copying").hidden = false;
    say("Copying the model");
    await storeModel(file, mine.signal, (written) => {
      bar.value = written / file.size;
      byId("bar-text").textContent = `${mb(written)} of ${mb(file.size)} copied`;
    });
    await choose({ kind: "file", name: file.name, bytes: file.size, contextLength });
  } catch (error) {
    if (mine.signal.aborted) say("Cancelled");
    else trouble(explain(error instanceof DOMException && error.name === "QuotaExceededError" ? Object.assign(new Error(error.message), { code: "quota" }) : error));
  } finally {
    if (busy === mine) {
      busy = null;
      byId("copying").hidden = true;
    }
  }
}

async function takeAddress(url: string): Promise<void> {
  busy?.abort();
  const mine = new AbortController();
  busy = mine;
  trouble("");
  say("Asking the address what it holds");
  try {
    const contextLength = await usableContext(url, mine.signal);
    await forgetModel();
    await choose({ kind: "url", url, contextLength });
  } catch (error) {
    if (!mine.signal.aborted) trouble(explain(error));
  } finally {
    if (busy === mine) busy = null;
  }
}

/** The context to load a model for; rejects where the model cannot be run. Reads its header only. */
async function usableContext(source: File | string, signal: AbortSignal): Promise<number> {
  const info = await inspectModel(source, { signal });
  const reason = info.unsupported[0];
  if (reason) throw Object.assign(new Error(reason.message), { code: reason.code });
  return Math.min(CONTEXT_LENGTH, info.contextLength || CONTEXT_LENGTH);
}

async function forget(): Promise<void> {
  writeChoice(null);
  await forgetModel();
  trouble("");
  await show();
  say("The model was deleted");
}

function manner(): void {
  const length = byId("max-tokens", HTMLInputElement);
  const temperature = byId("temperature", HTMLInputElement);
  const fill = (): void => {
    const now = readManner();
    length.value = String(now.maxTokens);
    temperature.value = String(now.temperature);
  };
  const keep = (): void => {
    const now = readManner();
    writeManner({
      maxTokens: Number.isFinite(length.valueAsNumber) ? length.valueAsNumber : now.maxTokens,
      temperature: Number.isFinite(temperature.valueAsNumber) ? temperature.valueAsNumber : now.temperature,
    });
    fill();
  };
  length.addEventListener("change", keep);
  temperature.addEventListener("change", keep);
  fill();
}

async function shortcut(): Promise<void> {
  const commands = await chrome.commands.getAll();
  const text = commands.find((command) => command.name === "complete")?.shortcut ?? "";
  for (const element of [byId("shortcut"), ...document.querySelectorAll(".shortcut-again")]) element.textContent = text || "your shortcut";
  byId("no-shortcut").hidden = text !== "";
  completer.shortcut = parseShortcut(text);
  await chrome.storage.local.set({ shortcut: text });
}

function start(): void {
  completer.start();
  chrome.runtime.onMessage.addListener((message: unknown) => {
    if ((message as { type?: unknown } | null)?.type === "trigger") completer.trigger();
  });
  const file = byId("file", HTMLInputElement);
  file.addEventListener("change", () => {
    const chosen = file.files?.[0];
    file.value = "";
    if (chosen) void takeFile(chosen);
  });
  byId("address-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const url = byId("address", HTMLInputElement).value.trim();
    if (/^(https:\/\/|hf:\/\/|http:\/\/(localhost|127\.0\.0\.1)[:/])./.test(url)) void takeAddress(url);
    else trouble("An address of a model begins with https:// or hf:// and ends in the name of a GGUF file.");
  });
  byId("cancel").addEventListener("click", () => busy?.abort());
  byId("forget").addEventListener("click", () => void forget());
  byId("change-shortcut").addEventListener("click", () => void chrome.tabs.create({ url: "chrome://extensions/shortcuts" }));
  // Shortcuts are changed in another tab; there is no event for it.
  addEventListener("focus", () => void shortcut());
  manner();
  void shortcut();
  void show();
}

start();
