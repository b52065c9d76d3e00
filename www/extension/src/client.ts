// The content script's end of a completion. It survives what happens to the other side: a service worker that was ended,
// an offscreen document that is gone, an extension that was updated under an open page; and it never waits for ever.

import { type CompletionEvent, type CompletionRequest, PORT, SILENCE_MS, type Wake, type Woken } from "./protocol";
import { codeOf, ExtensionError } from "./words";

export interface Completion {
  note: (note: string) => void;
  text: (text: string) => void;
}

/** Streams a completion to `out`; resolves at its end, rejects with an error whose code words.ts knows. */
export async function complete(request: CompletionRequest, out: Completion, signal: AbortSignal): Promise<void> {
  let said = false;
  const listener: Completion = {
    note: out.note,
    text: (text) => {
      said = true;
      out.text(text);
    },
  };
  try {
    await once(request, listener, signal);
  } catch (error) {
    // A document that vanished is made anew by the next wake; nothing is lost as long as no word has come.
    if (said || signal.aborted || codeOf(error) !== "gone") throw error;
    await once(request, listener, signal);
  }
}

async function once(request: CompletionRequest, out: Completion, signal: AbortSignal): Promise<void> {
  await wake();
  if (signal.aborted) throw new ExtensionError("aborted");
  const port = connect();
  return await new Promise<void>((resolve, reject) => {
    let timer: ReturnType<typeof setTimeout>;
    const close = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
      port.disconnect();
    };
    const fail = (code: string, message = ""): void => {
      close();
      reject(new ExtensionError(code, message));
    };
    const stop = (): void => fail("aborted");
    const wait = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => fail("unanswered", "no sign of life from the offscreen document"), SILENCE_MS);
    };
    signal.addEventListener("abort", stop);
    port.onDisconnect.addListener(() => fail("gone", "the offscreen document is gone"));
    port.onMessage.addListener((event: CompletionEvent) => {
      wait();
      switch (event.type) {
        case "alive":
          out.note(event.note);
          break;
        case "text":
          out.text(event.text);
          break;
        case "end":
          close();
          resolve();
          break;
        case "error":
          fail(event.code, event.words);
          break;
      }
    });
    wait();
    port.postMessage(request);
  });
}

async function wake(): Promise<void> {
  const message: Wake = { type: "wake" };
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new ExtensionError("unanswered", "the service worker did not answer")), SILENCE_MS);
  });
  try {
    const answer = (await Promise.race([send(message), late])) as Woken | undefined;
    if (!answer) throw new ExtensionError("unanswered", "the service worker gave no answer");
    if (!answer.ok) throw new ExtensionError("unanswered", answer.message);
  } finally {
    clearTimeout(timer);
  }
}

function send(message: Wake): Promise<unknown> {
  // After an update the old content script is cut off from its extension: runtime.id is gone, and calls throw.
  if (!chrome.runtime?.id) return Promise.reject(new ExtensionError("updated"));
  return chrome.runtime.sendMessage(message).catch((error: unknown) => {
    throw new ExtensionError(chrome.runtime?.id ? "unanswered" : "updated", String(error));
  });
}

function connect(): chrome.runtime.Port {
  try {
    return chrome.runtime.connect({ name: PORT });
  } catch (error) {
    throw new ExtensionError("updated", String(error));
  }
}
