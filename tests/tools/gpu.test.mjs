// gpu.sh with a companion made of a few lines of shell, so that every way a step can end is seen without a GPU.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

const script = fileURLToPath(new URL("gpu.sh", import.meta.url));
const root = mkdtempSync(path.join(os.tmpdir(), "rivulet-gpu-"));
after(() => rmSync(root, { recursive: true, force: true }));

/** A folder with a companion of that shell text, a loader beside it and a driver's manifest; none of the latter where not asked for. */
function place(name, companion, { loader = true } = {}) {
  const folder = path.join(root, name);
  mkdirSync(folder);
  const bin = path.join(folder, "rivulet");
  writeFileSync(bin, `#!/bin/sh\nif [ "$1" = --version ]; then echo rivulet 9.9.9; exit 0; fi\n${companion}\n`);
  chmodSync(bin, 0o755);
  if (loader) writeFileSync(path.join(folder, "libvulkan.so.1"), "");
  writeFileSync(path.join(folder, "icd.json"), "{}");
  return { folder, bin, out: path.join(folder, "out") };
}

function run({ folder, bin, out }, args = [], env = {}) {
  const done = spawnSync("bash", [script, "--quick", "--bin", bin, ...args, out], {
    encoding: "utf8",
    env: { PATH: process.env.PATH, HOME: folder, VK_DRIVER_FILES: path.join(folder, "icd.json"), ...env },
  });
  const summary = path.join(out, "summary.json");
  return { ...done, summary: existsSync(summary) ? JSON.parse(readFileSync(summary, "utf8")) : null };
}

/** What `bench` does: --out FILE gets the report, stdout a table. */
const BENCH = 'while [ "$1" != --out ]; do shift; done; printf \'{"kind": "rivulet-bench", "decodeTps": 7}\\n\' >"$2"; echo a table';

test("gpu.sh goes on after steps that fail or hang, keeps whole reports only, and says so", () => {
  const it = place(
    "mixed",
    `case "$1 $2 $3" in
       selftest*) echo '{"adapter": {"name": "Some \\\\"GPU\\\\""}, "failed": ["FAIL a"]}'; exit 1 ;;
       "bench --synthetic "*) while [ "$1" != --out ]; do shift; done; printf '{"half": ' >"$2"; sleep 60 ;;
       bench*) ${BENCH} ;;
     esac`,
  );
  const model = path.join(it.folder, "model.gguf");
  writeFileSync(model, "");
  const { status, summary, stderr } = run(it, ["--model", model, "--budget", "10"]);
  assert.equal(status, 1, stderr);
  assert.equal(summary.complete, true);
  assert.equal(summary.version, "rivulet 9.9.9");
  const [selftest, smollm2, hanging] = summary.steps;
  assert.deepEqual([selftest.status, selftest.report.failed], ["failed", ["FAIL a"]]);
  assert.deepEqual([smollm2.status, smollm2.report.decodeTps], ["ok", 7]);
  assert.deepEqual([hanging.status, hanging.report], ["timed out", null]);
  assert.ok(hanging.seconds >= 8 && hanging.seconds <= 12, `${hanging.seconds} s`);
  assert.deepEqual(readdirSync(it.out).sort(), ["log.txt", "selftest.json", "smollm2.json", "summary.json"]);
});

test("gpu.sh skips what no time is left for, and hands the adapter on", () => {
  const it = place("spent", `echo "$*" >>"$(dirname "$0")/calls"; sleep 2; echo '{"failed": []}'`);
  const { status, summary } = run(it, ["--budget", "9", "--adapter", "NV's"]);
  assert.equal(status, 1);
  assert.deepEqual(
    summary.steps.map(({ status }) => status),
    ["ok", "skipped", "skipped"],
  );
  assert.match(summary.steps[1].why, /9 seconds/);
  assert.equal(readFileSync(path.join(it.folder, "calls"), "utf8"), "selftest --adapter NV's --json\n");
});

test("gpu.sh says what fails in a companion's own words, quoted for JSON", () => {
  const it = place("refused", `echo 'no-webgpu: no adapter "x\\y"' >&2; exit 1`);
  const { status, summary } = run(it);
  assert.equal(status, 2);
  assert.equal(summary.steps[0].why, 'exit status 1: no-webgpu: no adapter "x\\y"');
});

test("gpu.sh: a missing loader is said before anything is measured", () => {
  const it = place("bare", "exit 3", { loader: false });
  // A linker that knows of no library.
  writeFileSync(path.join(it.folder, "ldconfig"), "#!/bin/sh\n");
  chmodSync(path.join(it.folder, "ldconfig"), 0o755);
  const { status, stderr, summary } = run(it, [], { PATH: `${it.folder}:${process.env.PATH}` });
  assert.deepEqual([status, summary], [2, null]);
  assert.match(stderr, /libvulkan1/);
});

test("gpu.sh: no driver, no companion", () => {
  const it = place("driverless", "exit 3");
  const none = run(it, [], { VK_DRIVER_FILES: path.join(it.folder, "absent.json") });
  assert.deepEqual([none.status, none.summary], [2, null]);
  assert.match(none.stderr, /no Vulkan driver/);
  const gone = run({ ...it, bin: path.join(it.folder, "absent") });
  assert.equal(gone.status, 2);
  assert.match(gone.stderr, /no companion/);
});
