/**
 * Some browsers (Firefox) look only every 100 ms, and at each submit, whether a buffer is mapped. There a device that is
 * nudged by empty submits while a mapping is pending answers after 4 ms instead (measured: 51 to 175 ms without).
 *
 * wgpu maps buffers through the objects that the device makes, so the device's createBuffer is wrapped.
 */

/** `GPUBufferUsage.MAP_READ` */
const MAP_READ = 1;

/** An answer that comes later than this on an idle device was polled for. */
const POLLED_MS = 25;

/** Between two nudges at least; and a share of the time that has passed, so that a long wait is not full of them. */
const NUDGE_MS = 4;
const NUDGE_SHARE = 1 / 16;

/** Whether this browser polls. The first answer comes at some moment between two polls, the second a whole period later. */
async function polls({ queue }: GPUDevice): Promise<boolean> {
  await queue.onSubmittedWorkDone();
  const began = performance.now();
  await queue.onSubmittedWorkDone();
  return performance.now() - began > POLLED_MS;
}

/** Has a device's mappings end soon after they can. What it does is found out while the model's header is fetched. */
export function nudgeMappings(device: GPUDevice): void {
  let polled = false;
  let lost = false;
  void device.lost.then(() => (lost = true));
  polls(device).then(
    (found) => (polled = found),
    () => undefined,
  );
  const nudgeUntil = async (mapped: Promise<unknown>): Promise<void> => {
    let pending = true;
    const began = performance.now();
    const nudge = (): void => {
      if (!pending || lost) return;
      device.queue.submit([]);
      setTimeout(nudge, Math.max(NUDGE_MS, (performance.now() - began) * NUDGE_SHARE));
    };
    setTimeout(nudge, NUDGE_MS);
    try {
      await mapped;
    } catch {
      // Whoever asked for the mapping hears of it.
    }
    pending = false;
  };
  const create = device.createBuffer.bind(device);
  device.createBuffer = (descriptor) => {
    const buffer = create(descriptor);
    if (descriptor.usage & MAP_READ) {
      const map = buffer.mapAsync.bind(buffer);
      buffer.mapAsync = (...range) => {
        const mapped = map(...range);
        if (polled) void nudgeUntil(mapped);
        return mapped;
      };
    }
    return buffer;
  };
}
