import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { nameOf, openFiles } from "../src/files.js";
import { describeSource } from "../src/source.js";

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
const settings = (): { signal: AbortSignal; backoffMs: number[] } => ({ signal: new AbortController().signal, backoffMs: [1] });
const shard = (i: number, body = "GGUF"): File => new File([body], `m-0000${i}-of-00002.gguf`);

let server: Server | undefined;
let requests: string[] = [];

/** A server of one folder; whatever is not there is a web page, with this status. */
async function serve(files: Record<string, string>, missing = 404): Promise<string> {
  requests = [];
  server = createServer((req, res) => {
    requests.push(req.url ?? "");
    const name = decodeURIComponent((req.url ?? "").replace(/^\/dir\//, "").replace(/\?.*/, ""));
    const body = files[name];
    if (body === undefined) {
      res.writeHead(missing, { "content-type": "text/html; charset=utf-8" }).end("<!doctype html>");
      return;
    }
    const start = Number(/^bytes=(\d+)-/.exec(req.headers.range ?? "")?.[1] ?? 0);
    res.writeHead(206, { "content-range": `bytes ${start}-${body.length - 1}/${body.length}` }).end(body.slice(start));
  });
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/dir/`;
}

afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

describe("files in hand", () => {
  test("shards by name, whatever their order", async () => {
    const source = await describeSource([shard(2, "GGUF b"), shard(1, "GGUF a")], {});
    const files = openFiles(source, settings());
    expect(files.entry).toBe("m-00001-of-00002.gguf");
    expect(text((await (await files.open("m-00002-of-00002.gguf"))?.read(5, 1)) ?? new Uint8Array())).toBe("b");
    expect(await files.open("m-00003-of-00002.gguf")).toBeUndefined();
  });

  test("Blobs that each begin as GGUF files are shards in order, others pieces of one file", async () => {
    expect(await describeSource([new Blob(["GGUF1"]), new Blob(["GGUF2"])], {})).toMatchObject({
      kind: "blobs",
      entry: "model-00001-of-00002.gguf",
      blobs: [["model-00001-of-00002.gguf", {}], ["model-00002-of-00002.gguf", {}]],
    });
    const pieces = await describeSource([new Blob(["GGUF1"]), new Blob(["rest"])], {});
    expect(pieces.kind === "blob" && (await pieces.blob.text())).toBe("GGUF1rest");
  });

  test("a folder is its own files, and a model of two kinds is refused", async () => {
    const inFolder = (path: string): File => Object.defineProperty(new File([""], path.split("/").pop() ?? ""), "webkitRelativePath", { value: path });
    const folder = ["m/config.json", "m/model.safetensors", "m/onnx/config.json"].map(inFolder);
    expect(await describeSource(folder, {})).toMatchObject({ kind: "blobs", entry: "", blobs: [["config.json", {}], ["model.safetensors", {}]] });
    const two = [new File([""], "a.gguf"), new File([""], "b.gguf")];
    await expect(describeSource(two, {})).rejects.toMatchObject({ code: "bad-option", message: expect.stringContaining("b.gguf") as string });
    await expect(describeSource([], {})).rejects.toMatchObject({ code: "bad-option" });
  });
});

describe("files behind addresses", () => {
  test("others are found beside the first, with its query", async () => {
    const url = await serve({ "m 1.gguf": "GGUF", "config.json": "{}" });
    const files = openFiles(await describeSource(`${url}m%201.gguf?token=1`, {}), settings());
    expect(files.entry).toBe("m 1.gguf");
    expect((await files.open("m 1.gguf"))?.size).toBe(4);
    expect((await files.open("config.json"))?.size).toBe(2);
    expect(await files.open("other.json")).toBeUndefined();
    expect(requests).toEqual(["/dir/m%201.gguf?token=1", "/dir/config.json?token=1", "/dir/other.json?token=1"]);
  });

  test("a page in place of a file means that there is none, but not for what was asked for", async () => {
    const url = await serve({}, 200);
    const files = openFiles(await describeSource(`${url}m.gguf`, {}), settings());
    expect(await files.open("x.json")).toBeUndefined();
    expect((await files.open("m.gguf"))?.size).toBe(15);
  });

  test("what was asked for and is not there is an error", async () => {
    const files = openFiles(await describeSource(`${await serve({})}m.gguf`, {}), settings());
    await expect(files.open("m.gguf")).rejects.toMatchObject({ code: "network", message: expect.stringContaining("404") as string });
  });

  test("an array holds all there are", async () => {
    const url = await serve({ "a-00001-of-00002.gguf": "GGUF", "a-00002-of-00002.gguf": "GGUF2" });
    const source = await describeSource([`${url}a-00002-of-00002.gguf`, new URL(`${url}a-00001-of-00002.gguf`)], {});
    const files = openFiles(source, settings());
    expect(files.entry).toBe("a-00001-of-00002.gguf");
    const [one, two] = [await files.open("a-00001-of-00002.gguf"), await files.open("a-00002-of-00002.gguf")];
    expect(text((await two?.read(0, 5)) ?? new Uint8Array())).toBe("GGUF2");
    // The first one's response was ended; it asks anew.
    expect(text((await one?.read(0, 4)) ?? new Uint8Array())).toBe("GGUF");
    expect(requests).toHaveLength(3);
    expect(await files.open("config.json")).toBeUndefined();
    expect(requests).toHaveLength(3);
  });

  test("names in addresses", () => {
    expect(nameOf("https://h/a/b%20c.gguf?x#y")).toBe("b c.gguf");
    expect(nameOf("https://h/a/")).toBe("");
    expect(nameOf("blob:https://h/123")).toBe("model.gguf");
    expect(nameOf("https://h/%zz")).toBe("%zz");
  });
});
