// A static server for the demo, the browser tests and the benchmark. It knows files and folders, nothing of Rivulet.
//
//   import { serve } from "./serve.mjs";
//   const site = await serve({ root: "www/chat/dist", models: "…/models" });   // root may be { "/": dirA, "/sdk/": dirB }
//   site.url                                                                   // http://localhost:PORT/
//   await site.close();
//
//   node tests/tools/serve.mjs --root DIR [--models DIR] [--port N]            // serves until it is stopped
//
// `models` is served under /models/. The loader reads weights by HTTP Range, and a page that is isolated needs
// COOP/COEP, so both are here. Paths cannot leave their folder: each is resolved and compared with it.
import { createReadStream, existsSync } from "node:fs";
import { realpath, stat } from "node:fs/promises";
import http from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".mjs": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
  ".map": "application/json",
  ".webmanifest": "application/manifest+json",
  ".wasm": "application/wasm",
  ".wgsl": "text/plain; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".woff2": "font/woff2",
};

const COMMON = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
  "Cross-Origin-Resource-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
  "Accept-Ranges": "bytes",
};

/** `bytes=a-b` of a file of `size` bytes: `[first, last]`, `null` where there is no (usable) header, `"unsatisfiable"`. */
export function parseRange(header, size) {
  const found = /^bytes=(\d*)-(\d*)$/.exec(header ?? "");
  if (!found || (found[1] === "" && found[2] === "")) return null;
  const [, from, to] = found;
  if (from === "") {
    const length = Math.min(Number(to), size);
    return length === 0 ? "unsatisfiable" : [size - length, size - 1];
  }
  const first = Number(from);
  const last = to === "" ? size - 1 : Math.min(Number(to), size - 1);
  if (to !== "" && Number(to) < first) return null;
  return first >= size ? "unsatisfiable" : [first, last];
}

/** The file that a URL path names under the longest mount it begins with, or null. Folders answer with index.html. */
async function locate(mounts, urlPath) {
  let decoded;
  try {
    decoded = decodeURIComponent(urlPath);
  } catch {
    return null;
  }
  if (decoded.includes("\0")) return null;
  for (const [prefix, folder] of mounts) {
    if (!decoded.startsWith(prefix)) continue;
    let file = path.resolve(folder, "." + path.posix.normalize("/" + decoded.slice(prefix.length)));
    try {
      if ((await stat(file)).isDirectory()) file = path.join(file, "index.html");
      file = await realpath(file);
      const info = await stat(file);
      if (!info.isFile()) continue;
      const home = await realpath(folder);
      if (file !== home && !file.startsWith(home + path.sep)) continue;
      return { file, info };
    } catch {
      continue;
    }
  }
  return null;
}

async function answer(mounts, request, response) {
  const refuse = (status, headers = {}) => {
    response.writeHead(status, { ...COMMON, "Content-Type": "text/plain", ...headers });
    response.end(`${status} ${http.STATUS_CODES[status]}\n`);
  };
  if (request.method !== "GET" && request.method !== "HEAD") return refuse(405, { Allow: "GET, HEAD" });
  const { pathname } = new URL(request.url, "http://localhost");
  const found = await locate(mounts, pathname);
  if (!found) return refuse(404);
  const { file, info } = found;
  const etag = `"${info.size.toString(16)}-${Math.round(info.mtimeMs).toString(16)}"`;
  const headers = {
    ...COMMON,
    "Content-Type": TYPES[path.extname(file).toLowerCase()] ?? "application/octet-stream",
    "Cache-Control": "no-cache",
    ETag: etag,
    "Last-Modified": info.mtime.toUTCString(),
  };
  if (request.headers["if-none-match"] === etag) {
    response.writeHead(304, headers);
    return response.end();
  }
  // If-Range with another tag means: the file has changed since the first part, so send it whole.
  const stale = request.headers["if-range"] && request.headers["if-range"] !== etag;
  const range = stale ? null : parseRange(request.headers.range, info.size);
  if (range === "unsatisfiable") return refuse(416, { "Content-Range": `bytes */${info.size}` });
  const [first, last] = range ?? [0, info.size - 1];
  headers["Content-Length"] = last - first + 1;
  if (range) headers["Content-Range"] = `bytes ${first}-${last}/${info.size}`;
  response.writeHead(range ? 206 : 200, headers);
  if (request.method === "HEAD" || info.size === 0) return response.end();
  const stream = createReadStream(file, { start: first, end: last });
  stream.on("error", () => response.destroy());
  response.on("close", () => stream.destroy());
  stream.pipe(response);
}

/**
 * Serves on the loopback address and answers once the port listens.
 * @param {{ root: string | Record<string, string>, models?: string, port?: number }} options `port` 0 (default) takes a free one
 * @returns {Promise<{ url: string, port: number, close(): Promise<void> }>}
 */
export async function serve({ root, models, port = 0 }) {
  const table = typeof root === "string" ? { "/": root } : { ...root };
  if (models) table["/models/"] = models;
  const missing = Object.values(table).find((dir) => !existsSync(dir));
  if (missing) throw new Error(`there is no folder ${missing}`);
  const mounts = Object.entries(table).sort(([a], [b]) => b.length - a.length);
  const server = http.createServer((request, response) => {
    answer(mounts, request, response).catch(() => {
      if (!response.headersSent) response.writeHead(500, COMMON);
      response.end();
    });
  });
  await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  const taken = server.address().port;
  return {
    url: `http://localhost:${taken}/`,
    port: taken,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const options = {};
  for (let i = 2; i < process.argv.length; i += 2) {
    const name = /^--(root|models|port)$/.exec(process.argv[i])?.[1];
    if (!name || process.argv[i + 1] === undefined) {
      console.error("usage: serve.mjs --root DIR [--models DIR] [--port N]");
      process.exit(2);
    }
    options[name] = name === "port" ? Number(process.argv[i + 1]) : process.argv[i + 1];
  }
  if (!options.root) {
    console.error("serve.mjs: --root DIR is missing");
    process.exit(2);
  }
  try {
    const site = await serve(options);
    console.log(site.url);
    const stop = () => site.close().then(() => process.exit(0));
    process.on("SIGINT", stop);
    process.on("SIGTERM", stop);
  } catch (error) {
    console.error(`serve.mjs: ${error.message}`);
    process.exit(1);
  }
}
