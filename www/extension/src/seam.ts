/**
 * The seam between the text in the field and its continuation. A space before the caret belongs to the next token in
 * every BPE vocabulary, and a prompt that ends with one makes models stumble: it is taken off the prompt, and the space
 * that the model then says first is not written twice. Trailing white space of the completion is held back.
 */
export class Seam {
  readonly prompt: string;
  private readonly hadSpace: boolean;
  private started = false;
  private held = "";

  constructor(
    before: string,
    private readonly out: (text: string) => void,
  ) {
    this.prompt = before.replace(/[ \t\u00a0]+$/, "");
    this.hadSpace = this.prompt.length < before.length;
  }

  push(text: string): void {
    let piece = this.held + text;
    if (!this.started && piece) {
      if (this.hadSpace) piece = piece.replace(/^ /, "");
      this.started = true;
    }
    const kept = piece.trimEnd();
    this.held = piece.slice(kept.length);
    if (kept) this.out(kept);
  }
}
