// Which model the reader chose, and how completions are made. Kept in localStorage, which the options page and the
// offscreen document share (an offscreen document has no chrome.storage); a change there tells the other at once.

export type Choice = {
  /** Tokens to load it for: {@link CONTEXT_LENGTH}, or fewer where the model was made for fewer. */
  contextLength: number;
} & (
  | /** A file copied into this extension's private storage. */ { kind: "file"; name: string; bytes: number }
  | /** An address; `hf://org/repo/file.gguf` too. */ { kind: "url"; url: string }
);

/** Completions need little context, and the KV cache of a long one is memory that other pages miss. */
export const CONTEXT_LENGTH = 1024;

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
  if (!value || typeof value.contextLength !== "number") return null;
  const { kind, name, bytes, url, contextLength } = value;
  if (kind === "file" && typeof name === "string" && typeof bytes === "number") return { kind, name, bytes, contextLength };
  if (kind === "url" && typeof url === "string") return { kind, url, contextLength };
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
