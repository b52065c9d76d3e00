/**
 * wgpu does not know WebGPU's subgroups: it never asks for the feature, so a device that it requests lacks it even
 * where the adapter has it. While a model loads, `GPUAdapter.prototype.requestDevice` is wrapped so that it adds
 * "subgroups" to what is asked for; the engine hears by an option whether the device has them. The wrapper also hands
 * over the device itself, so that its loss and its errors reach the calls that are waiting: wgpu keeps it private.
 *
 * The wrapper is there only while an engine asks for its device, so that other WebGPU code of a page is left alone.
 */

/** Hears of a device when it is handed out, and of what happens to it afterwards. */
export interface DeviceWatcher {
  /** The device, and the adapter's name, as far as the browser tells. */
  onDevice(device: GPUDevice, name: string): void;
  /** The device is gone. `destroyed` where somebody destroyed it on purpose. */
  onLost(reason: "destroyed" | "unknown", message: string): void;
  /** A validation, out-of-memory or internal error that no error scope caught. */
  onError(kind: "validation" | "out-of-memory" | "internal", message: string): void;
}

function kindOf(error: GPUError): "validation" | "out-of-memory" | "internal" {
  // Firefox may lack GPUInternalError; constructors' names are the same everywhere.
  if (error.constructor.name === "GPUOutOfMemoryError") return "out-of-memory";
  return error.constructor.name === "GPUInternalError" ? "internal" : "validation";
}

/** Chromium hides the description, Firefox everything; what there is makes a name. */
function nameOf({ description, vendor, architecture, isFallbackAdapter }: GPUAdapterInfo): string {
  const name = description || [vendor, architecture].filter(Boolean).join(" ") || "unnamed adapter";
  return isFallbackAdapter ? `${name} (software)` : name;
}

/** Adds "subgroups" to a descriptor where the adapter has it. */
export function withSubgroups(features: GPUSupportedFeatures, descriptor: GPUDeviceDescriptor = {}): GPUDeviceDescriptor {
  if (!features.has("subgroups")) return descriptor;
  return { ...descriptor, requiredFeatures: [...new Set([...(descriptor.requiredFeatures ?? []), "subgroups" as const])] };
}

/** Wraps requestDevice for the devices that are asked for until the returned function is called. */
export function watchDevices(watcher: DeviceWatcher): () => void {
  const prototype = (globalThis as { GPUAdapter?: typeof GPUAdapter }).GPUAdapter?.prototype;
  if (!prototype) return () => undefined;
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called with its adapter below, and put back later
  const original = prototype.requestDevice;
  const wrapped = async function (this: GPUAdapter, descriptor?: GPUDeviceDescriptor): Promise<GPUDevice> {
    const device = await original.call(this, withSubgroups(this.features, descriptor));
    unwrap(); // the next one to ask is somebody else
    watcher.onDevice(device, nameOf(this.info));
    device.addEventListener("uncapturederror", ({ error }) => watcher.onError(kindOf(error), error.message));
    void device.lost.then(({ reason, message }) => watcher.onLost(reason, message));
    return device;
  };
  const unwrap = (): void => {
    // Somebody may have wrapped it once more meanwhile; then theirs stays.
    if (prototype.requestDevice === wrapped) prototype.requestDevice = original;
  };
  prototype.requestDevice = wrapped;
  return unwrap;
}

/** What the adapter that the engine will get is called, and whether it has subgroups. */
export async function adapterFacts(): Promise<{ name: string; subgroups: boolean }> {
  const gpu = (globalThis.navigator as Navigator | undefined)?.gpu;
  const adapter = await gpu?.requestAdapter({ powerPreference: "high-performance" });
  return { name: adapter ? nameOf(adapter.info) : "", subgroups: adapter?.features.has("subgroups") ?? false };
}
