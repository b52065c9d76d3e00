// The grey words at the caret, and the bubble for what does not fit there. All of it lives in one closed shadow tree on
// one element in the top layer: the page's styles do not reach it, its dialogs do not cover it, and it takes no clicks.

import { type Caret, caretRange, type Field, isTextBox } from "./field";

const STYLE = `
:host { all: initial; position: fixed; inset: 0; width: 100vw; height: 100vh; margin: 0; padding: 0; border: 0; background: none; overflow: visible; pointer-events: none; z-index: 2147483647; }
.mirror { position: fixed; left: 0; top: 0; visibility: hidden; overflow: hidden; }
.ghost { position: fixed; overflow: visible; }
.ghost span { -webkit-box-decoration-break: clone; box-decoration-break: clone; }
.bubble { position: fixed; box-sizing: border-box; max-width: min(26rem, calc(100vw - 16px)); padding: 8px 12px; border: 1px solid #7d938e; border-radius: 10px; background: #fff; color: #142a28; font: 14px/1.45 system-ui, sans-serif; box-shadow: 0 4px 18px rgb(0 0 0 / 0.16); white-space: pre-wrap; overflow-wrap: anywhere; }
.bubble .keys { display: block; margin-top: 4px; color: #47605c; font-size: 12px; }
.bubble.error { border-color: #9a2b1c; }
@media (prefers-color-scheme: dark) {
  .bubble { background: #16211f; color: #e3edea; border-color: #6f8883; }
  .bubble .keys { color: #a3b8b2; }
  .bubble.error { border-color: #ffab9a; }
}
.live { position: fixed; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: pre; }
`;

const FONT = ["fontFamily", "fontSize", "fontStyle", "fontWeight", "fontStretch", "fontVariant", "fontFeatureSettings", "letterSpacing", "wordSpacing", "textTransform", "tabSize"] as const;
const BOX = ["paddingTop", "paddingRight", "paddingBottom", "paddingLeft", "textAlign", "wordBreak", "overflowWrap", "lineHeight", "textIndent"] as const;

/** Where the caret is on the screen, and the column that text wraps in. Pixels of the viewport. */
interface Place {
  x: number;
  top: number;
  /** The top of the caret's text itself, inside its line. */
  textTop: number;
  lineHeight: number;
  left: number;
  width: number;
  /** Where grey words may be seen: the field's inside. */
  clip: DOMRect;
}

export class Ghost {
  private readonly host = document.createElement("div");
  private readonly mirror = document.createElement("div");
  private readonly ghost = document.createElement("div");
  private readonly bubble = document.createElement("div");
  private readonly live = document.createElement("div");

  constructor() {
    this.host.setAttribute("popover", "manual");
    this.host.dataset.rivulet = "";
    const shadow = this.host.attachShadow({ mode: "closed" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    shadow.adoptedStyleSheets = [sheet];
    this.mirror.className = "mirror";
    this.ghost.className = "ghost";
    this.bubble.className = "bubble";
    this.live.className = "live";
    this.live.setAttribute("aria-live", "polite");
    this.mirror.setAttribute("aria-hidden", "true");
    this.ghost.setAttribute("aria-hidden", "true");
    shadow.append(this.mirror, this.ghost, this.bubble, this.live);
    this.hide();
  }

  /** Shows the words of a completion at the caret, or in a bubble where they do not fit. */
  words(field: Field, caret: Caret, text: string): void {
    this.show();
    const place = this.place(field, caret);
    if (place && caret.atLineEnd && this.inline(field, place, text)) {
      this.bubble.style.display = "none";
      return;
    }
    this.ghost.style.display = "none";
    this.speech(field, place, text, "Tab accepts · Esc dismisses", false);
  }

  /** Shows a few words about the state of things in a bubble; `error` colours it. */
  note(field: Field, caret: Caret | null, text: string, error = false): void {
    this.show();
    this.ghost.style.display = "none";
    this.speech(field, caret && this.place(field, caret), text, "", error);
  }

  /** Tells a screen reader. */
  say(text: string): void {
    this.live.textContent = text;
  }

  hide(): void {
    if (this.host.isConnected) this.host.remove();
    this.ghost.style.display = "none";
    this.ghost.replaceChildren();
    this.bubble.style.display = "none";
    this.live.textContent = "";
  }

  private show(): void {
    if (this.host.isConnected) return;
    document.documentElement.append(this.host);
    try {
      // The top layer: above the page's own dialogs.
      this.host.showPopover();
    } catch {
      // A document that forbids it still shows a fixed element.
    }
  }

  private inline(field: Field, place: Place, text: string): boolean {
    const style = getComputedStyle(styleSource(field));
    if (style.direction === "rtl" || style.writingMode !== "horizontal-tb") return false;
    const { ghost } = this;
    for (const name of FONT) ghost.style[name] = style[name];
    const oneLine = field instanceof HTMLInputElement;
    Object.assign(ghost.style, {
      display: "block",
      left: `${place.left}px`,
      top: `${place.top}px`,
      width: oneLine ? "max-content" : `${place.width}px`,
      textIndent: `${place.x - place.left}px`,
      lineHeight: `${place.lineHeight}px`,
      whiteSpace: oneLine ? "pre" : "pre-wrap",
      overflowWrap: "break-word",
    });
    const span = document.createElement("span");
    span.textContent = text;
    span.style.color = `color-mix(in srgb, ${style.color} 55%, transparent)`;
    // Lines after the first lie on the field's own text: they bring the background along.
    if (text.includes("\n") || !oneLine) span.style.backgroundColor = backgroundOf(field);
    ghost.replaceChildren(span);
    // Lines are placed by rounded halves: what counts is that the texts stand on one line, to the pixel.
    const first = span.getClientRects()[0];
    if (first) ghost.style.top = `${place.top + place.textTop - first.top}px`;
    const box = span.getBoundingClientRect();
    const slack = 3;
    return box.right <= place.clip.right + slack && box.bottom <= place.clip.bottom + slack && box.top >= place.clip.top - slack;
  }

  private speech(field: Field, place: Place | null, text: string, keys: string, error: boolean): void {
    const { bubble } = this;
    const at = place ?? edgeOf(field);
    bubble.className = error ? "bubble error" : "bubble";
    bubble.style.display = "block";
    bubble.replaceChildren(text.trimStart());
    if (keys) {
      const line = document.createElement("span");
      line.className = "keys";
      line.textContent = keys;
      bubble.append(line);
    }
    bubble.style.left = "0px";
    bubble.style.top = "0px";
    const { width, height } = bubble.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.x, innerWidth - width - 8));
    const below = at.top + at.lineHeight + 6;
    const top = below + height <= innerHeight - 4 ? below : Math.max(4, at.top - height - 6);
    bubble.style.left = `${left}px`;
    bubble.style.top = `${top}px`;
  }

  private place(field: Field, caret: Caret): Place | null {
    return isTextBox(field) ? this.placeInBox(field) : placeInEditor(field, caret);
  }

  /** A text box does not say where its caret is: a hidden copy of its text, laid out alike, does. */
  private placeInBox(field: HTMLTextAreaElement | HTMLInputElement): Place {
    const { mirror } = this;
    const style = getComputedStyle(field);
    const oneLine = field instanceof HTMLInputElement;
    for (const name of [...FONT, ...BOX]) mirror.style[name] = style[name];
    Object.assign(mirror.style, {
      boxSizing: "border-box",
      width: oneLine ? "max-content" : `${field.clientWidth}px`,
      whiteSpace: oneLine ? "pre" : style.whiteSpace === "pre" ? "pre" : "pre-wrap",
      border: "0",
      direction: style.direction,
    });
    const end = document.createElement("span");
    end.textContent = "\u200b";
    mirror.replaceChildren(field.value.slice(0, field.selectionStart ?? field.value.length), end);
    const frame = mirror.getBoundingClientRect();
    const mark = end.getBoundingClientRect();
    const lineHeight = Number.parseFloat(style.lineHeight) || mark.height;
    const box = field.getBoundingClientRect();
    const inner = new DOMRect(box.left + field.clientLeft, box.top + field.clientTop, field.clientWidth, field.clientHeight);
    const middle = oneLine ? inner.top + (inner.height - lineHeight) / 2 : inner.top + (mark.top + mark.height / 2 - frame.top) - lineHeight / 2 - field.scrollTop;
    const padLeft = Number.parseFloat(style.paddingLeft) || 0;
    const padRight = Number.parseFloat(style.paddingRight) || 0;
    return {
      x: inner.left + (mark.left - frame.left) - field.scrollLeft,
      top: middle,
      textTop: oneLine ? inner.top + (inner.height - mark.height) / 2 : inner.top + (mark.top - frame.top) - field.scrollTop,
      lineHeight,
      left: inner.left + padLeft,
      width: inner.width - padLeft - padRight,
      clip: inner,
    };
  }
}

function placeInEditor(field: HTMLElement, caret: Caret): Place | null {
  const range = caretRange(field);
  if (!range) return null;
  const source = styleSource(field);
  const style = getComputedStyle(source);
  const block = blockOf(source, field).getBoundingClientRect();
  const blockStyle = getComputedStyle(blockOf(source, field));
  let rect: DOMRect | undefined = range.getClientRects()[0];
  rect ??= rectBefore(range);
  const padLeft = Number.parseFloat(blockStyle.paddingLeft) || 0;
  const padRight = Number.parseFloat(blockStyle.paddingRight) || 0;
  if (!rect) {
    if (caret.before !== "" && !caret.before.endsWith("\n")) return null;
    rect = new DOMRect(block.left + padLeft, block.top + (Number.parseFloat(blockStyle.paddingTop) || 0), 0, Number.parseFloat(style.fontSize) * 1.2);
  }
  const lineHeight = Number.parseFloat(style.lineHeight) || rect.height;
  const outer = field.getBoundingClientRect();
  // An editor may grow with its text: there is room below it as long as the window has some.
  const bottom = getComputedStyle(field).overflowY === "visible" ? innerHeight : outer.bottom;
  return {
    x: rect.left,
    top: rect.top + (rect.height - lineHeight) / 2,
    textTop: rect.top,
    lineHeight,
    left: block.left + padLeft,
    width: block.width - padLeft - padRight,
    clip: new DOMRect(outer.left, outer.top, outer.width, Math.max(0, bottom - outer.top)),
  };
}

/** A caret at the end of an element often has no box of its own; the character before it has. */
function rectBefore(caret: Range): DOMRect | undefined {
  let node: Node | null = caret.startContainer;
  let offset = caret.startOffset;
  if (node.nodeType !== Node.TEXT_NODE) {
    node = node.childNodes[offset - 1] ?? null;
    while (node?.lastChild) node = node.lastChild;
    if (node?.nodeType !== Node.TEXT_NODE) return undefined;
    offset = node.nodeValue?.length ?? 0;
  }
  if (offset === 0) return undefined;
  const range = document.createRange();
  range.setStart(node, offset - 1);
  range.setEnd(node, offset);
  const boxes = range.getClientRects();
  const last = boxes[boxes.length - 1];
  return last && new DOMRect(last.right, last.top, 0, last.height);
}

/** The element whose font the caret's text has. */
function styleSource(field: Field): HTMLElement {
  if (isTextBox(field)) return field;
  const node = caretRange(field)?.startContainer;
  const element = node instanceof HTMLElement ? node : node?.parentElement;
  return element && field.contains(element) ? element : field;
}

function blockOf(element: HTMLElement, field: HTMLElement): HTMLElement {
  let block = element;
  while (block !== field && block.parentElement && getComputedStyle(block).display.startsWith("inline")) block = block.parentElement;
  return block;
}

/** The first background that is not transparent, from the field outwards. */
function backgroundOf(field: HTMLElement): string {
  for (let element: Element | null = field; element; element = element.parentElement) {
    const color = getComputedStyle(element).backgroundColor;
    if (!/^rgba\(.*, 0\)$|^transparent$/.test(color)) return color;
  }
  return "Canvas";
}

function edgeOf(field: Field): Place {
  const box = field.getBoundingClientRect();
  return { x: box.left, top: box.bottom - 1, textTop: box.bottom - 1, lineHeight: 1, left: box.left, width: box.width, clip: box };
}
