/**
 * Sources of bytes for the engine: a Blob, or a URL read by ranges. A model's tensors are read in file order, so a URL
 * is one streaming response most of the time: a pump keeps up to `readAhead` bytes in hand, so that the network is not
 * idle while the GPU takes its share. A read somewhere else ends that response and starts another there. A server that
 * does not answer ranges sends the whole file once, into a Blob, which browsers keep out of the JavaScript heap.
 */
import type { ByteSource } from "../wasm/rivulet.js";
import { RivuletError } from "./errors.js";
import type { SourceDescription } from "./protocol.js";

/** Where a file is. */
type Where = Omit<Extract<SourceDescription, { kind: "url" }>, "kind">;

/** Settings of the sources; the defaults are for pages, the tests shorten the times. */
export interface SourceSettings {
  signal: AbortSignal;
  /** Bytes kept in hand beyond what was asked for. */
  readAhead?: number;
  /** Waits before attempt 2, 3, …, in milliseconds. Bytes that arrive start the count anew. */
  backoffMs?: readonly number[];
  /** A response that brings nothing for this long is given up. */
  stallMs?: number;
  /** Called while a whole file is fetched up front, in bytes. */
  onDownload?: (loaded: number, total: number) => void;
  /** Whether a web page may be what the address has (true), or means that the file is not there. */
  page?: boolean;
}

type Settings = Required<Omit<SourceSettings, "onDownload">> & Pick<SourceSettings, "onDownload">;

/** There is no such file. */
export class NotFound extends RivuletError {}

const READ_AHEAD = 16 * 1024 * 1024;
const BACKOFF_MS = [250, 500, 1000, 2000, 4000] as const;
const STALL_MS = 30_000;
/** A gap this small is read over rather than asked anew: alignment between tensors, a tensor that is not needed. */
const SKIP = 1024 * 1024;
/** The longest wait that a server may ask for by Retry-After, in milliseconds. */
const RETRY_AFTER_MAX_MS = 15_000;

function bounds(offset: number, length: number, size: number): void {
  if (!Number.isSafeInteger(offset) || !Number.isSafeInteger(length) || offset < 0 || length < 0 || offset + length > size) {
    throw new RivuletError("bad-file", `read: expected a range within ${size} bytes, found ${length} bytes at ${offset}`);
  }
}

/** A Blob's bytes. */
export class BlobSource implements ByteSource {
  readonly size: number;
  readonly #blob: Blob;
  readonly #name: string;

  constructor(blob: Blob, name: string) {
    this.#blob = blob;
    this.#name = name;
    this.size = blob.size;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    bounds(offset, length, this.size);
    let bytes: ArrayBuffer;
    try {
      bytes = await this.#blob.slice(offset, offset + length).arrayBuffer();
    } catch (error) {
      const why = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
      throw new RivuletError("network", `reading ${this.#name}: ${length} bytes at ${offset} could not be read (${why}); open it again`);
    }
    if (bytes.byteLength !== length) {
      throw new RivuletError("integrity", `reading ${this.#name}: expected ${length} bytes at ${offset}, found ${bytes.byteLength}`);
    }
    return new Uint8Array(bytes);
  }
}

/** A failure that another attempt may cure. */
class Transient extends Error {
  readonly retryAfterMs: number | undefined;

  constructor(message: string, retryAfterMs?: number) {
    super(message);
    this.retryAfterMs = retryAfterMs;
  }
}

/** What identifies one version of a file: bytes of two versions must never be mixed. */
interface Version {
  size: number;
  tag: string | null;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(aborted());
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}

function aborted(): RivuletError {
  return new RivuletError("aborted", "loading was aborted by the caller");
}

function retryAfter(headers: Headers): number | undefined {
  const seconds = Number(headers.get("retry-after") ?? NaN);
  return Number.isFinite(seconds) ? Math.min(Math.max(seconds * 1000, 0), RETRY_AFTER_MAX_MS) : undefined;
}

/** One response under way: bytes from `position` on, some of them in hand already. */
class Lane {
  /** Offset in the file of the next byte that `take` gives. */
  position: number;
  readonly #cancel: AbortController;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #readAhead: number;
  readonly #stallMs: number;
  readonly #chunks: Uint8Array[] = [];
  #queued = 0;
  #ended = false;
  #failure: Transient | undefined;
  #wakeTaker: () => void = () => undefined;
  #wakePump: () => void = () => undefined;

  constructor(body: ReadableStream<Uint8Array>, position: number, cancel: AbortController, settings: Settings) {
    this.position = position;
    this.#cancel = cancel;
    this.#reader = body.getReader();
    this.#readAhead = settings.readAhead;
    this.#stallMs = settings.stallMs;
    void this.#pump();
  }

  get queued(): number {
    return this.#queued;
  }

  async #pump(): Promise<void> {
    try {
      for (;;) {
        while (this.#queued >= this.#readAhead) {
          await new Promise<void>((resolve) => {
            this.#wakePump = resolve;
          });
        }
        const stall = setTimeout(() => {
          this.#failure = new Transient(`nothing arrived for ${this.#stallMs / 1000} s`);
          this.#wakeTaker();
          this.#cancel.abort();
        }, this.#stallMs);
        const { done, value } = await this.#reader.read().finally(() => clearTimeout(stall));
        if (done) break;
        this.#chunks.push(value);
        this.#queued += value.byteLength;
        this.#wakeTaker();
      }
    } catch (error) {
      this.#failure ??= new Transient(error instanceof Error ? error.message : String(error));
    }
    this.#ended = true;
    this.#wakeTaker();
  }

  /** The next bytes, at most `most` of them, at least one. Throws Transient where the response broke or ended. */
  async take(most: number): Promise<Uint8Array> {
    for (;;) {
      const chunk = this.#chunks[0];
      if (chunk) {
        const part = chunk.byteLength <= most ? chunk : chunk.subarray(0, most);
        if (part === chunk) this.#chunks.shift();
        else this.#chunks[0] = chunk.subarray(most);
        this.#queued -= part.byteLength;
        this.position += part.byteLength;
        this.#wakePump();
        return part;
      }
      if (this.#failure) throw this.#failure;
      if (this.#ended) throw new Transient(`the response ended at byte ${this.position}`);
      await new Promise<void>((resolve) => {
        this.#wakeTaker = resolve;
      });
    }
  }

  close(): void {
    this.#cancel.abort();
    // A pump that waits for room has nobody to wake it any more.
    this.#queued = 0;
    this.#chunks.length = 0;
    this.#wakePump();
  }
}

/** What an address has, read by ranges. */
export class UrlSource implements ByteSource {
  readonly #where: Where;
  readonly #settings: Settings;
  #version: Version;
  #lane: Lane | undefined;
  #busy: Promise<unknown> = Promise.resolve();

  private constructor(where: Where, settings: Settings, version: Version, lane: Lane) {
    this.#where = where;
    this.#settings = settings;
    this.#version = version;
    this.#lane = lane;
    settings.signal.addEventListener("abort", () => this.#lane?.close(), { once: true });
  }

  /** Makes the first request. A server that does not answer ranges sends the whole file into a Blob. */
  static async open(where: Where, chosen: SourceSettings): Promise<ByteSource> {
    const settings: Settings = { readAhead: READ_AHEAD, backoffMs: BACKOFF_MS, stallMs: STALL_MS, page: true, ...chosen };
    return retrying(settings, describe(where.url), async () => {
      const { response, cancel } = await request(where, 0, settings);
      const version = versionOf(response, 0);
      if (response.status === 206 && response.body) {
        return new UrlSource(where, settings, version, new Lane(response.body, 0, cancel, settings));
      }
      return new BlobSource(await whole(response, cancel, settings), describe(where.url));
    });
  }

  get size(): number {
    return this.#version.size;
  }

  read(offset: number, length: number): Promise<Uint8Array> {
    // One lane: reads take turns.
    const result = this.#busy.then(() => this.#read(offset, length));
    this.#busy = result.catch(() => undefined);
    return result;
  }

  /** Ends the response under way: another file is read now. The next read asks anew. */
  rest(): void {
    this.#busy = this.#busy.then(() => {
      this.#lane?.close();
      this.#lane = undefined;
    });
  }

  async #read(offset: number, length: number): Promise<Uint8Array> {
    bounds(offset, length, this.size);
    const bytes = new Uint8Array(length);
    let filled = 0;
    while (filled < length) {
      // Each time bytes arrived before a failure, the attempts are counted anew: a long download may break often.
      const before = filled;
      await retrying(this.#settings, describe(this.#where.url), async () => {
        try {
          const lane = await this.#laneAt(offset + filled);
          while (filled < length) {
            const part = await lane.take(length - filled);
            bytes.set(part, filled);
            filled += part.byteLength;
          }
        } catch (error) {
          this.#lane?.close();
          this.#lane = undefined;
          if (!(error instanceof Transient) || filled === before) throw error;
        }
      });
    }
    return bytes;
  }

  async #laneAt(offset: number): Promise<Lane> {
    const lane = this.#lane;
    if (lane && offset >= lane.position && offset <= lane.position + Math.max(lane.queued, SKIP)) {
      while (lane.position < offset) await lane.take(offset - lane.position);
      return lane;
    }
    lane?.close();
    this.#lane = undefined;
    const { response, cancel } = await request(this.#where, offset, this.#settings);
    const version = versionOf(response, offset);
    const { url } = this.#where;
    if (response.status !== 206 || !response.body) {
      cancel.abort();
      throw new RivuletError("network", `${describe(url)}: expected status 206 for a range, found ${response.status}`);
    }
    if (version.size !== this.#version.size || (version.tag && this.#version.tag && version.tag !== this.#version.tag)) {
      cancel.abort();
      throw new RivuletError(
        "integrity",
        `${describe(url)}: the file changed while it was read: expected ${show(this.#version)}, found ${show(version)}; load it again`,
      );
    }
    this.#lane = new Lane(response.body, offset, cancel, this.#settings);
    return this.#lane;
  }
}

function show({ size, tag }: Version): string {
  return `${size} bytes${tag ? ` (${tag})` : ""}`;
}

/** An address for messages: without a query, which may hold a secret. */
function describe(url: string): string {
  return `GET ${url.replace(/[?#].*$/, "")}`;
}

/** Runs `attempt` again after a Transient failure, a few times. */
async function retrying<T>(settings: Settings, what: string, attempt: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    if (settings.signal.aborted) throw aborted();
    try {
      return await attempt();
    } catch (error) {
      if (settings.signal.aborted) throw aborted();
      if (!(error instanceof Transient)) throw error;
      const wait = settings.backoffMs[tries];
      if (wait === undefined) {
        throw new RivuletError("network", `${what}: ${error.message}; ${tries + 1} attempts failed`, { cause: error });
      }
      await pause(error.retryAfterMs ?? wait, settings.signal);
    }
  }
}

/** One request for everything from `offset` on; resolves with a response whose status is 200 or 206. */
async function request(
  where: Where,
  offset: number,
  settings: Settings,
): Promise<{ response: Response; cancel: AbortController }> {
  const cancel = new AbortController();
  const stop = (): void => cancel.abort();
  settings.signal.addEventListener("abort", stop, { once: true });
  let stalled = false;
  const stall = setTimeout(() => {
    stalled = true;
    cancel.abort();
  }, settings.stallMs);
  let response: Response;
  try {
    response = await fetch(where.url, {
      headers: { ...where.headers, Range: `bytes=${offset}-` },
      credentials: where.credentials,
      signal: cancel.signal,
    });
  } catch (error) {
    if (stalled) throw new Transient(`no answer for ${settings.stallMs / 1000} s`);
    const why = error instanceof Error ? error.message : String(error);
    throw new Transient(`${why} (no answer, or the server does not allow this page: CORS)`);
  } finally {
    clearTimeout(stall);
  }
  if (response.status === 200 || response.status === 206) {
    if (settings.page || !/^text\/html\b/.test(response.headers.get("content-type") ?? "")) return { response, cancel };
    cancel.abort();
    throw new NotFound("network", `${describe(where.url)}: expected a file, found a web page`);
  }
  const status = `expected status 200 or 206, found ${response.status} ${response.statusText}`.trimEnd();
  const wait = retryAfter(response.headers);
  cancel.abort();
  if ([408, 425, 429].includes(response.status) || response.status >= 500) throw new Transient(status, wait);
  const Failure = response.status === 404 || response.status === 410 ? NotFound : RivuletError;
  throw new Failure("network", `${describe(where.url)}: ${status}; check the address, and that it may be read without signing in`);
}

/** Size and version of the file behind a response that starts at `offset`. */
function versionOf(response: Response, offset: number): Version {
  const { headers } = response;
  const tag = headers.get("etag") ?? headers.get("last-modified");
  const length = headers.get("content-length");
  if (response.status === 200) return { size: length === null ? 0 : Number(length), tag };
  const range = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(headers.get("content-range")?.trim() ?? "");
  if (range) {
    if (Number(range[1]) !== offset) {
      throw new RivuletError("network", `range request: expected bytes from ${offset}, found Content-Range ${range[0]}`);
    }
    return { size: Number(range[3]), tag };
  }
  // Across origins Content-Range is readable only where the server exposes it; Content-Length always is.
  if (length !== null && /^\d+$/.test(length)) return { size: offset + Number(length), tag };
  throw new RivuletError("network", "range request: expected Content-Range or Content-Length in the answer, found neither");
}

/** The whole body of a response as a Blob. */
async function whole(response: Response, cancel: AbortController, settings: Settings): Promise<Blob> {
  // With a Content-Encoding the length is that of the encoded bytes and says nothing about the file.
  const length = response.headers.get("content-encoding") ? null : response.headers.get("content-length");
  const expected = length === null ? 0 : Number(length);
  if (!response.body) throw new Transient("the response has no body");
  let loaded = 0;
  let stall: ReturnType<typeof setTimeout> | undefined;
  const watch = (): void => {
    clearTimeout(stall);
    stall = setTimeout(() => cancel.abort(), settings.stallMs);
  };
  const count = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, controller) {
      loaded += chunk.byteLength;
      watch();
      settings.onDownload?.(loaded, expected);
      controller.enqueue(chunk);
    },
  });
  watch();
  let blob: Blob;
  try {
    blob = await new Response(response.body.pipeThrough(count)).blob();
  } catch (error) {
    throw new Transient(`the response broke after ${loaded} bytes (${error instanceof Error ? error.message : String(error)})`);
  } finally {
    clearTimeout(stall);
  }
  if (expected && blob.size !== expected) throw new Transient(`expected ${expected} bytes, found ${blob.size}`);
  return blob;
}
