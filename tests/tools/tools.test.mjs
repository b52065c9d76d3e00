// The helpers of build.sh, tested with node's own runner: `node --test tests/tools/tools.test.mjs`.
import assert from "node:assert/strict";
import { mkdtemp, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { parseRange, serve } from "./serve.mjs";
import { tally } from "./tally.mjs";

const counts = ({ passed, failed, skipped }) => [passed, failed, skipped];

test("tally adds up every test binary of cargo test and takes quiet skips out of passed", () => {
  const log = [
    "test gguf::a ... ok",
    "test gguf::b ... ignored, needs a GPU",
    "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
    "test kernels::c ... FAILED",
    "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
  ].join("\n");
  const sum = tally("libtest", 101, log, ["golden: no ../shared"]);
  assert.deepEqual(counts(sum), [14, 1, 2]);
  assert.deepEqual(sum.skips, ["gguf::b: needs a GPU", "golden: no ../shared"]);
  assert.deepEqual(sum.failures, ["kernels::c"]);
});

test("tally: a build error, a run past its limit and a run of nothing are failures", () => {
  assert.deepEqual(counts(tally("libtest", 101, "error: could not compile")), [0, 1, 0]);
  assert.deepEqual(tally("lines", 124, "ok one").failures, ["ran past its time limit"]);
  assert.deepEqual(counts(tally("lines", 124, "ok one")), [1, 1, 0]);
  assert.deepEqual(tally("libtest", 0, "test result: ok. 0 passed; 0 failed; 0 ignored;").failures, [
    "the runner executed no test",
  ]);
  assert.deepEqual(counts(tally("lines", 0, "")), [0, 1, 0]);
  assert.deepEqual(counts(tally("lines", 0, "skip a: no browser")), [0, 1, 1]);
  assert.deepEqual(counts(tally("note", 0, "skip a: no browser")), [0, 0, 1]);
});

test("tally reads our own lines, colours and carriage returns notwithstanding", () => {
  const sum = tally("lines", 1, "\x1b[32mok\x1b[0m a\r\nFAIL b: got 1, expected 2\nskip c: no Firefox\n  ok indented\nokay\n");
  assert.deepEqual(counts(sum), [1, 1, 1]);
  assert.deepEqual(sum.failures, ["b: got 1, expected 2"]);
});

test("tally reads node's runner and vitest, over several workspaces", () => {
  const node = "ℹ tests 4\nℹ pass 2\nℹ fail 1\nℹ cancelled 0\nℹ skipped 1\nℹ todo 0\n";
  assert.deepEqual(counts(tally("npm", 1, node)), [2, 1, 1]);
  const tap = "ok 1 - a\nok 2 - b # SKIP no GPU\nnot ok 3 - c\n# pass 1\n# fail 1\n# skipped 1\n";
  const tapped = tally("node", 1, tap);
  assert.deepEqual([counts(tapped), tapped.skips, tapped.failures], [[1, 1, 1], ["b: no GPU"], ["c"]]);
  const vitest = " Test Files  1 failed (2)\n      Tests  1 failed | 7 passed | 2 skipped (10)\n";
  assert.deepEqual(counts(tally("npm", 1, vitest + node)), [9, 2, 3]);
});

test("tally: a step passes or fails by its exit status", () => {
  assert.deepEqual(counts(tally("step", 0, "")), [1, 0, 0]);
  assert.deepEqual(counts(tally("step", 2, "")), [0, 1, 0]);
  assert.throws(() => tally("no-such-kind", 0, ""));
});

test("parseRange", () => {
  assert.deepEqual(parseRange("bytes=0-3", 10), [0, 3]);
  assert.deepEqual(parseRange("bytes=4-", 10), [4, 9]);
  assert.deepEqual(parseRange("bytes=-3", 10), [7, 9]);
  assert.deepEqual(parseRange("bytes=8-99", 10), [8, 9]);
  assert.equal(parseRange("bytes=10-", 10), "unsatisfiable");
  assert.equal(parseRange("bytes=-0", 10), "unsatisfiable");
  assert.equal(parseRange("bytes=5-2", 10), null);
  assert.equal(parseRange("bytes=0-1,3-4", 10), null);
  assert.equal(parseRange(undefined, 10), null);
});

test("serve answers whole files, ranges and HEAD, and never leaves its folder", async () => {
  const home = await mkdtemp(path.join(os.tmpdir(), "rivulet-serve-"));
  const models = path.join(home, "models");
  const root = path.join(home, "root");
  await mkdir(models);
  await mkdir(root);
  await writeFile(path.join(home, "secret"), "no");
  await writeFile(path.join(models, "m.gguf"), "0123456789");
  await writeFile(path.join(root, "index.html"), "<!doctype html>");
  await writeFile(path.join(root, "a.wasm"), "");
  await symlink(path.join(home, "secret"), path.join(root, "out"));
  const site = await serve({ root, models });
  try {
    const page = await fetch(site.url);
    assert.equal(await page.text(), "<!doctype html>");
    assert.equal(page.headers.get("cross-origin-embedder-policy"), "require-corp");
    const part = await fetch(`${site.url}models/m.gguf`, { headers: { Range: "bytes=2-4" } });
    assert.equal(part.status, 206);
    assert.equal(part.headers.get("content-range"), "bytes 2-4/10");
    assert.equal(await part.text(), "234");
    const past = await fetch(`${site.url}models/m.gguf`, { headers: { Range: "bytes=10-" } });
    assert.equal(past.status, 416);
    const stale = await fetch(`${site.url}models/m.gguf`, { headers: { Range: "bytes=2-4", "If-Range": '"other"' } });
    assert.equal(stale.status, 200);
    const head = await fetch(`${site.url}models/m.gguf`, { method: "HEAD" });
    assert.equal(head.headers.get("content-length"), "10");
    const same = await fetch(`${site.url}models/m.gguf`, { headers: { "If-None-Match": head.headers.get("etag") } });
    assert.equal(same.status, 304);
    const empty = await fetch(`${site.url}a.wasm`);
    assert.equal(empty.headers.get("content-type"), "application/wasm");
    assert.equal(await empty.text(), "");
    for (const out of ["out", "..%2fsecret", "%2e%2e/secret", "models/..%2f..%2fsecret", "nothing", "%"]) {
      assert.equal((await fetch(site.url + out)).status, 404, out);
    }
    assert.equal((await fetch(site.url, { method: "POST" })).status, 405);
  } finally {
    await site.close();
    await rm(home, { recursive: true });
  }
});
