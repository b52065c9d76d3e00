import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { BlobSource, UrlSource } from "../src/bytes.js";

const SIZE = 300_000;
const file = Uint8Array.from({ length: SIZE }, (_, i) => (i * 31 + (i >> 8)) & 255);

/** Compares by memcmp: vitest's own comparison takes seconds for this many elements. */
function same(found: Uint8Array, from: number, to: number): boolean {
  return Buffer.compare(found, file.subarray(from, to)) === 0;
}

interface Behaviour {
  ranges?: boolean;
  /** Breaks the connection after this many bytes of each of the first `breaks` responses. */
  breakAfter?: number;
  breaks?: number;
  /** Answers the first requests with this status. */
  statuses?: number[];
  /** The body is this much shorter than announced, always. */
  short?: number;
  etag?: (request: number) => string;
  size?: (request: number) => number;
  exposeRange?: boolean;
  /** Never sends anything in the first request. */
  hang?: boolean;
}

let server: Server | undefined;
let requests: { range: string | undefined }[] = [];

async function serve(behaviour: Behaviour): Promise<string> {
  requests = [];
  let broken = 0;
  server = createServer((req: IncomingMessage, res: ServerResponse) => {
    const n = requests.push({ range: req.headers.range }) - 1;
    if (behaviour.hang && n === 0) return;
    const status = behaviour.statuses?.[n];
    if (status) {
      res.writeHead(status, { "retry-after": "0" }).end();
      return;
    }
    const size = behaviour.size?.(n) ?? SIZE;
    const start = Number(/^bytes=(\d+)-$/.exec(req.headers.range ?? "")?.[1] ?? 0);
    const ranged = behaviour.ranges !== false;
    const body = file.subarray(ranged ? start : 0, size);
    const headers: Record<string, string> = { "content-length": String(body.length) };
    if (ranged && behaviour.exposeRange !== false) headers["content-range"] = `bytes ${start}-${size - 1}/${size}`;
    if (behaviour.etag) headers["etag"] = behaviour.etag(n);
    res.writeHead(ranged ? 206 : 200, headers);
    if (behaviour.breakAfter !== undefined && broken < (behaviour.breaks ?? 1)) {
      broken++;
      res.write(body.subarray(0, behaviour.breakAfter), () => setTimeout(() => res.destroy(), 5));
      return;
    }
    if (behaviour.short) res.write(body.subarray(0, body.length - behaviour.short), () => setTimeout(() => res.destroy(), 5));
    else res.end(body);
  });
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/model.gguf`;
}

afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

const open = async (url: string, more: { signal?: AbortSignal; stallMs?: number } = {}) =>
  UrlSource.open(
    { url, headers: {}, credentials: "same-origin" },
    { signal: new AbortController().signal, backoffMs: [1, 1, 1], readAhead: 50_000, ...more },
  );

describe("a URL with ranges", () => {
  test("sequential reads take one request", async () => {
    const source = await open(await serve({}));
    expect(source.size).toBe(SIZE);
    for (let at = 0; at < SIZE; at += 70_000) {
      const length = Math.min(70_000, SIZE - at);
      expect(same(await source.read(at, length), at, at + length)).toBe(true);
    }
    expect(requests).toEqual([{ range: "bytes=0-" }]);
  });

  test("a small gap is read over, a jump back asks anew", async () => {
    const source = await open(await serve({}));
    await source.read(0, 10);
    expect(await source.read(50, 10)).toEqual(file.slice(50, 60));
    expect(requests).toHaveLength(1);
    expect(await source.read(5, 10)).toEqual(file.slice(5, 15));
    expect(requests[1]).toEqual({ range: "bytes=5-" });
  });

  test("reads that are asked for at once are answered in order", async () => {
    const source = await open(await serve({}));
    const [a, b, none] = await Promise.all([source.read(100, 50), source.read(150, 50), source.read(0, 0)]);
    expect(a).toEqual(file.slice(100, 150));
    expect(b).toEqual(file.slice(150, 200));
    expect(none).toHaveLength(0);
  });

  test("a broken response is taken up where it broke, as often as it breaks", async () => {
    const source = await open(await serve({ breakAfter: 40_000, breaks: 6 }));
    expect(same(await source.read(0, SIZE), 0, SIZE)).toBe(true);
    expect(requests.length).toBe(7);
  });

  test("a response that always ends short is a network error", async () => {
    const source = await open(await serve({ short: 100 }));
    await expect(source.read(0, SIZE)).rejects.toMatchObject({ code: "network" });
  });

  test("a file that changes is an integrity error", async () => {
    let source = await open(await serve({ etag: (n) => `"v${n}"` }));
    await source.read(1000, 10);
    await expect(source.read(0, 10)).rejects.toMatchObject({ code: "integrity", message: expect.stringContaining('"v1"') as string });
    server?.close();
    source = await open(await serve({ size: (n) => SIZE - n }));
    await source.read(1000, 10);
    await expect(source.read(0, 10)).rejects.toMatchObject({ code: "integrity" });
  });

  test("without Content-Range the length tells the size", async () => {
    const source = await open(await serve({ exposeRange: false }));
    expect(source.size).toBe(SIZE);
    await source.read(0, 100);
    expect(await source.read(20, 5)).toEqual(file.slice(20, 25));
  });

  test("a range beyond the end is refused without a request", async () => {
    const source = await open(await serve({}));
    await expect(source.read(SIZE - 1, 2)).rejects.toMatchObject({ code: "bad-file" });
    await expect(source.read(-1, 2)).rejects.toMatchObject({ code: "bad-file" });
    expect(requests).toHaveLength(1);
  });
});

describe("failures", () => {
  test("busy servers are asked again", async () => {
    const source = await open(await serve({ statuses: [503, 429] }));
    expect(await source.read(0, 10)).toEqual(file.slice(0, 10));
    expect(requests).toHaveLength(3);
  });

  test("a status that will not change is an error that names it, at once", async () => {
    await expect(open(await serve({ statuses: [404] }))).rejects.toMatchObject({
      code: "network",
      message: expect.stringContaining("404") as string,
    });
    expect(requests).toHaveLength(1);
  });

  test("attempts end", async () => {
    await expect(open(await serve({ statuses: [500, 500, 500, 500, 500] }))).rejects.toMatchObject({
      code: "network",
      message: expect.stringContaining("500") as string,
    });
    expect(requests).toHaveLength(4);
  });

  test("a server that says nothing is given up and asked again", async () => {
    const source = await open(await serve({ hang: true }), { stallMs: 50 });
    expect(source.size).toBe(SIZE);
    expect(requests).toHaveLength(2);
  });

  test("nobody there", async () => {
    await expect(open("http://127.0.0.1:1/model.gguf")).rejects.toMatchObject({ code: "network" });
  });

  test("an abort ends a read under way", async () => {
    const controller = new AbortController();
    const url = await serve({ breakAfter: 10, breaks: 1000 });
    const source = await open(url, { signal: controller.signal });
    const read = source.read(0, SIZE);
    controller.abort();
    await expect(read).rejects.toMatchObject({ code: "aborted" });
  });

  test("secrets of the address are not in messages", async () => {
    const url = await serve({ statuses: [403] });
    await expect(open(`${url}?token=secret`)).rejects.toMatchObject({ message: expect.not.stringContaining("secret") as string });
  });
});

describe("a URL without ranges", () => {
  test("the whole file is fetched once", async () => {
    const seen: number[] = [];
    const url = await serve({ ranges: false });
    const source = await UrlSource.open(
      { url, headers: {}, credentials: "same-origin" },
      { signal: new AbortController().signal, onDownload: (loaded, total) => seen.push(loaded / total) },
    );
    expect(source.size).toBe(SIZE);
    expect(await source.read(1000, 1000)).toEqual(file.slice(1000, 2000));
    expect(await source.read(0, 5)).toEqual(file.slice(0, 5));
    expect(requests).toHaveLength(1);
    expect(seen.at(-1)).toBe(1);
  });

  test("a body that is too short is fetched again, then an error", async () => {
    await expect(open(await serve({ ranges: false, short: 5 }))).rejects.toMatchObject({ code: "network" });
    expect(requests).toHaveLength(4);
  });
});

test("a Blob", async () => {
  const source = new BlobSource(new Blob([file]), "the file");
  expect(await source.read(7, 9)).toEqual(file.slice(7, 16));
  await expect(source.read(SIZE, 1)).rejects.toMatchObject({ code: "bad-file" });
});
