// Line charts over context lengths, as SVG drawn for the width that there is. Series differ in colour, dashes and marks,
// so that none of them is needed alone; every figure is also in the tables.

import { svg } from "./dom";
import { tokens } from "./report";

export interface Series {
  name: string;
  /** Which colour, dashes and mark it has. */
  style: number;
  points: { context: number; value: number }[];
}

/** Rounded steps from 0 to at least `most`: 1, 2, 2.5 or 5 times a power of ten, about four of them. */
export function ticks(most: number): number[] {
  if (!(most > 0) || !Number.isFinite(most)) return [0, 1];
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999) ?? 10 * power;
  const count = Math.ceil(most / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, i) => Number((i * step).toPrecision(12)));
}

const MARKS: ((x: number, y: number) => string)[] = [
  (x, y) => `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z`,
  (x, y) => `M${x - 4} ${y - 4}h8v8h-8z`,
  (x, y) => `M${x} ${y - 5}l5 9h-10z`,
  (x, y) => `M${x} ${y - 5.5}l5.5 5.5l-5.5 5.5l-5.5 -5.5z`,
];
const DASHES = ["", "7 4", "2 4", "9 3 2 3"];
/** How many colours the style sheet has. */
const COLOURS = 6;

/** A short piece of a series' line, for the legend. */
export function sample(style: number): SVGSVGElement {
  return svg("svg", { viewBox: "0 0 36 16", width: 36, height: 16, "aria-hidden": "true", class: `series s${style % COLOURS}` }, ...strokes(style, [[2, 8], [34, 8]], [[18, 8]]));
}

type Point = [x: number, y: number];

function strokes(style: number, line: Point[], marks: Point[]): SVGElement[] {
  const mark = MARKS[style % MARKS.length] ?? MARKS[0];
  const dash = DASHES[(style + Math.floor(style / COLOURS)) % DASHES.length] ?? "";
  const path = line.map(([x, y], i) => `${i ? "L" : "M"}${x} ${y}`).join("");
  return [
    svg("path", { d: path, class: "line", "stroke-dasharray": dash }),
    ...marks.map(([x, y]) => svg("path", { d: mark?.(x, y) ?? "", class: "mark-point" })),
  ];
}

/** A chart of all series. `format` writes a value and `step` one of the axis; `unit` says what it is, for those who hear it. */
export function chart(series: Series[], width: number, format: (value: number) => string, step: (value: number) => string, unit: string, most?: number): SVGSVGElement {
  const height = Math.max(200, Math.min(300, Math.round(width * 0.55)));
  const left = 52;
  const right = 16;
  const top = 12;
  const bottom = 40;
  const contexts = [...new Set(series.flatMap((s) => s.points.map((p) => p.context)))].sort((a, b) => a - b);
  const steps = ticks(most ?? Math.max(...series.flatMap((s) => s.points.map((p) => p.value)), 0));
  const highest = steps.at(-1) ?? 1;
  const inner = width - left - right;
  const x = (context: number): number =>
    contexts.length === 1 ? left + inner / 2 : left + 12 + ((inner - 24) * contexts.indexOf(context)) / (contexts.length - 1);
  const y = (value: number): number => height - bottom - ((height - top - bottom) * Math.min(value, highest)) / highest;
  const said = series.map((s) => `${s.name}: ${s.points.map((p) => `${format(p.value)} after ${p.context}`).join(", ")}`).join("; ");
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${unit} over the context in tokens. ${said}` },
    ...steps.flatMap((value) => [
      svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: value === 0 ? "axis" : "rule" }),
      svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, step(value)),
    ]),
    ...contexts.map((context) => svg("text", { x: x(context), y: height - bottom + 18, "text-anchor": "middle" }, tokens(context))),
    svg("text", { x: left + inner / 2, y: height - 4, "text-anchor": "middle" }, "tokens of context"),
    ...series.map((s) => {
      const at = [...s.points].sort((a, b) => a.context - b.context).map((p): Point => [x(p.context), y(p.value)]);
      const titles = s.points.map((p) => `${s.name}, after ${p.context}: ${format(p.value)}`);
      return svg("g", { class: `series s${s.style % COLOURS}` }, svg("title", {}, titles.join("\n")), ...strokes(s.style, at, at));
    }),
  );
}
