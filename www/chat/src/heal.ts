// The unfinished end of markdown that is still being written. Pure text in, text out.

/**
 * The text with its unfinished tail made presentable while more is on its way: an open code span or emphasis is closed,
 * and a line that so far reads "---" or "===" is held back, because it would turn the paragraph above into a heading
 * for the blink of an eye (it usually becomes a list item or a table rule).
 */
export function healTail(text: string): string {
  if (insideFence(text)) return text;
  const lastBreak = text.lastIndexOf("\n");
  const lastLine = text.slice(lastBreak + 1);
  if (lastBreak >= 0 && /^\s*(-+|=+|\*+|\+|\d+[.)]?|#+|\|[\s|:-]*)?\s*$/.test(lastLine)) return text.slice(0, lastBreak + 1);
  const paragraph = text.slice(text.lastIndexOf("\n\n") + 1);
  const ticks = paragraph.match(/`+/g)?.length ?? 0;
  if (ticks % 2 === 1) return paragraph.endsWith("`") ? text.replace(/`+$/, "") : `${text}\``;
  const bold = paragraph.match(/\*\*/g)?.length ?? 0;
  if (bold % 2 === 1) return paragraph.endsWith("**") ? text.slice(0, -2) : `${text.replace(/\*$/, "").trimEnd()}**`;
  return text;
}

function insideFence(text: string): boolean {
  return ((text.match(/^ {0,3}(```|~~~)/gm)?.length ?? 0) & 1) === 1;
}
