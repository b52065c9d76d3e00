// Runs one suite of `./build.sh test` or `check`: shows its output, keeps it for tally.mjs, and ends it in time.
//
//   node tests/tools/suite.mjs FOLDER NAME KIND LIMIT_SECONDS -- COMMAND ARGUMENTS…
//
// Always exits with 0 once the result is written into FOLDER/suites.tsv: the tally decides, so that one broken suite
// does not hide the others. The command gets a process group of its own, which is ended with it: a browser that
// outlives its test would otherwise keep this script's pipe, and with it CI, open for ever.
import { spawn } from "node:child_process";
import { appendFileSync, createWriteStream } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const QUIET_S = 60; // after so long without output, say that it still runs
const GRACE_MS = 5_000; // from SIGTERM to SIGKILL

const [folder, name, kind, limit, dashes, ...command] = process.argv.slice(2);
if (dashes !== "--" || command.length === 0) {
  console.error("usage: suite.mjs FOLDER NAME KIND LIMIT_SECONDS -- COMMAND ARGUMENTS…");
  process.exit(2);
}

console.log(`\n== ${name}: ${command.map((word) => path.basename(word)).join(" ")}`);
const log = createWriteStream(path.join(folder, `${name}.log`));
const started = Date.now();
const seconds = () => Math.round((Date.now() - started) / 1000);
let lastOutput = Date.now();

const child = spawn(command[0], command.slice(1), { stdio: ["ignore", "pipe", "pipe"], detached: true });
for (const [stream, out] of [
  [child.stdout, process.stdout],
  [child.stderr, process.stderr],
]) {
  stream.on("data", (bytes) => {
    lastOutput = Date.now();
    log.write(bytes);
    out.write(bytes);
  });
}
const kill = (signal) => {
  try {
    process.kill(-child.pid, signal);
  } catch {
    // the group is gone already
  }
};

const heart = setInterval(() => {
  if (Date.now() - lastOutput > QUIET_S * 1000) {
    lastOutput = Date.now();
    console.log(`   … ${name} still runs (${seconds()} s)`);
  }
}, 5_000);
let late = false;
const deadline = setTimeout(() => {
  late = true;
  console.log(`   … ${name} ran past ${limit} s and is ended`);
  kill("SIGTERM");
  setTimeout(() => kill("SIGKILL"), GRACE_MS).unref();
}, Number(limit) * 1000);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    kill("SIGKILL");
    process.exit(130);
  });
}

const status = await new Promise((resolve) => {
  child.on("error", (error) => {
    console.error(`   ${command[0]}: ${error.message}`);
    resolve(127);
  });
  child.on("exit", (code, signal) => resolve(late ? 124 : (code ?? (signal ? 128 : 1))));
});
clearInterval(heart);
clearTimeout(deadline);
// What the command wrote last may still be in the pipe; what it left running must not outlive it.
await Promise.race([new Promise((resolve) => child.on("close", resolve)), sleep(500)]);
kill("SIGKILL");
await new Promise((resolve) => log.end(resolve));
appendFileSync(path.join(folder, "suites.tsv"), [name, kind, status, seconds()].join("\t") + "\n");
console.log(`   ${name}: ${status === 0 ? "done" : `exit status ${status}`} after ${seconds()} s`);
process.exit(0);
