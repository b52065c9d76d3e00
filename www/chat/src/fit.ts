// Which part of a long conversation the model still sees.

/** Of the context, kept free for the answer at the most; settings may ask for less. */
const ANSWER_SHARE = 0.25;
/** Once turns are left out, as many as bring the rest down to this share: dropping one at a time would move the
 * beginning, and with it everything the KV cache holds, with every message. */
const REST_SHARE = 0.6;

/**
 * The first turn to send. `count(first)` gives the tokens of the conversation from that turn on; `from` is where it began
 * the last time, `last` the turn to be answered, which is always sent: if it alone is too long, the engine says so.
 */
export async function firstThatFits(count: (first: number) => Promise<number>, from: number, last: number, context: number, maxTokens: number): Promise<number> {
  const room = context - Math.min(maxTokens, Math.floor(context * ANSWER_SHARE));
  let first = Math.min(from, last);
  if ((await count(first)) <= room) return first;
  while (first < last) {
    first += 1;
    if ((await count(first)) <= room * REST_SHARE) break;
  }
  return first;
}
