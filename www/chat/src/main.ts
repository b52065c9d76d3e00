// The chat page: it puts the parts together. Each part knows its own corner of the page; only this file knows them all.
//
// Address parameters: `model` (an address or hf://org/repo/file.gguf in place of the default), `load` (load at once),
// and the settings by their names (temperature, topP, topK, maxTokens, system).

import { announce } from "./announce";
import { Composer } from "./composer";
import { Conversation, copyText } from "./conversation";
import { byId, el } from "./dom";
import { fileDoors } from "./drop";
import { type Choice, DoubtfulFit, Engine, type State } from "./engine";
import { codeOf, explain, type Remedy } from "./errors";
import { adapterName, bytes, isSoftware, parameters } from "./format";
import { Follow } from "./scroll";
import { readSettings, settingsPanel } from "./settings";
import { Status } from "./status";
import { whatIsMissing } from "./support";
import { troubleWords } from "./turns";

const DEFAULT_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf";
const EXAMPLES = ["What is the capital of France?", "Write a short poem about a river.", "Explain what a GPU does, to a child."];

const query = new URLSearchParams(location.search);
const settings = readSettings(query);
const defaultChoice: Choice = { source: new URL(`models/${DEFAULT_FILE}`, document.baseURI).href, name: DEFAULT_FILE, bytes: 98_362_432 };
const engine = new Engine(wanted());
const follow = new Follow(byId("scroll"), byId("to-latest"));
const status = new Status({ load: () => load(engine.state.choice), cancel: () => engine.cancel() });
const conversation = new Conversation({
  log: byId("log"),
  follow,
  settings,
  model: () => engine.ready(),
  broken: (model, error) => engine.gone(model, error),
  changed: () => redraw(),
  remedy: remedyButton,
});
const composer = new Composer({
  send: (text) => void conversation.ask(text),
  stop: () => void conversation.stop(),
});
const files = fileDoors((files, name) => void openFiles(files, name), (words) => notice(words));
const dialog = byId("settings", HTMLDialogElement);

/** The model that the address asks for, or the default one. */
function wanted(): Choice {
  const asked = query.get("model");
  if (!asked) return defaultChoice;
  const source = asked.startsWith("hf://") ? asked : new URL(asked, document.baseURI).href;
  const name = decodeURIComponent(source.split(/[?#]/)[0]?.split("/").pop() ?? "") || source;
  return { source, name };
}

function load(choice: Choice, insist = false): void {
  // A question that waits for the model shows the failure in its place; here there is nobody else to tell.
  engine.load(choice, insist).then(
    () => {
      const active = document.activeElement;
      if (!active || active === document.body || active.id === "status-action") composer.focus();
    },
    () => {},
  );
}

async function openFiles(files: readonly File[], name: string): Promise<void> {
  if (dialog.open) dialog.close();
  await conversation.stop();
  load({ source: files, name, bytes: files.reduce((sum, file) => sum + file.size, 0) });
}

/** A few plain words for a slip that is no failure of the model. */
function notice(words: string): void {
  announce(words);
  const box = el("p", { class: "notice" }, words);
  document.body.append(box);
  setTimeout(() => box.remove(), 6000);
}

function remedyButton(remedy: Remedy, retry: () => void): HTMLButtonElement | null {
  const words: Record<Remedy, [string, () => void] | null> = {
    "retry-load": ["Try again", retry],
    "pick-file": ["Open another file…", files.pick],
    "new-chat": ["New chat", () => void newChat()],
    regenerate: ["Try again", retry],
    settings: ["Settings", () => dialog.showModal()],
    none: null,
  };
  const entry = words[remedy];
  if (!entry) return null;
  const button = el("button", { type: "button", class: "plain" }, entry[0]);
  button.addEventListener("click", entry[1]);
  return button;
}

async function newChat(): Promise<void> {
  await conversation.clear();
  announce("New chat");
  composer.focus();
}

/** Everything that depends on the state of engine and conversation. */
function redraw(state: State = engine.state): void {
  status.show(state, conversation.busy && state.phase === "ready");
  composer.setBusy(conversation.busy);
  byId("new-chat", HTMLButtonElement).disabled = conversation.empty;
  byId("welcome").hidden = !conversation.empty;
  document.body.toggleAttribute("data-busy", conversation.busy);
  drawStart(state);
}

// The card is drawn again only when what it says changes: progress comes many times a second.
let drawnStart = "";

function drawStart(state: State): void {
  const key = `${state.phase} ${state.choice.name}`;
  if (key === drawnStart) return;
  drawnStart = key;
  const ready = state.phase === "ready";
  byId("start-name").textContent = state.choice.name;
  byId("start-note").textContent = note(state);
  const button = byId("load", HTMLButtonElement);
  button.textContent = state.phase === "loading" ? "Loading…" : ready ? "Loaded" : "Load model";
  button.disabled = state.phase === "loading" || ready;
  document.querySelector("#start .trouble")?.remove();
  if (state.phase === "error" && conversation.empty) {
    const words = explain(state.error);
    const box = el("div", { class: "trouble", "data-code": words.code }, ...troubleWords(words));
    if (state.error instanceof DoubtfulFit) {
      const insist = el("button", { type: "button", class: "plain" }, "Load it anyway");
      insist.addEventListener("click", () => load(state.choice, true));
      box.append(insist);
    }
    byId("start-note").after(box);
  }
  byId("examples").toggleAttribute("data-ready", ready);
  facts(state);
}

function note(state: State): string {
  const size = state.choice.bytes ? bytes(state.choice.bytes) : "";
  switch (state.phase) {
    case "idle":
      return typeof state.choice.source !== "string" ? `${size}, from this device` : [size, "downloaded once you press the button"].filter(Boolean).join(", ");
    case "loading":
      return "Loading. You can already write your message.";
    case "ready": {
      const { info } = state.model;
      const what = `${parameters(info.parameters)} weights in ${info.quantization}`;
      return isSoftware(info.device.adapter) ? `${what}. No GPU here: the processor stands in for it, slowly.` : `${what}, ready on this device`;
    }
    case "error":
      return size;
  }
}

function facts(state: State): void {
  const rows: [string, string][] = [["File", state.choice.name]];
  if (state.phase === "ready") {
    const { info } = state.model;
    rows.push(
      ["Model", info.name ?? info.architecture],
      ["Weights", `${parameters(info.parameters)}, ${info.quantization}, ${bytes(info.weightBytes)}`],
      ["Context", `${info.loadedContextLength.toLocaleString("en")} tokens, cache in ${info.kvType}`],
      ["GPU", adapterName(info.device.adapter)],
      ["Kernels", info.device.tier],
      ["GPU memory", bytes(info.device.memoryBytes)],
      ["Loaded in", `${(info.loadMs / 1000).toFixed(1)} s`],
    );
  }
  byId("model-facts").replaceChildren(...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  byId("load-default").hidden = state.choice.source === defaultChoice.source && state.phase !== "error";
}

function wire(): void {
  byId("load").addEventListener("click", () => {
    load(engine.state.choice);
    composer.focus();
  });
  byId("pick").addEventListener("click", files.pick);
  byId("pick-other").addEventListener("click", files.pick);
  byId("load-default").addEventListener("click", () => {
    dialog.close();
    void conversation.stop().then(() => load(defaultChoice));
  });
  byId("new-chat").addEventListener("click", () => void newChat());
  byId("open-settings").addEventListener("click", () => dialog.showModal());
  // A press beside the panel closes it; inside the panel the target is never the dialog itself.
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !dialog.open && !event.isComposing && conversation.busy) {
      event.preventDefault();
      void conversation.stop();
    }
  });
  byId("log").addEventListener("click", (event) => {
    const button = (event.target as HTMLElement).closest<HTMLElement>("[data-copy=code]");
    if (button) void copyText(button.closest("figure")?.querySelector("pre")?.textContent ?? "", button);
  });
  byId("examples").append(
    ...EXAMPLES.map((text) => {
      const button = el("button", { type: "button", class: "plain" }, text);
      button.addEventListener("click", () => composer.set(text));
      return button;
    }),
  );
  // A long download or answer is easily lost by a slip of the hand.
  addEventListener("beforeunload", (event) => {
    if (conversation.busy) event.preventDefault();
  });
}

async function start(): Promise<void> {
  wire();
  settingsPanel(settings);
  engine.onChange = redraw;
  redraw();
  const missing = await whatIsMissing();
  if (missing) {
    status.unsupported(missing.title);
    composer.disable("No model here");
    byId("headline").textContent = "No model can run in this browser yet";
    byId("lead").textContent = "This page answers with a model on your own GPU, and has no server to fall back on. Here is what is missing, and what helps.";
    fileDoorsClosed();
    byId("start").replaceChildren(
      el(
        "div",
        { class: "card", id: "missing" },
        el("h2", { class: "card-name" }, missing.title),
        el("p", {}, missing.reason),
        el("ul", {}, ...missing.steps.map((step) => el("li", {}, step))),
      ),
    );
    return;
  }
  if (query.has("load")) load(engine.state.choice);
  if (matchMedia("(hover: hover)").matches) composer.focus();
}

function fileDoorsClosed(): void {
  for (const id of ["pick-other", "load-default"]) byId(id, HTMLButtonElement).disabled = true;
}

start().catch((error: unknown) => {
  status.unsupported(explain(error).title);
  console.error(codeOf(error), error);
});
