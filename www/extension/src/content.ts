// The content script: one per frame. It reads a field only when the shortcut is pressed in it.

import { Completer } from "./completer";
import { isMessage, type Trigger } from "./protocol";
import { parseShortcut } from "./shortcut";

const completer = new Completer();
completer.start();

chrome.runtime.onMessage.addListener((message: unknown, sender) => {
  if (sender.id === chrome.runtime.id && isMessage<Trigger>(message, "trigger")) completer.trigger();
});

function take(shortcut: unknown): void {
  completer.shortcut = typeof shortcut === "string" ? parseShortcut(shortcut) : null;
}

chrome.storage.onChanged.addListener((changes, area) => {
  if (area === "local" && changes.shortcut) take(changes.shortcut.newValue);
});
void chrome.storage.local.get("shortcut").then(({ shortcut }) => take(shortcut));
