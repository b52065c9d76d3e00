// What the extension's parts say to each other. Three parts, so that each can die alone:
//   the content script, one per frame: sees the field, draws the grey words;
//   the service worker: hears the keyboard shortcut and makes sure that the offscreen document exists, nothing more;
//   the offscreen document: holds the model, and answers the content script over a port of its own.
// The stream does not pass through the service worker, which Chrome ends after 30 idle seconds: its end cuts no answer.

/** To the service worker: see that the offscreen document is there. Answered with {@link Woken}. */
export interface Wake {
  type: "wake";
}

export type Woken = { ok: true } | { ok: false; message: string };

/** From the service worker to a tab: the shortcut was pressed. The frame that has the focus acts. */
export interface Trigger {
  type: "trigger";
}

/** The name of the port between content script and offscreen document; one port per completion. */
export const PORT = "complete";

/** The first message on the port. Closing the port cancels. */
export interface CompletionRequest {
  /** The text before the caret, at most {@link MAX_CONTEXT_CHARS} characters. */
  before: string;
  /** Whether the field holds one line only. */
  singleLine: boolean;
}

/** More than the model's context holds would be cut anyway; the end is what counts. */
export const MAX_CONTEXT_CHARS = 2000;

/** Answers on the port. After `end` or `error` nothing follows. */
export type CompletionEvent =
  /** Work goes on; sent at least every {@link ALIVE_MS}. `note` is for people. */
  | { type: "alive"; note: string }
  | { type: "text"; text: string }
  | { type: "end" }
  | { type: "error"; code: string; words: string };

export const ALIVE_MS = 2000;
/** Silence after which the other side counts as gone. */
export const SILENCE_MS = 12_000;

/** Whether a value has the shape of a message of this type: other parts and versions may speak on the same channel. */
export function isMessage<T extends { type: string }>(value: unknown, type: T["type"]): value is T {
  return typeof value === "object" && value !== null && (value as { type?: unknown }).type === type;
}

/** A request as it came in: the sender is our own content script, but in a page's process. */
export function asRequest(value: unknown): CompletionRequest | null {
  if (typeof value !== "object" || value === null) return null;
  const { before, singleLine } = value as Record<string, unknown>;
  if (typeof before !== "string" || typeof singleLine !== "boolean") return null;
  return { before: before.slice(-MAX_CONTEXT_CHARS), singleLine };
}
