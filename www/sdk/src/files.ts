/**
 * The files of a model, opened by name as the engine asks for them: a model may be one file, or several in one place. Of files
 * behind addresses only the one that is read keeps a response under way, so that read-ahead is held once, not once a file.
 */
import type { ByteSource, ModelFiles } from "../wasm/rivulet.js";
import { BlobSource, NotFound, type SourceSettings, UrlSource } from "./bytes.js";
import type { SourceDescription } from "./protocol.js";

type Place = Extract<SourceDescription, { kind: "url" }>;

/** What a file without a name is called. */
const NAMELESS = "model.gguf";

/** The file's name in an address; empty for a folder's. */
export function nameOf(url: string): string {
  const { protocol, pathname } = new URL(url);
  if (protocol === "blob:") return NAMELESS;
  const last = pathname.slice(pathname.lastIndexOf("/") + 1);
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}

/** The address of a file beside another one; undefined where there can be none. A query stays: it may be a signature for the folder. */
function beside(url: string, name: string): string | undefined {
  const base = new URL(url);
  if (base.protocol === "blob:") return undefined;
  const sibling = new URL(`./${encodeURIComponent(name)}`, base);
  sibling.search = base.search;
  return sibling.href;
}

/** Files that a page has in hand. */
class Blobs implements ModelFiles {
  readonly entry: string;
  readonly #blobs: Map<string, Blob>;

  constructor(entry: string, blobs: Iterable<readonly [string, Blob]>) {
    this.entry = entry;
    this.#blobs = new Map(blobs);
  }

  open(name: string): Promise<ByteSource | undefined> {
    const blob = this.#blobs.get(name);
    return Promise.resolve(blob && new BlobSource(blob, name));
  }
}

/** Files behind addresses. */
class Addresses implements ModelFiles {
  readonly entry: string;
  readonly #place: Omit<Place, "kind" | "url">;
  readonly #urlOf: (name: string) => string | undefined;
  readonly #settings: SourceSettings;
  /** The one whose response may go on. */
  #active: ByteSource | undefined;

  constructor(entry: string, place: Omit<Place, "kind" | "url">, urlOf: (name: string) => string | undefined, settings: SourceSettings) {
    this.entry = entry;
    this.#place = place;
    this.#urlOf = urlOf;
    this.#settings = settings;
  }

  async open(name: string): Promise<ByteSource | undefined> {
    const url = this.#urlOf(name);
    if (url === undefined) return undefined;
    this.#activate(undefined);
    let source: ByteSource;
    try {
      // A page in place of a file that nobody asked for is how some servers say that there is none.
      source = await UrlSource.open({ url, ...this.#place }, { ...this.#settings, page: name === this.entry });
    } catch (error) {
      if (error instanceof NotFound && name !== this.entry) return undefined;
      throw error;
    }
    this.#activate(source);
    return {
      size: source.size,
      read: (offset, length) => {
        this.#activate(source);
        return source.read(offset, length);
      },
    };
  }

  #activate(source: ByteSource | undefined): void {
    if (source === this.#active) return;
    if (this.#active instanceof UrlSource) this.#active.rest();
    this.#active = source;
  }
}

/** What a description describes. Nothing is fetched before the engine asks. */
export function openFiles(description: SourceDescription, settings: SourceSettings): ModelFiles {
  switch (description.kind) {
    case "blob":
      return new Blobs(NAMELESS, [[NAMELESS, description.blob]]);
    case "blobs":
      return new Blobs(description.entry, description.blobs);
    case "url": {
      const { url, headers, credentials } = description;
      const entry = nameOf(url);
      return new Addresses(entry, { headers, credentials }, (name) => (name === entry ? url : beside(url, name)), settings);
    }
    case "urls": {
      const { entry, urls, headers, credentials } = description;
      const known = new Map(urls);
      return new Addresses(entry, { headers, credentials }, (name) => known.get(name), settings);
    }
  }
}
