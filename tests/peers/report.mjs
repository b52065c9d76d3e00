// From visits to figures: medians, ratios to Rivulet, a table in Markdown. Pure: nothing here measures.
//
// A visit is one page of one runtime: loaded once, then one or more runs of the same prompt. A contestant that did not run, or
// not on the GPU that it was asked to run on, gets its reason and no figure.

/** The middle value, or the mean of the two in the middle; null of nothing. */
export function median(numbers) {
  const sorted = numbers.filter((n) => Number.isFinite(n)).toSorted((a, b) => a - b);
  if (sorted.length === 0) return null;
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}

/**
 * One row of the table.
 * @param {{ id: string, runtime: string, how: string, version?: string, visits: Visit[], error?: string, ranOnCpu?: string }} of
 * @typedef {{ loadMs: number, runs: { promptTokens: number, tokens: number, ttftMs: number, prefillTps: number, decodeTps: number | null }[] }} Visit
 */
export function summarise({ id, runtime, how, version, visits, error, ranOnCpu }) {
  const row = { id, runtime, how, version: version ?? null };
  if (ranOnCpu) return { ...row, status: "ran on the CPU", why: ranOnCpu };
  if (error) return { ...row, status: "failed", why: error };
  const runs = visits.flatMap((visit) => visit.runs);
  if (runs.length === 0) return { ...row, status: "not run", why: "no run was asked for" };
  return {
    ...row,
    status: "measured",
    visits: visits.length,
    runs: runs.length,
    promptTokens: runs[0].promptTokens,
    tokens: runs[0].tokens,
    // The first visit compiles shaders; the browser keeps what it compiled for the later ones.
    firstLoadMs: visits[0].loadMs,
    laterLoadMs: median(visits.slice(1).map((visit) => visit.loadMs)),
    ttftMs: median(runs.map((run) => run.ttftMs)),
    prefillTps: median(runs.map((run) => run.prefillTps)),
    decodeTps: median(runs.map((run) => run.decodeTps)),
  };
}

const divided = (a, b) => (a > 0 && b > 0 ? a / b : null);

/** Gives each row how many times as fast as it Rivulet is, in prefill and decode; null where either was not measured. */
export function compare(rows) {
  const ours = rows.find((row) => row.runtime === "rivulet" && row.status === "measured");
  return rows.map((row) => ({
    ...row,
    prefillRatio: divided(ours?.prefillTps, row.prefillTps),
    decodeRatio: divided(ours?.decodeTps, row.decodeTps),
  }));
}

/** Three digits, as a person reads them. */
export function figure(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 100) return value.toFixed(0);
  return value.toFixed(value >= 10 ? 1 : 2);
}

const seconds = (ms) => figure(ms === null ? null : ms / 1000);
const times = (ratio) => (ratio === null ? "–" : `${figure(ratio)}×`);
const cell = (text) => String(text).replaceAll("|", "\\|").replaceAll(/\s+/g, " ").trim();
const name = (row) => cell([row.runtime === "rivulet" ? "Rivulet" : row.runtime, row.version].filter(Boolean).join(" ") + `, ${row.how}`);

/** One place's table. @param {{ title: string, rows: ReturnType<typeof compare> }} section */
export function table({ title, rows }) {
  const lines = [
    `**${cell(title)}**`,
    "",
    "| | load, s (first / later) | first token, s | prefill, tokens/s | decode, tokens/s | Rivulet's prefill is | Rivulet's decode is |",
    "|---|---|---|---|---|---|---|",
  ];
  const notes = [];
  for (const row of rows) {
    if (row.status !== "measured") {
      lines.push(`| ${name(row)} | ${cell(row.status)} | | | | | |`);
      notes.push(`- ${name(row)} ${row.status}: ${cell(row.why)}`);
      continue;
    }
    const load = row.laterLoadMs === null ? seconds(row.firstLoadMs) : `${seconds(row.firstLoadMs)} / ${seconds(row.laterLoadMs)}`;
    const ours = row.runtime === "rivulet";
    lines.push(
      `| ${name(row)} | ${load} | ${seconds(row.ttftMs)} | ${figure(row.prefillTps)} | ${figure(row.decodeTps)} ` +
        `| ${ours ? "" : times(row.prefillRatio)} | ${ours ? "" : times(row.decodeRatio)} |`,
    );
  }
  return [...lines, ...(notes.length > 0 ? ["", ...notes] : [])].join("\n");
}

/** A load of one minute above this, before anything was started, means that somebody else is using the machine. */
const BUSY = 0.7;

/** The whole report in Markdown, to be pasted. @param {object} result as run.mjs writes it */
export function markdown(result) {
  const { machine, model, prompt, rounds, leftOut, sections, absent, commit, date, minutes } = result;
  const parts = [
    `${model.file} (${(model.bytes / 1e6).toFixed(0)} MB), a prompt of ${prompt.tokens ?? "an unknown number of"} tokens, greedy; ` +
      `${rounds === 1 ? "one round" : `${rounds} rounds in turn`}, medians; ${machine.cpu}, ${machine.cores} cores; commit ${commit}, ${date.slice(0, 10)}, ${minutes} minutes.`,
  ];
  if (machine.loadBefore > BUSY) {
    parts.push(`The machine was in use (load ${figure(machine.loadBefore)} before the run): these figures are no good for comparing.`);
  }
  if (leftOut > 0) parts.push(`Time was up: ${leftOut} ${leftOut === 1 ? "visit" : "visits"} of later rounds were left out.`);
  for (const section of sections) parts.push(table(section));
  const counts = new Map();
  for (const row of sections.flatMap((s) => s.rows)) if (row.promptTokens) counts.set(row.promptTokens, [...(counts.get(row.promptTokens) ?? []), row.id]);
  if (counts.size > 1) {
    parts.push(`Not all counted the same tokens in the prompt: ${[...counts].map(([n, ids]) => `${n} (${[...new Set(ids)].join(", ")})`).join("; ")}.`);
  }
  if (absent.length > 0) parts.push(absent.map(({ runtime, why }) => `- ${runtime} was not run: ${why}.`).join("\n"));
  return parts.join("\n\n") + "\n";
}
