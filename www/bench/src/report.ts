// Reports: what they must hold to be drawn, and how their figures read.

import type { BenchReport, MeasuredContext } from "rivulet/bench";

const NUMBERS = ["context", "prefillTps", "ttftMs", "decodeTps", "bytesPerToken", "bandwidthGBps", "share"] as const;

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
    typeof row === "object" && row !== null && NUMBERS.every((name) => Number.isFinite((row as Record<string, unknown>)[name]));
  if (!Array.isArray(report.contexts) || report.contexts.length === 0 || !report.contexts.every(sound)) {
    throw new Error("figures are missing in it");
  }
  for (const name of ["model", "adapter", "tier"] as const) {
    if (typeof report[name] !== "string") throw new Error(`it does not name its ${name}`);
  }
  return report as BenchReport;
}

/** Three significant digits, without an exponent. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

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

/** What else is worth reading, as pairs. Older files and the companion's lack some of it. */
export function facts(r: BenchReport): [string, string][] {
  const rows: [string, string | undefined][] = [
    ["Device", `${r.adapter || "unnamed"} (${r.backend})`],
    ["Kernels", r.tier],
    ["Weights", r.quantization],
    ["Memory reads", `${digits(r.measuredBandwidthGBps)} GB/s`],
    ["Loaded in", milliseconds(r.loadMs)],
    ["Again in", r.warmLoadMs === undefined ? undefined : milliseconds(r.warmLoadMs)],
    ["On the GPU", megabytes(r.peakGpuBytes)],
    ["WebAssembly’s memory", r.peakWasmBytes === undefined ? undefined : megabytes(r.peakWasmBytes)],
    [
      "A token takes",
      `${digits(r.dispatchesPerToken)} dispatches, ${digits(r.submitsPerToken)} submits, ${digits(r.readbacksPerToken)} readbacks, ` +
        `${digits(r.writesPerToken)} writes, ${digits(r.objectsCreatedPerToken)} objects created`,
    ],
    ["Measured with", `${r.runs} runs, prompts of ${r.promptTokens}, ${r.maxTokens} tokens decoded`],
    ["Left out", r.skippedContexts?.length ? `${r.skippedContexts.join(", ")}: beyond the context of ${r.contextLength}` : undefined],
  ];
  return rows.filter((row): row is [string, string] => row[1] !== undefined);
}

/** The name of a report's file. */
export function fileName(r: BenchReport): string {
  const plain = `${r.model} ${r.adapter}`.toLowerCase().replaceAll(/[^a-z0-9.]+/g, "-");
  return `rivulet-${plain.replaceAll(/^-+|-+$/g, "").slice(0, 80)}.json`;
}
