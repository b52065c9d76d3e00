// What a visitor downloads: every .wasm and .js file of the npm package, gzipped one by one.
//
//   node tests/tools/size.mjs PACKAGE_FOLDER [LIMIT_BYTES]
//
// The files are those that `npm pack` would put into the tarball, so a stray copy of the wasm counts, as it should.
// Exit status 1 above the limit, or where there is no wasm at all.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";

const [folder, limit] = [process.argv[2], Number(process.argv[3] ?? Infinity)];
const packed = JSON.parse(execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: folder, encoding: "utf8" }));
const files = (Array.isArray(packed) ? packed[0] : Object.values(packed)[0]).files.map((file) => file.path);
let total = 0;
let raw = 0;
for (const name of files.filter((file) => /\.(wasm|m?js)$/.test(file)).sort()) {
  const bytes = readFileSync(path.join(folder, name));
  const zipped = gzipSync(bytes, { level: 9 }).length;
  total += zipped;
  raw += bytes.length;
  console.log(`${String(bytes.length).padStart(10)} ${String(zipped).padStart(10)} gzipped  ${name}`);
}
console.log(`${String(raw).padStart(10)} ${String(total).padStart(10)} gzipped  in all; the limit is ${limit}`);
if (!files.some((file) => file.endsWith(".wasm"))) {
  console.error("size: the package holds no .wasm file");
  process.exit(1);
}
if (total > limit) {
  console.error(`size: wasm and JavaScript are ${total} bytes gzipped, ${total - limit} more than the limit of ${limit}`);
  process.exit(1);
}
