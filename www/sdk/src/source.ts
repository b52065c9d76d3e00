/** What callers hand over as a model, turned into a description that can cross into a worker. */
import { RivuletError, toRivuletError } from "./errors.js";
import type { SourceDescription } from "./protocol.js";
import type { ModelSource, Progress, SourceOptions } from "./types.js";
import { Rate } from "./rate.js";

const HUB = "https://huggingface.co";

/** `hf://org/repo[@revision]/path/file.gguf` as an address of the Hugging Face hub. */
export function hubAddress(source: string): string {
  const match = /^hf:\/\/([^/@]+)\/([^/@]+)(?:@([^/]+))?\/(.+)$/.exec(source);
  const [, org, repo, revision, path] = match ?? [];
  if (!org || !repo || !path) {
    throw new RivuletError("bad-option", `model source: expected hf://org/repo/file.gguf, found ${source}`);
  }
  const file = path.split("/").map(encodeURIComponent).join("/");
  return `${HUB}/${org}/${repo}/resolve/${encodeURIComponent(revision ?? "main")}/${file}`;
}

function address(source: string | URL): string {
  if (typeof source === "string" && source.startsWith("hf:")) return hubAddress(source);
  const base = (globalThis as { location?: Location; document?: Document }).document?.baseURI ?? globalThis.location?.href;
  let url: URL;
  try {
    url = new URL(source, base);
  } catch {
    throw new RivuletError("bad-option", `model source: expected an address, found ${JSON.stringify(String(source))}`);
  }
  if (!["http:", "https:", "blob:", "chrome-extension:", "moz-extension:"].includes(url.protocol)) {
    throw new RivuletError("bad-option", `model source: expected http, https or hf, found ${url.protocol} in ${url.href}`);
  }
  return url.href;
}

/** Drains a stream into a Blob, which browsers keep out of the JavaScript heap. */
async function drain(
  stream: ReadableStream<Uint8Array>,
  signal: AbortSignal | undefined,
  onProgress: ((progress: Progress) => void) | undefined,
): Promise<Blob> {
  const rate = new Rate();
  let loaded = 0;
  const count = new TransformStream<Uint8Array, Uint8Array<ArrayBuffer>>({
    transform(chunk, controller) {
      if (!ArrayBuffer.isView(chunk)) {
        throw new RivuletError("bad-option", `model source: expected a stream of Uint8Array, found chunks of ${typeof chunk}`);
      }
      loaded += chunk.byteLength;
      onProgress?.({ phase: "download", loaded, total: 0, bytesPerSecond: rate.at(loaded) });
      controller.enqueue(chunk as Uint8Array<ArrayBuffer>);
    },
  });
  try {
    return await new Response(stream.pipeThrough(count, { signal })).blob();
  } catch (error) {
    if (signal?.aborted) throw new RivuletError("aborted", "loading was aborted by the caller");
    // What the transform threw itself has its code; everything else is the stream's failure.
    throw toRivuletError(error, "network");
  }
}

/** Checks a model source and makes it ready to cross. Streams are read to their end here. */
export async function describeSource(
  source: ModelSource,
  options: SourceOptions,
  onProgress?: (progress: Progress) => void,
): Promise<SourceDescription> {
  if (typeof source === "string" || source instanceof URL) {
    return {
      kind: "url",
      url: address(source),
      headers: options.headers ?? {},
      credentials: options.credentials ?? "same-origin",
    };
  }
  if (source instanceof Blob) return { kind: "blob", blob: source };
  if (source instanceof ReadableStream) {
    return { kind: "blob", blob: await drain(source, options.signal, onProgress) };
  }
  if (Array.isArray(source) && source.length > 0 && source.every((part) => part instanceof Blob)) {
    return { kind: "blob", blob: new Blob(source) };
  }
  if (source instanceof ArrayBuffer || source instanceof Uint8Array) {
    return { kind: "blob", blob: new Blob([source as ArrayBuffer | Uint8Array<ArrayBuffer>]) };
  }
  throw new RivuletError(
    "bad-option",
    "model source: expected an address, a File, a Blob, an array of Blobs, a ReadableStream, an ArrayBuffer or a Uint8Array",
  );
}
