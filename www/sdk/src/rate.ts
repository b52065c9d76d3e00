/** Bytes per second over the last few seconds: long enough to be calm, short enough to show a stall. */
const WINDOW_MS = 3000;

export class Rate {
  readonly #clock: () => number;
  readonly #samples: { at: number; loaded: number }[];

  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
    this.#samples = [{ at: clock(), loaded: 0 }];
  }

  /** Tells the count so far, in bytes; returns the rate. */
  at(loaded: number): number {
    const now = this.#clock();
    const samples = this.#samples;
    const last = samples[samples.length - 1];
    // A count that goes back is a new phase.
    if (last && loaded < last.loaded) samples.splice(0, samples.length, { at: now, loaded });
    else samples.push({ at: now, loaded });
    while (samples.length > 2 && samples[1] && now - samples[1].at > WINDOW_MS) samples.shift();
    const first = samples[0];
    if (!first || now <= first.at) return 0;
    return ((loaded - first.loaded) * 1000) / (now - first.at);
  }
}
