// Following the newest words: only while the reader is at the bottom. Scrolling up lets go, scrolling back takes hold.

const NEAR_PX = 48;

export class Follow {
  // Not before there is a conversation: the welcome is read from its top.
  private pinned = false;
  private active = false;

  /** `scroller` scrolls; `latest` is the button that brings the reader back down. */
  constructor(
    private readonly scroller: HTMLElement,
    private readonly latest: HTMLElement,
  ) {
    scroller.addEventListener("scroll", () => this.look(), { passive: true });
    // A taller message box, a keyboard on the screen or a turned phone must not hide the last words.
    new ResizeObserver(() => this.keep()).observe(scroller);
    latest.addEventListener("click", () => {
      this.toBottom();
      scroller.focus({ preventScroll: true });
    });
  }

  /** After content grew. */
  keep(): void {
    if (this.pinned) this.scroller.scrollTop = this.scroller.scrollHeight;
    else this.look();
  }

  toBottom(): void {
    this.pinned = true;
    this.active = true;
    this.latest.hidden = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  /** The conversation is empty again. */
  toTop(): void {
    this.pinned = false;
    this.active = false;
    this.latest.hidden = true;
    this.scroller.scrollTop = 0;
  }

  private look(): void {
    if (!this.active) return;
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    const below = scrollHeight - scrollTop - clientHeight;
    this.pinned = below < NEAR_PX;
    this.latest.hidden = below < NEAR_PX * 3;
  }
}
