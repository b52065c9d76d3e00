// Adds up what the runners of `./build.sh test` said, and says it in one line.
//
//   node tests/tools/tally.mjs FOLDER
//
// FOLDER/suites.tsv has a line for each suite: name, kind, exit status, seconds. FOLDER/NAME.log holds its output, and
// FOLDER/NAME.skips (optional) a line "test: reason" for each test that its runner counted as passed though it skipped.
// The last line printed is `N passed, N failed, N skipped`. Exit status 1 when anything failed or a suite ran nothing:
// a runner that finds no test and leaves with 0 is how a broken suite stays green.
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

// What each kind of log says: { passed, failed, skips: [text], failures: [text] }. `skipped` may exceed skips.length
// where a runner counts without naming.
const zero = () => ({ passed: 0, failed: 0, skipped: 0, skips: [], failures: [] });
// eslint-disable-next-line no-control-regex
const plain = (log) => log.replace(/\x1b\[[0-9;]*[A-Za-z]/g, "").replaceAll("\r", "");

const readers = {
  /** A single thing that works or does not: its exit status is the result. */
  step: () => zero(),

  /** cargo test: one `test result:` line for each binary. */
  libtest(log) {
    const sum = zero();
    for (const [, passed, failed, ignored] of log.matchAll(
      /^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;/gm,
    )) {
      sum.passed += Number(passed);
      sum.failed += Number(failed);
      sum.skipped += Number(ignored);
    }
    for (const [, name, reason] of log.matchAll(/^test (.+?) \.\.\. ignored(?:, (.*))?$/gm)) {
      sum.skips.push(`${name}: ${reason ?? "ignored"}`);
    }
    for (const [, name] of log.matchAll(/^test (.+?) \.\.\. FAILED$/gm)) sum.failures.push(name);
    return sum;
  },

  /** node --test, by its closing counts (spec and tap reporters), once for each workspace. */
  node(log) {
    const sum = zero();
    for (const [, what, count] of log.matchAll(/^(?:ℹ|#) (pass|fail|cancelled|skipped|todo) (\d+)$/gm)) {
      if (what === "pass") sum.passed += Number(count);
      else if (what === "fail" || what === "cancelled") sum.failed += Number(count);
      else sum.skipped += Number(count);
    }
    for (const [, name, reason] of log.matchAll(/^\s*﹣ (.+?) \([\d.]+ms\)(?: # (.*))?$/gm)) {
      sum.skips.push(`${name}: ${reason ?? "skipped"}`);
    }
    for (const [, name, reason] of log.matchAll(/^ok \d+ - (.+?) # SKIP ?(.*)$/gm)) sum.skips.push(`${name}: ${reason || "skipped"}`);
    for (const [, name] of log.matchAll(/^not ok \d+ - (.+?)$/gm)) sum.failures.push(name);
    return sum;
  },

  /** vitest, by its closing line ` Tests  2 failed | 10 passed | 1 skipped (13)`, once for each workspace. */
  vitest(log) {
    const sum = zero();
    for (const [, line] of log.matchAll(/^\s*Tests {2,}(.*)$/gm)) {
      for (const [, count, what] of line.matchAll(/(\d+) (passed|failed|skipped|todo)/g)) {
        sum[what === "todo" ? "skipped" : what] += Number(count);
      }
    }
    for (const [, name] of log.matchAll(/^\s*↓ (.+?)(?: \d+ms)?$/gm)) sum.skips.push(name);
    return sum;
  },

  /** npm test over workspaces, which may use either runner. */
  npm: (log) => merge(readers.node(log), readers.vitest(log)),

  /** Our own runners: `ok NAME`, `FAIL NAME: why`, `skip NAME: why`. */
  lines(log) {
    const sum = zero();
    for (const [, what, rest] of log.matchAll(/^(ok|FAIL|skip) (\S.*)$/gm)) {
      if (what === "ok") sum.passed += 1;
      else if (what === "FAIL") {
        sum.failed += 1;
        sum.failures.push(rest);
      } else {
        sum.skipped += 1;
        sum.skips.push(rest);
      }
    }
    return sum;
  },

  /** Says in our own lines why a suite cannot run on this machine; it may be all skips. */
  note: (log) => readers.lines(log),
};

function merge(a, b) {
  return {
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    skipped: a.skipped + b.skipped,
    skips: [...a.skips, ...b.skips],
    failures: [...a.failures, ...b.failures],
  };
}

/** The result of one suite. `status` is the runner's exit status; `quiet` the lines of its .skips file. */
export function tally(kind, status, log, quiet = []) {
  const read = readers[kind];
  if (!read) throw new Error(`tally: no such kind of suite: ${kind}`);
  const sum = read(plain(log));
  if (kind === "step") {
    if (status === 0) sum.passed = 1;
    else sum.failed = 1;
  } else {
    const skips = [...new Set(quiet)];
    sum.skips.push(...skips);
    // Such a test returned early, so its runner counted it as passed.
    sum.passed = Math.max(0, sum.passed - skips.length);
    sum.skipped += skips.length;
    if (status === 0 && kind !== "note" && sum.passed + sum.failed === 0) {
      sum.failed = 1;
      sum.failures.push("the runner executed no test");
    }
  }
  if (status !== 0 && sum.failed === 0) sum.failed = 1;
  if (status !== 0 && sum.failures.length === 0) {
    sum.failures.push(status === 124 || status === 137 ? "ran past its time limit" : `exit status ${status}`);
  }
  return sum;
}

function main(folder) {
  const read = (name) => (existsSync(path.join(folder, name)) ? readFileSync(path.join(folder, name), "utf8") : "");
  const suites = read("suites.tsv")
    .split("\n")
    .filter(Boolean)
    .map((line) => line.split("\t"));
  const all = zero();
  const skips = [];
  const failures = [];
  console.log("\n== results");
  for (const [name, kind, status, seconds] of suites) {
    const quiet = read(`${name}.skips`).split("\n").map((line) => line.trim()).filter(Boolean);
    const sum = tally(kind, Number(status), read(`${name}.log`), quiet);
    all.passed += sum.passed;
    all.failed += sum.failed;
    all.skipped += sum.skipped;
    skips.push(...sum.skips.map((text) => `${name}: ${text}`));
    failures.push(...sum.failures.map((text) => `${name}: ${text}`));
    const counts = `${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`;
    // A prefix keeps these from being read as the closing line.
    console.log(`   ${name.padEnd(18)} ${`${seconds} s`.padStart(7)}   ${counts}`);
  }
  for (const text of skips) console.log(`   skipped  ${text}`);
  for (const text of failures) console.log(`   FAILED   ${text}`);
  if (suites.length === 0) {
    console.log("   FAILED   no suite ran");
    all.failed += 1;
  }
  console.log(`${all.passed} passed, ${all.failed} failed, ${all.skipped} skipped`);
  return all.failed === 0 && all.passed > 0 ? 0 : 1;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) process.exitCode = main(process.argv[2]);
