/**
 * wgpu knows no asynchronous pipelines: it asks the device for one and has it at once, and the browser compiles it when it is
 * first used, all in a row. So between `begin` and `end` a device that is attached here starts
 * `createComputePipelineAsync` and gives wgpu a placeholder, which is never used; asked for the same label once more, it
 * gives what was compiled meanwhile. The engine asks twice: before it fetches the weights, and after.
 *
 * What could not be compiled is asked of the device itself the second time, so that wgpu hears why.
 */
export class PipelineCompiler {
  #device: GPUDevice | undefined;
  #collecting = false;
  #ended = 0;
  #lost = false;
  /** By label, which is unique to a variant of a kernel. */
  readonly #compiled = new Map<string, GPUComputePipeline>();
  #waiting: (() => void)[] = [];

  /** Takes a device's pipelines over. */
  attach(device: GPUDevice): void {
    this.#device = device;
    const create = device.createComputePipeline.bind(device);
    device.createComputePipeline = (descriptor) => {
      const label = descriptor.label ?? "";
      if (this.#collecting) {
        void this.#compile(device, descriptor, label);
        return {} as GPUComputePipeline;
      }
      const compiled = this.#compiled.get(label);
      this.#compiled.delete(label);
      return compiled ?? create(descriptor);
    };
    void device.lost.then(() => {
      this.#lost = true;
      this.#wake();
    });
  }

  async #compile(device: GPUDevice, descriptor: GPUComputePipelineDescriptor, label: string): Promise<void> {
    try {
      this.#compiled.set(label, await device.createComputePipelineAsync(descriptor));
    } catch {
      // The second time says it.
    }
    this.#ended++;
    this.#wake();
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) wake();
  }

  /** From now on pipelines are compiled beside other work. False where the device cannot do that. */
  begin(): boolean {
    const device = this.#device as Partial<GPUDevice> | undefined;
    this.#collecting = !this.#lost && typeof device?.createComputePipelineAsync === "function";
    this.#ended = 0;
    return this.#collecting;
  }

  /** No more placeholders. */
  end(): void {
    this.#collecting = false;
  }

  /** How many compilations have ended since `begin`, once that is more than `known`; a large number on a lost device. */
  async ended(known: number): Promise<number> {
    while (!this.#lost && this.#ended <= known) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return this.#lost ? Number.MAX_SAFE_INTEGER : this.#ended;
  }
}
