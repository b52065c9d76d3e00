// Packs dist/ into rivulet-extension.zip, byte for byte the same for the same files: names in order, one fixed date.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, posix, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";

import { zipSync } from "fflate";

const here = fileURLToPath(new URL(".", import.meta.url));
const dist = join(here, "dist");
// The first day that the zip format can name, in local time as the format wants it.
const DATE = new Date(1980, 0, 1, 12);

let names;
try {
  names = readdirSync(dist, { recursive: true, withFileTypes: true });
} catch {
  console.error("pack: www/extension/dist is not there; run `npm run build -w extension` first");
  process.exit(1);
}
const files = {};
for (const path of names
  .filter((entry) => entry.isFile())
  .map((entry) => relative(dist, join(entry.parentPath, entry.name)).split(sep).join(posix.sep))
  .sort()) {
  files[path] = [readFileSync(join(dist, path)), { mtime: DATE, level: 9 }];
}
if (!files["manifest.json"]) {
  console.error("pack: dist holds no manifest.json");
  process.exit(1);
}
const zip = zipSync(files);
const out = join(here, "rivulet-extension.zip");
writeFileSync(out, zip);
console.log(`packed ${Object.keys(files).length} files, ${(zip.length / 1e6).toFixed(2)} MB: ${relative(process.cwd(), out)}`);
