// Markdown that arrives a few characters at a time.
//
// The text is split into top-level blocks (paragraph, list, table, code, …). A block whose source did not change keeps
// its DOM nodes, so that only the last block is ever redrawn: no flicker, selections in earlier blocks survive, and the
// cost of a token does not grow with the number of blocks already on the page.
//
// Safety, in layers: raw HTML in the answer is shown as the characters it is; images become links, since fetching one
// would tell a stranger's server that the answer was read; what is left goes through DOMPurify with a short list of
// allowed tags; and the page's CSP refuses inline script and foreign images in any case.

import DOMPurify from "dompurify";
import { Marked, type Token, type TokensList } from "marked";

import { el } from "./dom";
import { healTail } from "./heal";

const ESCAPES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (c) => ESCAPES[c] ?? c);

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escapeHtml(text),
    image: ({ href, text }) => `<a href="${escapeHtml(href)}">${escapeHtml(text || href)}</a>`,
  },
});

const ALLOWED_TAGS = [
  "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "input", "li", "ol", "p", "pre",
  "strong", "table", "tbody", "td", "th", "thead", "tr", "ul", "#text",
];
const ALLOWED_ATTR = ["href", "title", "start", "align", "class", "type", "checked", "disabled"];

const purify = DOMPurify(window);
purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
  // The only inputs that markdown makes are the boxes of a task list.
  if (node.tagName === "INPUT" && node.getAttribute("type") !== "checkbox") node.remove();
  if (node.hasAttribute("class") && !/^language-[\w+#.-]+$/.test(node.getAttribute("class") ?? "")) node.removeAttribute("class");
});

interface Block {
  raw: string;
  nodes: Node[];
}

/** Renders growing markdown into `root`, which it owns. */
export class MarkdownView {
  /** The blocks on the page, in order; together with the white space between them their sources are the text so far. */
  private blocks: Block[] = [];
  /** The text before the last block, and the number of blocks in it: settled while the text grows. */
  private settled = { text: "", blocks: 0 };

  constructor(private readonly root: HTMLElement) {}

  /**
   * Shows `text`; `streaming` says that more will follow: the tail is healed, and only the last block is parsed again,
   * so that a token costs the same late in a long answer. (A definition of a link that comes later than its use, say,
   * takes effect when the whole text is parsed at the end.)
   */
  update(text: string, streaming: boolean): void {
    const source = (streaming ? healTail(text) : text).replaceAll("\r\n", "\n");
    const resumed = streaming && source.startsWith(this.settled.text);
    const from = resumed ? this.settled.text.length : 0;
    const kept = resumed ? this.settled.blocks : 0;
    const tokens = marked.lexer(source.slice(from));
    const shown = tokens.filter((token) => token.type !== "space" && token.type !== "def");
    const changed = shown.findIndex((token, i) => token.raw !== this.blocks[kept + i]?.raw);
    // Definitions of links change blocks whose own source stays the same.
    const defined = !streaming && tokens.some((token) => token.type === "def");
    const same = defined ? 0 : changed < 0 ? shown.length : changed;
    for (const block of this.blocks.splice(kept + same)) for (const node of block.nodes) node.parentNode?.removeChild(node);
    for (const token of shown.slice(same)) {
      const nodes = this.render(token, tokens);
      this.root.append(...nodes);
      this.blocks.push({ raw: token.raw, nodes });
    }
    const last = startOfLast(tokens, source.length - from);
    this.settled = { text: source.slice(0, from + last), blocks: last > 0 ? this.blocks.length - 1 : kept };
  }

  private render(token: Token, all: TokensList): Node[] {
    const list: TokensList = Object.assign([token], { links: all.links });
    const html = marked.parser(list);
    const fragment = purify.sanitize(html, { ALLOWED_TAGS, ALLOWED_ATTR, RETURN_DOM_FRAGMENT: true, ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i });
    for (const table of fragment.querySelectorAll("table")) wrapTable(table);
    for (const pre of fragment.querySelectorAll("pre")) wrapCode(pre);
    return [...fragment.childNodes];
  }
}

/** Where the last block begins; 0 where the sources do not add up to the text, so that nothing more counts as settled. */
function startOfLast(tokens: Token[], length: number): number {
  let at = 0;
  let last = 0;
  for (const { type, raw } of tokens) {
    if (type !== "space" && type !== "def") last = at;
    at += raw.length;
  }
  return at === length ? last : 0;
}

/** Wide tables scroll by themselves, so that the page never scrolls sideways on a phone. */
function wrapTable(table: HTMLTableElement): void {
  const box = el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Table" });
  table.replaceWith(box);
  box.append(table);
}

function wrapCode(pre: HTMLPreElement): void {
  const code = pre.querySelector("code");
  const language = /language-(\S+)/.exec(code?.className ?? "")?.[1] ?? "";
  const copy = el("button", { type: "button", class: "quiet small", "data-copy": "code" }, "Copy code");
  const box = el("figure", { class: "code" }, el("figcaption", {}, el("span", {}, language || "text"), copy));
  pre.replaceWith(box);
  pre.tabIndex = 0;
  box.append(pre);
}
