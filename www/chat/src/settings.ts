// The settings: their values, where they are kept, and the panel's fields. Address parameters of the same names
// (`?temperature=0&maxTokens=64`) win over what was stored, and are not stored themselves.

import { byId, el } from "./dom";

export interface Settings {
  temperature: number;
  topP: number;
  topK: number;
  maxTokens: number;
  system: string;
}

type NumberName = Exclude<keyof Settings, "system">;

interface NumberField {
  name: NumberName;
  label: string;
  help: string;
  min: number;
  max: number;
  step: number;
}

const FIELDS: NumberField[] = [
  { name: "temperature", label: "Temperature", help: "0 always takes the likeliest word; higher is more varied.", min: 0, max: 2, step: 0.05 },
  { name: "topP", label: "Top-p", help: "Keeps the likeliest words that together reach this share.", min: 0.05, max: 1, step: 0.05 },
  { name: "topK", label: "Top-k", help: "Keeps this many of the likeliest words; 0 keeps all.", min: 0, max: 200, step: 1 },
  { name: "maxTokens", label: "Longest answer", help: "In tokens; a token is about three quarters of a word.", min: 16, max: 4096, step: 16 },
];

// Small models wander at the temperatures that suit large ones.
const DEFAULTS: Settings = { temperature: 0.4, topP: 0.95, topK: 40, maxTokens: 512, system: "" };
const KEY = "rivulet.settings";

/** The settings as stored, with the address's own on top. */
export function readSettings(query: URLSearchParams): Settings {
  const settings = { ...DEFAULTS };
  try {
    merge(settings, JSON.parse(localStorage.getItem(KEY) ?? "{}") as Record<string, unknown>);
  } catch {
    // Storage may be forbidden, or hold something else: the defaults serve.
  }
  merge(settings, Object.fromEntries(query));
  return settings;
}

function merge(settings: Settings, values: Record<string, unknown>): void {
  for (const field of FIELDS) {
    const value = values[field.name];
    if (value === undefined || value === "") continue;
    const number = Number(value);
    if (Number.isFinite(number)) settings[field.name] = clamp(number, field);
  }
  if (typeof values.system === "string") settings.system = values.system;
}

function clamp(value: number, field: NumberField): number {
  const bounded = Math.min(field.max, Math.max(field.min, value));
  return Number.isInteger(field.step) ? Math.round(bounded) : bounded;
}

function store(settings: Settings): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // Without storage the settings last as long as the page.
  }
}

/** Fills the panel and keeps `settings` equal to it. */
export function settingsPanel(settings: Settings): void {
  const root = byId("settings-fields");
  const draw = (): void => {
    root.replaceChildren(
      ...FIELDS.map((field) => numberField(field, settings)),
      systemField(settings),
      el("button", { type: "button", class: "link", id: "reset-settings" }, "Back to the defaults"),
    );
    byId("reset-settings").addEventListener("click", () => {
      Object.assign(settings, DEFAULTS);
      store(settings);
      draw();
      byId("set-temperature").focus();
    });
  };
  draw();
}

function numberField(field: NumberField, settings: Settings): HTMLElement {
  const id = `set-${field.name}`;
  const shared = { min: field.min, max: field.max, step: field.step, value: settings[field.name] };
  const range = el("input", { type: "range", id, "aria-describedby": `${id}-help`, ...shared });
  const number = el("input", { type: "number", inputmode: "decimal", "aria-label": `${field.label}, exact`, ...shared });
  const take = (from: HTMLInputElement, to: HTMLInputElement): void => {
    if (from.value === "" || !Number.isFinite(from.valueAsNumber)) return;
    settings[field.name] = clamp(from.valueAsNumber, field);
    to.value = String(settings[field.name]);
    store(settings);
  };
  range.addEventListener("input", () => take(range, number));
  number.addEventListener("input", () => take(number, range));
  number.addEventListener("blur", () => (number.value = String(settings[field.name])));
  return el("div", { class: "field" }, el("label", { for: id }, field.label), number, range, el("p", { class: "help", id: `${id}-help` }, field.help));
}

function systemField(settings: Settings): HTMLElement {
  const text = el("textarea", { id: "set-system", rows: 3, "aria-describedby": "set-system-help", placeholder: "The model’s own" });
  text.value = settings.system;
  text.addEventListener("input", () => {
    settings.system = text.value;
    store(settings);
  });
  return el(
    "div",
    { class: "field" },
    el("label", { for: "set-system" }, "System prompt"),
    text,
    el("p", { class: "help", id: "set-system-help" }, "Tells the model how to behave, from the next message on."),
  );
}
