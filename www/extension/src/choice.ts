// Which model the reader chose, and how completions are made. Kept in localStorage, which the options page and the
// offscreen document share (an offscreen document has no chrome.storage); a change there tells the other at once.

export type Choice =
  /** A file copied into this extension's private storage. */
  | { kind: "file"; name: string; bytes: number }
  /** An address; `hf://org/repo/file.gguf` too. */
  | { kind: "url"; url: string };

export interface Manner {
  /** The longest completion, in tokens. */
  maxTokens: number;
  /** 0 takes the likeliest words. */
  temperature: number;
}

const CHOICE_KEY = "rivulet.choice";
const MANNER_KEY = "rivulet.manner";
const DEFAULT_MANNER: Manner = { maxTokens: 24, temperature: 0 };
export const MANNER_LIMITS = { maxTokens: [4, 128], temperature: [0, 1.5] } as const;

export function readChoice(): Choice | null {
  const value = read(CHOICE_KEY);
  if (value?.kind === "file" && typeof value.name === "string" && typeof value.bytes === "number") return { kind: "file", name: value.name, bytes: value.bytes };
  if (value?.kind === "url" && typeof value.url === "string") return { kind: "url", url: value.url };
  return null;
}

export function writeChoice(choice: Choice | null): void {
  if (choice) localStorage.setItem(CHOICE_KEY, JSON.stringify(choice));
  else localStorage.removeItem(CHOICE_KEY);
}

export function readManner(): Manner {
  const value = read(MANNER_KEY) ?? {};
  const manner = { ...DEFAULT_MANNER };
  for (const name of ["maxTokens", "temperature"] as const) {
    const number = Number(value[name]);
    const [low, high] = MANNER_LIMITS[name];
    if (value[name] !== undefined && Number.isFinite(number)) manner[name] = Math.min(high, Math.max(low, number));
  }
  manner.maxTokens = Math.round(manner.maxTokens);
  return manner;
}

export function writeManner(manner: Manner): void {
  localStorage.setItem(MANNER_KEY, JSON.stringify(manner));
}

/** Calls back when the other page chose another model. The page that writes hears nothing of its own writing. */
export function onChoiceChanged(callback: () => void): void {
  addEventListener("storage", (event) => {
    if (event.key === CHOICE_KEY || event.key === null) callback();
  });
}

function read(key: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(key) ?? "null");
    return typeof value === "object" ? (value as Record<string, unknown> | null) : null;
  } catch {
    return null;
  }
}
