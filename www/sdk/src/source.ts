/** What callers hand over as a model, turned into a description that can cross into a worker. */
import { RivuletError, toRivuletError } from "./errors.js";
import { nameOf } from "./files.js";
import type { SourceDescription } from "./protocol.js";
import type { ModelSource, Progress, SourceOptions } from "./types.js";
import { Rate } from "./rate.js";

const HUB = "https://huggingface.co";

/** `hf://org/repo[@revision]/path/file.gguf` as an address of the Hugging Face hub; without a file, that of the repository's folder. */
export function hubAddress(source: string): string {
  const match = /^hf:\/\/([^/@]+)\/([^/@]+)(?:@([^/]+))?(?:\/(.*))?$/.exec(source);
  const [, org, repo, revision, path = ""] = match ?? [];
  if (!org || !repo) {
    throw new RivuletError("bad-option", `model source: expected hf://org/repo or hf://org/repo/file.gguf, found ${source}`);
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

/** The first four bytes of every GGUF file, and so of every shard of a split one. */
async function isGguf(blob: Blob): Promise<boolean> {
  return (await blob.slice(0, 4).text()) === "GGUF";
}

/** The file to begin with, of several that lie in one place: config.json's folder, or the first shard of a GGUF model. */
function entryOf(names: readonly string[]): string {
  if (names.includes("config.json") && names.some((name) => name.endsWith(".safetensors"))) return "";
  const models = names.filter((name) => name.endsWith(".gguf")).sort();
  const stems = new Set(models.map((name) => name.replace(/-\d{5}-of-\d{5}\.gguf$/, "")));
  const [first] = models;
  if (first === undefined) {
    throw new RivuletError(
      "bad-option",
      `model source: expected a .gguf file, or config.json, tokenizer.json and .safetensors files, found ${names.slice(0, 8).join(", ")}`,
    );
  }
  if (stems.size > 1) {
    throw new RivuletError("bad-option", `model source: expected the files of one model, found ${[...stems].slice(0, 8).join(", ")}; choose one`);
  }
  return first;
}

/** Blobs that belong together: the files of one folder, the shards of one GGUF model in order, or pieces of one file in order. */
async function describeBlobs(blobs: readonly Blob[]): Promise<SourceDescription> {
  const files = blobs.filter((blob): blob is File => typeof (blob as Partial<File>).name === "string");
  const depth = (file: File): number => (file.webkitRelativePath || file.name).split("/").length;
  const top = Math.min(...files.map(depth));
  // Of a folder with folders in it, its own files.
  const flat = files.filter((file) => depth(file) === top);
  const names = flat.map((file) => file.name);
  if (files.length === blobs.length && names.some((name) => /\.(gguf|safetensors)$/.test(name))) {
    return { kind: "blobs", entry: entryOf(names), blobs: flat.map((file) => [file.name, file]) };
  }
  const [first] = blobs;
  if (first && blobs.length > 1 && (await Promise.all(blobs.map(isGguf))).every(Boolean)) {
    const count = String(blobs.length).padStart(5, "0");
    const shards = blobs.map((blob, i): [string, Blob] => [`model-${String(i + 1).padStart(5, "0")}-of-${count}.gguf`, blob]);
    return { kind: "blobs", entry: shards[0]?.[0] ?? "", blobs: shards };
  }
  return { kind: "blob", blob: new Blob([...blobs]) };
}

/** Checks a model source and makes it ready to cross. Streams are read to their end here. */
export async function describeSource(
  source: ModelSource,
  options: SourceOptions,
  onProgress?: (progress: Progress) => void,
): Promise<SourceDescription> {
  const asking = { headers: options.headers ?? {}, credentials: options.credentials ?? "same-origin" };
  if (typeof source === "string" || source instanceof URL) return { kind: "url", url: address(source), ...asking };
  if (source instanceof Blob) return { kind: "blob", blob: source };
  if (source instanceof ReadableStream) {
    return { kind: "blob", blob: await drain(source, options.signal, onProgress) };
  }
  if (Array.isArray(source) && source.length > 0) {
    const parts = source as readonly unknown[];
    if (parts.every((part) => part instanceof Blob)) return describeBlobs(parts);
    if (parts.every((part): part is string | URL => typeof part === "string" || part instanceof URL)) {
      const urls = parts.map((part): [string, string] => [nameOf(address(part)), address(part)]);
      return { kind: "urls", entry: entryOf(urls.map(([name]) => name)), urls, ...asking };
    }
  }
  if (source instanceof ArrayBuffer || source instanceof Uint8Array) {
    return { kind: "blob", blob: new Blob([source as ArrayBuffer | Uint8Array<ArrayBuffer>]) };
  }
  throw new RivuletError(
    "bad-option",
    "model source: expected an address, a File, a Blob, an array of addresses, of Files or of Blobs, a ReadableStream, an ArrayBuffer or a Uint8Array",
  );
}
