import { afterEach, expect, test, vi } from "vitest";
import { recallTunings, rememberTuning } from "../src/tunings.js";

/** The Cache API, as far as it is used. */
function fakeCaches(): { stores: Map<string, Map<string, string>> } {
  const stores = new Map<string, Map<string, string>>();
  vi.stubGlobal("caches", {
    open: (name: string) => {
      const entries = stores.get(name) ?? new Map<string, string>();
      stores.set(name, entries);
      return Promise.resolve({
        match: (key: string) => Promise.resolve(entries.has(key) ? new Response(entries.get(key)) : undefined),
        put: async (key: string, value: Response) => void entries.set(key, await value.text()),
      });
    },
  });
  return { stores };
}

afterEach(() => vi.unstubAllGlobals());

test("what was found on an adapter is found again, by the model's shape", async () => {
  fakeCaches();
  await rememberTuning("GPU / 1", "a", { head: 1 });
  await rememberTuning("GPU / 1", "b", { head: 2 });
  await rememberTuning("GPU 2", "a", { head: 3 });
  expect(await recallTunings("GPU / 1")).toEqual({ a: { head: 1 }, b: { head: 2 } });
  expect(await recallTunings("GPU 2")).toEqual({ a: { head: 3 } });
  expect(await recallTunings("GPU 3")).toEqual({});
});

test("where nothing can be stored, or what is stored is damaged, nothing is found and nothing fails", async () => {
  await rememberTuning("GPU", "a", {});
  expect(await recallTunings("GPU")).toEqual({});
  const { stores } = fakeCaches();
  await rememberTuning("GPU", "a", {});
  for (const entries of stores.values()) for (const key of entries.keys()) entries.set(key, "{ half");
  expect(await recallTunings("GPU")).toEqual({});
  await rememberTuning("GPU", "b", { head: 4 });
  expect(await recallTunings("GPU")).toEqual({ b: { head: 4 } });
});
