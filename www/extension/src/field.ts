// The text field that has the caret: whether it may be completed, what stands before the caret, how words get in.

import { MAX_CONTEXT_CHARS } from "./protocol";

/** A field that can be completed: a text box, or the outermost element of an editable region. */
export type Field = HTMLTextAreaElement | HTMLInputElement | HTMLElement;

/** Kinds of input whose text is prose; addresses, numbers and dates are not. */
const PROSE_INPUTS = new Set(["text", "search", ""]);
/** Autocomplete tokens of secrets: cards, one-time codes, passwords, birthdays. */
const SECRET_AUTOCOMPLETE = /(^|\s)(cc-[a-z-]+|one-time-code|current-password|new-password|bday(-[a-z]+)?|webauthn)(\s|$)/i;
/** Names that sites give to fields of secrets when they say nothing by autocomplete. */
const SECRET_NAME = /(^|[^a-z])(pass(word|wd|phrase|code)?|pwd|cvv2?|cvc2?|csc|card-?_?num(ber)?|cc-?_?num(ber)?|otp|totp|mfa|2fa|pin|ssn|iban|secret|api-?_?key|token)([^a-z]|$)/i;

/** Inputs that were of type password at some time: a "show password" button makes them look like text. */
const onceSecret = new WeakSet<Element>();

/** Remembers password fields as they come by. Call for each field that gets the focus. */
export function rememberSecret(element: Element | null): void {
  if (element instanceof HTMLInputElement && element.type === "password") onceSecret.add(element);
}

/** The focused element, also inside shadow trees, closed ones included where the browser lets extensions look. */
export function focusedElement(): HTMLElement | null {
  let element = document.activeElement;
  for (;;) {
    const root: ShadowRoot | null = element instanceof HTMLElement ? shadowOf(element) : null;
    const inner = root?.activeElement;
    if (!inner) break;
    element = inner;
  }
  return element instanceof HTMLElement ? element : null;
}

function shadowOf(element: HTMLElement): ShadowRoot | null {
  try {
    return chrome.dom.openOrClosedShadowRoot(element);
  } catch {
    return element.shadowRoot;
  }
}

/** The field behind the focused element, or a reason why there is none: "none" (no text field) or "secret". */
export function completable(element: HTMLElement | null): Field | "none" | "secret" {
  if (!element) return "none";
  rememberSecret(element);
  if (onceSecret.has(element)) return "secret";
  if (element instanceof HTMLInputElement) {
    if (!PROSE_INPUTS.has(element.type) || element.readOnly || element.disabled) return "none";
    if (SECRET_NAME.test(spaced(element.name)) || SECRET_NAME.test(spaced(element.id))) return "secret";
  } else if (element instanceof HTMLTextAreaElement) {
    if (element.readOnly || element.disabled) return "none";
  } else if (element.isContentEditable) {
    element = editingHost(element);
  } else return "none";
  if (SECRET_AUTOCOMPLETE.test(element.getAttribute("autocomplete") ?? "")) return "secret";
  // Text drawn as dots is a secret, whatever the field calls itself.
  const security = getComputedStyle(element).getPropertyValue("-webkit-text-security");
  if (security && security !== "none") return "secret";
  return element;
}

/** "cardNumber" → "card-Number": so that names in camel case fall apart into words. */
function spaced(name: string): string {
  return name.replace(/([a-z0-9])([A-Z])/g, "$1-$2");
}

function editingHost(element: HTMLElement): HTMLElement {
  let host = element;
  while (host.parentElement?.isContentEditable) host = host.parentElement;
  return host;
}

export function isTextBox(field: Field): field is HTMLTextAreaElement | HTMLInputElement {
  return field instanceof HTMLTextAreaElement || field instanceof HTMLInputElement;
}

/** Where the caret is, and the text around it. Null when something is selected or the caret is elsewhere. */
export interface Caret {
  /** The text before the caret: its last {@link MAX_CONTEXT_CHARS} characters. */
  before: string;
  /** Whether the caret stands at the end of its line. */
  atLineEnd: boolean;
  /** Changes when the caret or the text does. */
  mark: string;
}

export function caretOf(field: Field): Caret | null {
  if (isTextBox(field)) {
    const { selectionStart, selectionEnd, value } = field;
    if (selectionStart === null || selectionStart !== selectionEnd) return null;
    const after = value.slice(selectionStart, selectionStart + 1);
    return {
      before: value.slice(Math.max(0, selectionStart - MAX_CONTEXT_CHARS), selectionStart),
      atLineEnd: after === "" || after === "\n",
      mark: `${selectionStart} ${value.length}`,
    };
  }
  const range = caretRange(field);
  if (!range) return null;
  const before = textBefore(field, range);
  return { before: before.slice(-MAX_CONTEXT_CHARS), atLineEnd: restOfLine(field, range).trim() === "", mark: `${before.length} ${field.textContent.length}` };
}

/** The collapsed selection inside an editable region, shadow trees included. */
export function caretRange(field: HTMLElement): Range | null {
  const root = field.getRootNode() as Document | (ShadowRoot & { getSelection?: () => Selection | null });
  const selection = root.getSelection?.() ?? document.getSelection();
  if (!selection || selection.rangeCount === 0) return null;
  const range = selection.getRangeAt(0);
  return range.collapsed && field.contains(range.startContainer) ? range : null;
}

function textBefore(field: HTMLElement, caret: Range): string {
  const range = document.createRange();
  range.setStart(field, 0);
  range.setEnd(caret.startContainer, caret.startOffset);
  return textOf(range.cloneContents());
}

/** What follows the caret on its line: to the end of its block, or to the first break in it. */
function restOfLine(field: HTMLElement, caret: Range): string {
  let block: Node = caret.startContainer;
  while (block !== field && block.parentNode && !BLOCKS.has(block.nodeName)) block = block.parentNode;
  const rest = caret.cloneRange();
  rest.setEnd(block, block.childNodes.length);
  // The character in front makes a block that comes first begin a new line too.
  const [line = ""] = textOf(rest.cloneContents(), "|").slice(1).split("\n", 1);
  return line;
}

const BLOCKS = new Set(["ADDRESS", "ARTICLE", "ASIDE", "BLOCKQUOTE", "DD", "DIV", "DL", "DT", "FIGURE", "H1", "H2", "H3", "H4", "H5", "H6", "LI", "OL", "P", "PRE", "SECTION", "TABLE", "TR", "UL"]);

/** The text of a fragment with a line break for each `<br>` and between blocks. Fragments have no layout, hence no innerText. */
function textOf(node: Node, start = ""): string {
  let text = start;
  const walk = (parent: Node): void => {
    for (const child of parent.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) text += (child.nodeValue ?? "").replace(/[\u200b\ufeff]/g, "");
      else if (child.nodeName === "BR") text += "\n";
      else {
        if (BLOCKS.has(child.nodeName) && text !== "" && !text.endsWith("\n")) text += "\n";
        walk(child);
      }
    }
  };
  walk(node);
  return text.replace(/\u00a0/g, " ");
}

/** Puts text in at the caret as typing does: the page hears of it, and its undo takes it back. */
export function insertText(field: Field, text: string): boolean {
  // Deprecated, and still the only call that keeps the undo history, in text boxes and editors alike.
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  if (document.execCommand("insertText", false, text)) return true;
  if (!isTextBox(field)) return false;
  const { selectionStart, selectionEnd } = field;
  field.setRangeText(text, selectionStart ?? field.value.length, selectionEnd ?? field.value.length, "end");
  field.dispatchEvent(new InputEvent("input", { bubbles: true, composed: true, inputType: "insertText", data: text }));
  return true;
}
