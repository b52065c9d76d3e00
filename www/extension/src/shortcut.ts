// The keyboard shortcut as chrome.commands writes it ("Ctrl+Shift+Space", on a Mac "⌃⇧Space"), as keys of an event.
// The browser takes a registered shortcut before any page sees it; the content script listens too, for the places where
// it does not (a browser driven by a test, a remote desktop that sends keys to the page).

export interface Shortcut {
  ctrl: boolean;
  alt: boolean;
  shift: boolean;
  meta: boolean;
  /** KeyboardEvent.code. */
  code: string;
}

const MODIFIERS: Record<string, keyof Omit<Shortcut, "code">> = {
  ctrl: "ctrl", macctrl: "ctrl", "⌃": "ctrl",
  alt: "alt", option: "alt", "⌥": "alt",
  shift: "shift", "⇧": "shift",
  command: "meta", meta: "meta", search: "meta", "⌘": "meta",
};
const ARROWS: Record<string, string> = { Up: "ArrowUp", Down: "ArrowDown", Left: "ArrowLeft", Right: "ArrowRight" };

/** Null for "" (no shortcut set) and for keys that have no code here. */
export function parseShortcut(text: string): Shortcut | null {
  const parts = text
    .replace(/[⌃⌥⇧⌘]/g, (sign) => `${sign}+`)
    .split("+")
    .map((part) => part.trim())
    .filter(Boolean);
  const key = parts.pop();
  if (!key) return null;
  const shortcut: Shortcut = { ctrl: false, alt: false, shift: false, meta: false, code: codeOf(key) };
  for (const part of parts) {
    const modifier = MODIFIERS[part.toLowerCase()];
    if (!modifier) return null;
    shortcut[modifier] = true;
  }
  return shortcut;
}

function codeOf(key: string): string {
  if (/^[A-Z]$/i.test(key)) return `Key${key.toUpperCase()}`;
  if (/^[0-9]$/.test(key)) return `Digit${key}`;
  return ARROWS[key] ?? key;
}

export function pressed(event: KeyboardEvent, shortcut: Shortcut): boolean {
  return (
    event.code === shortcut.code &&
    event.ctrlKey === shortcut.ctrl &&
    event.altKey === shortcut.alt &&
    event.shiftKey === shortcut.shift &&
    event.metaKey === shortcut.meta
  );
}
