// The service worker. It hears the shortcut and sees to it that the offscreen document exists. It keeps no state, since
// Chrome ends it whenever it is idle and starts it anew for the next event.

import { isMessage, type Trigger, type Wake, type Woken } from "./protocol";

const OFFSCREEN_PAGE = "offscreen.html";

chrome.commands.onCommand.addListener((command, tab) => {
  if (command !== "complete" || tab?.id === undefined) return;
  const trigger: Trigger = { type: "trigger" };
  // Pages without our content script (the store, chrome://) have nobody who listens.
  chrome.tabs.sendMessage(tab.id, trigger).catch(() => {});
});

chrome.runtime.onMessage.addListener((message: unknown, sender, respond: (answer: Woken) => void) => {
  if (sender.id !== chrome.runtime.id || !isMessage<Wake>(message, "wake")) return false;
  wake().then(
    () => respond({ ok: true }),
    (error: unknown) => respond({ ok: false, message: error instanceof Error ? error.message : String(error) }),
  );
  void publishShortcut();
  return true; // the answer comes later
});

chrome.action.onClicked.addListener(() => void chrome.runtime.openOptionsPage());
chrome.runtime.onInstalled.addListener(({ reason }) => {
  void publishShortcut();
  if (reason === "install") void chrome.runtime.openOptionsPage();
});
chrome.runtime.onStartup.addListener(() => void publishShortcut());

let creating: Promise<void> | null = null;

async function wake(): Promise<void> {
  const there = await chrome.runtime.getContexts({ contextTypes: [chrome.runtime.ContextType.OFFSCREEN_DOCUMENT] });
  if (there.length > 0) return;
  // Two requests at once must not create two documents: Chrome allows one, and refuses the second with an error.
  creating ??= chrome.offscreen
    .createDocument({
      url: OFFSCREEN_PAGE,
      reasons: [chrome.offscreen.Reason.WORKERS],
      justification: "Holds the language model, which runs in a worker on the GPU, for as long as completions are asked for.",
    })
    .finally(() => (creating = null));
  await creating;
}

/** Content scripts cannot read the commands; they listen to what is stored. */
async function publishShortcut(): Promise<void> {
  const commands = await chrome.commands.getAll();
  const shortcut = commands.find((command) => command.name === "complete")?.shortcut ?? "";
  await chrome.storage.local.set({ shortcut });
}
