import { expect, test } from "vitest";
import { watchDevices, withSubgroups } from "../src/device.js";
import { RivuletError, fromWire, toRivuletError, toWire } from "../src/errors.js";
import { Rate } from "../src/rate.js";
import { hubAddress } from "../src/source.js";
import { checkSupport, estimateMemory } from "../src/support.js";
import type { ModelInfo } from "../src/types.js";

test("addresses of the hub", () => {
  expect(hubAddress("hf://org/repo/model.gguf")).toBe("https://huggingface.co/org/repo/resolve/main/model.gguf");
  expect(hubAddress("hf://org/repo@v1.0/a b/c.gguf")).toBe("https://huggingface.co/org/repo/resolve/v1.0/a%20b/c.gguf");
  for (const folder of ["hf://org/repo", "hf://org/repo/"]) expect(hubAddress(folder)).toBe("https://huggingface.co/org/repo/resolve/main/");
  for (const bad of ["hf://org", "hf:///a/b"]) expect(() => hubAddress(bad)).toThrow(RivuletError);
});

test("errors keep their code across the border", () => {
  const thrown = Object.assign(new Error("tensor x: expected 3, found 4"), { code: "bad-file" });
  const error = fromWire(toWire(thrown));
  expect(error).toBeInstanceOf(RivuletError);
  expect(error).toMatchObject({ code: "bad-file", message: "tensor x: expected 3, found 4", name: "RivuletError" });
  expect(toRivuletError(new TypeError("x"))).toMatchObject({ code: "internal", message: "TypeError: x" });
  expect(toRivuletError(new DOMException("gone", "AbortError")).code).toBe("aborted");
  expect(toRivuletError(new DOMException("full", "QuotaExceededError")).code).toBe("quota");
  expect(toRivuletError("text")).toMatchObject({ code: "internal", message: "text" });
  expect(toRivuletError(Object.assign(new Error("x"), { code: "ENOENT" })).code).toBe("internal");
});

test("the rate is that of the last seconds", () => {
  let now = 0;
  const rate = new Rate(() => now);
  now = 1000;
  expect(rate.at(100)).toBe(100);
  now = 2000;
  expect(rate.at(300)).toBe(150);
  now = 100_000;
  expect(rate.at(300)).toBeLessThan(10);
  expect(rate.at(0)).toBe(0);
});

test("subgroups are asked for where the adapter has them", () => {
  const features = new Set(["subgroups", "shader-f16"]) as unknown as GPUSupportedFeatures;
  expect(withSubgroups(features, { requiredFeatures: ["shader-f16"], label: "x" })).toEqual({
    requiredFeatures: ["shader-f16", "subgroups"],
    label: "x",
  });
  expect(withSubgroups(features)).toEqual({ requiredFeatures: ["subgroups"] });
  const descriptor = { requiredFeatures: ["shader-f16" as const] };
  expect(withSubgroups(new Set() as unknown as GPUSupportedFeatures, descriptor)).toBe(descriptor);
});

test("support is checked without a browser, and says why not", async () => {
  const info = { weightBytes: 1e8, contextLength: 2048, kvBytesPerToken: 1000, unsupported: [{ code: "x", message: "no such family" }] } as ModelInfo;
  expect(estimateMemory(info, { contextLength: 100, kvType: "f32" }) - estimateMemory(info, { contextLength: 100 })).toBe(50_000);
  const support = await checkSupport(info, { contextLength: 4096 });
  expect(support.ok).toBe(false);
  expect(support.adapter).toBeNull();
  expect(support.reasons).toHaveLength(3);
  expect((await checkSupport()).memoryBytes).toBe(0);
  await expect(checkSupport(info, { kv: 1 } as object)).rejects.toMatchObject({ code: "bad-option" });
});

test("a device is watched only while somebody asks for it", async () => {
  const listeners = new Map<string, (event: unknown) => void>();
  let lose: (info: unknown) => void = () => undefined;
  const asked: unknown[] = [];
  class FakeAdapter {
    features = new Set(["subgroups"]);
    info = { description: "", vendor: "acme", architecture: "rocket", isFallbackAdapter: true };
    requestDevice(descriptor: unknown): Promise<unknown> {
      asked.push(descriptor);
      const lost = new Promise((resolve) => (lose = resolve));
      return Promise.resolve({ lost, addEventListener: (type: string, listener: (event: unknown) => void) => listeners.set(type, listener) });
    }
  }
  const original = Object.getOwnPropertyDescriptor(FakeAdapter.prototype, "requestDevice")?.value as unknown;
  Object.assign(globalThis, { GPUAdapter: FakeAdapter });
  const heard: unknown[] = [];
  const stop = watchDevices({
    onDevice: (_device, name) => heard.push(name),
    onLost: (reason, message) => heard.push([reason, message]),
    onError: (kind, message) => heard.push([kind, message]),
  });
  await new FakeAdapter().requestDevice({ label: "x" });
  expect(asked).toEqual([{ label: "x", requiredFeatures: ["subgroups"] }]);
  class GPUOutOfMemoryError {
    message = "full";
  }
  listeners.get("uncapturederror")?.({ error: new GPUOutOfMemoryError() });
  lose({ reason: "unknown", message: "gone" });
  await new Promise((resolve) => setTimeout(resolve, 0));
  expect(heard).toEqual(["acme rocket (software)", ["out-of-memory", "full"], ["unknown", "gone"]]);
  stop();
  expect(Object.getOwnPropertyDescriptor(FakeAdapter.prototype, "requestDevice")?.value).toBe(original);
  Reflect.deleteProperty(globalThis, "GPUAdapter");
});
