/**
 * What tuning found on this device is kept for the next visit, by the adapter's name and the model's shape. The Cache API holds it:
 * pages and workers of every browser have it, it needs no schema, and it goes with the site's other data. Where it is
 * forbidden (private windows, sandboxed frames), each load tunes anew.
 */

/** Tunings by their key, as they were stored: the engine judges them. */
export type StoredTunings = Record<string, unknown>;

const STORE = "rivulet-tuning";

/** Never fetched: the name of an entry. */
const entryOf = (adapter: string): string => `https://rivulet.invalid/${encodeURIComponent(adapter)}`;

/** A cache that does not answer must not hold up a load. */
const PATIENCE_MS = 500;

export async function recallTunings(adapter: string): Promise<StoredTunings> {
  const late = new Promise<undefined>((resolve) => setTimeout(resolve, PATIENCE_MS));
  const recall = async (): Promise<unknown> => (await (await caches.open(STORE)).match(entryOf(adapter)))?.json();
  try {
    const stored = await Promise.race([recall(), late]);
    return typeof stored === "object" && stored !== null ? (stored as StoredTunings) : {};
  } catch {
    return {};
  }
}

export async function rememberTuning(adapter: string, key: string, choices: unknown): Promise<void> {
  try {
    const tunings = { ...(await recallTunings(adapter)), [key]: choices };
    await (await caches.open(STORE)).put(entryOf(adapter), new Response(JSON.stringify(tunings)));
  } catch {
    // The next load measures again.
  }
}
