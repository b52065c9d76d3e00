// Reports: what they must hold to be drawn, and how their figures read.

import type { BenchReport, MeasuredContext } from "rivulet/bench";

const NUMBERS = ["context", "prefillTps", "ttftMs", "decodeTps", "bytesPerToken", "bandwidthGBps", "share"] as const;

/** More rows than anybody measures, and figures beyond any device, are somebody's joke: a chart cannot draw them. */
const MOST_ROWS = 1000;
const MOST = 1e15;
const LEAST = 1e-9;

const drawable = (value: unknown): boolean =>
  typeof value === "number" && (value === 0 || (value >= LEAST && value <= MOST));

/** A report from the text of a file. Throws an Error in plain words. */
export function parseReport(text: string): BenchReport {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error("it is no JSON");
  }
  const report = value as Partial<BenchReport> | null;
  if (typeof report !== "object" || report === null || report.kind !== "rivulet-bench") {
    throw new Error("it is JSON, but no result of a measurement by Rivulet");
  }
  const sound = (row: unknown): row is MeasuredContext =>
    typeof row === "object" && row !== null && NUMBERS.every((name) => drawable((row as Record<string, unknown>)[name]));
  if (!Array.isArray(report.contexts) || report.contexts.length === 0 || report.contexts.length > MOST_ROWS || !report.contexts.every(sound)) {
    throw new Error("figures are missing in it, or cannot be drawn");
  }
  const { skippedContexts: skipped, quantization } = report as { skippedContexts?: unknown; quantization?: unknown };
  if (skipped !== undefined && !(Array.isArray(skipped) && skipped.every(drawable))) throw new Error("its skipped contexts are no list");
  if (quantization !== undefined && typeof quantization !== "string") throw new Error("its quantization is no text");
  for (const name of ["model", "adapter", "tier"] as const) {
    if (typeof report[name] !== "string") throw new Error(`it does not name its ${name}`);
  }
  return report as BenchReport;
}

/** Something measured: three significant digits, zeros at the end among them. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  return Math.abs(value) >= 99.95 ? Math.round(value).toLocaleString("en") : value.toPrecision(3);
}

/** Something counted, or a step of a chart: up to three significant digits. */
export function plain(value: number): string {
  return Math.abs(value) < 99.95 ? String(Number(value.toPrecision(3))) : digits(value);
}

/** How many there are of a thing. */
export const count = (n: number, thing: string): string => `${plain(n)} ${thing}${n === 1 ? "" : "s"}`;

export const percent = (share: number): string => `${digits(share * 100)} %`;
export const megabytes = (bytes: number): string => `${digits(bytes / 1e6)} MB`;
export const milliseconds = (ms: number): string => (ms >= 1000 ? `${digits(ms / 1000)} s` : `${digits(ms)} ms`);
/** Context lengths as people say them: 512, 2k, 8k. */
export const tokens = (n: number): string => (n >= 1024 && n % 1024 === 0 ? `${n / 1024}k` : String(n));

/** The columns of a report's table. */
export const COLUMNS: [title: string, cell: (row: MeasuredContext) => string][] = [
  ["Context", (row) => String(row.context)],
  ["Decode, tokens/s", (row) => digits(row.decodeTps)],
  ["Share", (row) => percent(row.share)],
  ["Prefill, tokens/s", (row) => digits(row.prefillTps)],
  ["First token", (row) => milliseconds(row.ttftMs)],
  ["A token reads", (row) => megabytes(row.bytesPerToken)],
  ["GB/s", (row) => digits(row.bandwidthGBps)],
];

const PHASES = [
  ["header", "headerMs"],
  ["tokenizer", "tokenizerMs"],
  ["buffers", "buffersMs"],
  ["weights", "weightsMs"],
  ["kernels", "kernelsMs"],
  ["tuning", "tuningMs"],
] as const;

/** What a load took its time for, without what took none worth a word. */
function phases(r: BenchReport): string | undefined {
  const took = r.loadPhases;
  if (!took) return undefined;
  const words = PHASES.filter(([, name]) => took[name] >= 1).map(([phase, name]) => `${phase} ${milliseconds(took[name])}`);
  return words.length ? words.join(", ") : undefined;
}

function tuning(r: BenchReport): string | undefined {
  switch (r.tuning?.source) {
    case "default":
      return "the default of such devices";
    case "stored":
      return "stored by an earlier load";
    case "measured":
      return `measured in this load, ${r.tuning.measured} of ${count(r.tuning.candidates, "choice")}`;
    default:
      return undefined;
  }
}

/** The longest submit of any prompt. */
function longestSubmit(r: BenchReport): string | undefined {
  const known = r.contexts.map((row) => row.longestSubmitMs).filter((ms): ms is number => typeof ms === "number");
  return known.length ? milliseconds(Math.max(...known)) : undefined;
}

/** What else is worth reading, as pairs. Older files and the companion's lack some of it. */
export function facts(r: BenchReport): [string, string][] {
  const rows: [string, string | undefined][] = [
    ["Device", `${r.adapter || "unnamed"} (${r.backend})`],
    ["Kernels", r.tier],
    ["Weights", r.quantization],
    ["Memory reads", `${digits(r.measuredBandwidthGBps)} GB/s`],
    ["Loaded in", milliseconds(r.loadMs)],
    ["Of that", phases(r)],
    ["Loaded again in", r.warmLoadMs === undefined ? undefined : milliseconds(r.warmLoadMs)],
    ["On the GPU", megabytes(r.peakGpuBytes)],
    ["WebAssembly’s memory", r.peakWasmBytes === undefined ? undefined : megabytes(r.peakWasmBytes)],
    [
      "A token takes",
      `${plain(r.dispatchesPerToken)} ${r.dispatchesPerToken === 1 ? "dispatch" : "dispatches"}, ${count(r.submitsPerToken, "submit")}, ` +
        `${count(r.readbacksPerToken, "readback")}, ${count(r.writesPerToken, "write")}, ${count(r.objectsCreatedPerToken, "object")} created`,
    ],
    ["Longest submit", longestSubmit(r)],
    ["Tuning", tuning(r)],
    ["Measured with", `${count(r.runs, "run")}, prompts of ${count(r.promptTokens, "token")}, ${count(r.maxTokens, "token")} decoded`],
    ["Left out", r.skippedContexts?.length ? `${r.skippedContexts.join(", ")}: beyond the context of ${r.contextLength}` : undefined],
  ];
  return rows.filter((row): row is [string, string] => row[1] !== undefined);
}

/** The name of a report's file. */
export function fileName(r: BenchReport): string {
  const plain = `${r.model} ${r.adapter}`.toLowerCase().replaceAll(/[^a-z0-9.]+/g, "-");
  return `rivulet-${plain.replaceAll(/^-+|-+$/g, "").slice(0, 80)}.json`;
}
