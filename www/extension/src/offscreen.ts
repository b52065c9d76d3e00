// The offscreen document: ports in, completions out. Everything that takes time sends a sign of life, so that the other
// side can tell slow from dead.

import { onChoiceChanged } from "./choice";
import { Host } from "./host";
import { ALIVE_MS, asRequest, type CompletionEvent, PORT } from "./protocol";
import { codeOf, wordsFor } from "./words";

const host = new Host();

onChoiceChanged(() => void host.unload());

chrome.runtime.onConnect.addListener((port) => {
  if (port.name !== PORT || port.sender?.id !== chrome.runtime.id) return;
  const abort = new AbortController();
  port.onDisconnect.addListener(() => abort.abort());
  port.onMessage.addListener((message: unknown) => void serve(port, message, abort.signal));
});

async function serve(port: chrome.runtime.Port, message: unknown, signal: AbortSignal): Promise<void> {
  const send = (event: CompletionEvent): void => {
    if (!signal.aborted) port.postMessage(event);
  };
  const request = asRequest(message);
  if (!request) {
    send({ type: "error", code: "internal", words: wordsFor("internal") });
    return;
  }
  let note = "";
  const tell = (): void => send({ type: "alive", note });
  tell();
  const pulse = setInterval(tell, ALIVE_MS);
  try {
    await host.complete(
      request,
      {
        note: (text) => {
          if (text === note) return;
          note = text;
          tell();
        },
        text: (text) => send({ type: "text", text }),
      },
      signal,
    );
    send({ type: "end" });
  } catch (error) {
    const code = codeOf(error);
    console.warn("completion failed:", code, error);
    send({ type: "error", code, words: wordsFor(code) });
  } finally {
    clearInterval(pulse);
  }
}
