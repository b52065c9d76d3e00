import { describe, expect, it } from "vitest";

import { asRequest, MAX_CONTEXT_CHARS } from "../src/protocol";
import { Seam } from "../src/seam";
import { parseShortcut, pressed } from "../src/shortcut";
import { codeOf, wordsFor } from "../src/words";

describe("parseShortcut", () => {
  const key = { ctrl: false, alt: false, shift: false, meta: false };
  it.each([
    ["Ctrl+Shift+Space", { ...key, ctrl: true, shift: true, code: "Space" }],
    ["⌃⇧Space", { ...key, ctrl: true, shift: true, code: "Space" }],
    ["⌘⇧Y", { ...key, meta: true, shift: true, code: "KeyY" }],
    ["Alt+Shift+C", { ...key, alt: true, shift: true, code: "KeyC" }],
    ["Ctrl+1", { ...key, ctrl: true, code: "Digit1" }],
    ["Alt+Up", { ...key, alt: true, code: "ArrowUp" }],
    ["", null],
    ["Hyper+A", null],
  ])("%j", (text, shortcut) => {
    expect(parseShortcut(text)).toEqual(shortcut);
  });
  it("wants the very modifiers", () => {
    const shortcut = parseShortcut("Ctrl+Shift+Space");
    const event = (altKey: boolean): KeyboardEvent => ({ code: "Space", ctrlKey: true, shiftKey: true, altKey, metaKey: false }) as KeyboardEvent;
    expect(shortcut && pressed(event(false), shortcut)).toBe(true);
    expect(shortcut && pressed(event(true), shortcut)).toBe(false);
  });
});

describe("Seam", () => {
  const join = (before: string, pieces: string[]): [string, string] => {
    let out = "";
    const seam = new Seam(before, (text) => (out += text));
    for (const piece of pieces) seam.push(piece);
    return [seam.prompt, out];
  };
  it.each([
    ["France is", [" Par", "is"], ["France is", " Paris"]],
    ["France is ", [" Par", "is"], ["France is", "Paris"]],
    ["France is ", ["", " Paris"], ["France is", "Paris"]],
    ["a line\n", ["Next"], ["a line\n", "Next"]],
    ["is", [" Paris.", "\n", "\n"], ["is", " Paris."]],
    ["is", [" a", " ", "b"], ["is", " a b"]],
  ])("%j + %j", (before, pieces, expected) => {
    expect(join(before, pieces)).toEqual(expected);
  });
});

describe("protocol", () => {
  it("cuts what is too long and refuses what is not a request", () => {
    expect(asRequest({ before: "a".repeat(5000), singleLine: true })?.before.length).toBe(MAX_CONTEXT_CHARS);
    for (const wrong of [null, 1, {}, { before: 1, singleLine: true }, { before: "a" }]) expect(asRequest(wrong)).toBeNull();
  });
});

describe("words", () => {
  it("has words of its own for every code of the package but the two that nobody sees", async () => {
    const { ERROR_CODES } = await import("../../sdk/src/errors");
    for (const code of ERROR_CODES.filter((c) => !["aborted", "disposed", "bad-option", "bad-template", "internal"].includes(c))) {
      expect(codeOf({ code })).toBe(code);
      expect(wordsFor(code)).not.toBe(wordsFor("internal"));
    }
  });
});
