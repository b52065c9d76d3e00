// The results: reports as tables and charts, from this page's measurements and from files.

import type { BenchReport } from "rivulet/bench";
import { type Series, chart, sample } from "./chart";
import { byId, el } from "./dom";
import { COLUMNS, digits, facts, fileName, parseReport, percent, plain } from "./report";

interface Entry {
  report: BenchReport;
  name: string;
  /** Kept while others come and go, so that a line keeps its colour. */
  style: number;
}

/** More would not be told apart. */
const MOST = 12;

export class Results {
  #entries: Entry[] = [];

  constructor() {
    byId("clear").addEventListener("click", () => {
      byId("unread").hidden = true;
      this.#entries = [];
      this.#draw();
      byId("results").focus();
    });
    const open = byId("open", HTMLInputElement);
    open.addEventListener("change", () => {
      void this.open([...(open.files ?? [])]).then(() => (open.value = ""));
    });
    new ResizeObserver(() => this.#drawCharts()).observe(byId("results"));
  }

  add(report: BenchReport): void {
    const same = this.#entries.filter((entry) => entry.report.model === report.model && entry.report.adapter === report.adapter).length;
    const name = `${report.model} on ${report.adapter || "an unnamed device"}${same ? `, ${same + 1}` : ""}`;
    const kept = this.#entries.slice(0, MOST - 1);
    let style = 0;
    while (kept.some((entry) => entry.style === style)) style++;
    this.#entries = [{ report, name, style }, ...kept];
    this.#draw();
  }

  async open(files: File[]): Promise<void> {
    if (files.length === 0) return;
    const unread = byId("unread");
    unread.hidden = true;
    const problems: string[] = [];
    for (const file of files) {
      try {
        this.add(parseReport(await file.text()));
      } catch (error) {
        problems.push(`${file.name} cannot be drawn: ${error instanceof Error ? error.message : String(error)}.`);
      }
    }
    unread.replaceChildren(...problems.map((words) => el("p", {}, words)));
    unread.hidden = problems.length === 0;
  }

  #draw(): void {
    const none = this.#entries.length === 0;
    byId("empty").hidden = !none;
    byId("clear").hidden = none;
    byId("charts").hidden = none;
    byId("reports").replaceChildren(...this.#entries.map((entry) => this.#article(entry)));
    byId("legend").replaceChildren(...this.#entries.map(({ name, style }) => el("li", {}, sample(style), el("span", {}, name))));
    this.#drawCharts();
  }

  #drawCharts(): void {
    if (this.#entries.length === 0) return;
    const series = (value: (row: BenchReport["contexts"][number]) => number): Series[] =>
      this.#entries.map(({ name, style, report }) => ({
        name,
        style,
        points: report.contexts.map((row) => ({ context: row.context, value: value(row) })),
      }));
    const draw = (id: string, make: (width: number) => SVGSVGElement): void => {
      const box = byId(id);
      const width = Math.floor(box.clientWidth);
      if (width > 0) box.replaceChildren(make(width));
    };
    draw("rates", (width) => chart(series((row) => row.decodeTps), width, digits, plain, "Decoded tokens a second"));
    const most = Math.max(1, ...this.#entries.flatMap(({ report }) => report.contexts.map((row) => row.share)));
    draw("shares", (width) => chart(series((row) => row.share), width, percent, (share) => `${plain(share * 100)} %`, "Share of what the memory gives", most));
  }

  #article({ report, name }: Entry): HTMLElement {
    const download = el("button", { type: "button", class: "plain" }, "Download JSON");
    download.addEventListener("click", () => save(report));
    const remove = el("button", { type: "button", class: "quiet", "aria-label": `Remove ${name}` }, "Remove");
    remove.addEventListener("click", () => {
      this.#entries = this.#entries.filter((entry) => entry.report !== report);
      this.#draw();
      byId("results").focus();
    });
    const head = el("tr", {}, ...COLUMNS.map(([title]) => el("th", { scope: "col" }, title)));
    const rows = report.contexts.map((row) =>
      el("tr", {}, ...COLUMNS.map(([, cell], i) => (i === 0 ? el("th", { scope: "row" }, cell(row)) : el("td", {}, cell(row))))),
    );
    const table = el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows));
    return el(
      "article",
      { class: "card" },
      el("h3", {}, name),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Figures of ${name}` }, table),
      el("dl", { class: "facts" }, ...facts(report).map(([term, words]) => el("div", {}, el("dt", {}, term), el("dd", {}, ...breakable(words))))),
      el("div", { class: "row" }, download, remove),
    );
  }
}

/** Words that may be broken after each plus, for tiers such as cpu+f16+subgroup, and not between a number and what it counts. */
const breakable = (words: string): (Node | string)[] =>
  words
    .replaceAll(/(\d) (?=[a-z])/gi, "$1\u00a0")
    .split(/(?<=\+)/)
    .flatMap((part, i) => (i ? [el("wbr"), part] : [part]));

function save(report: BenchReport): void {
  const address = URL.createObjectURL(new Blob([`${JSON.stringify(report, null, 2)}\n`], { type: "application/json" }));
  el("a", { href: address, download: fileName(report) }).click();
  // The browser has taken hold of it by then.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
