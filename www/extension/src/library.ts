// The one model file kept in the extension's private storage (OPFS). It is written under a passing name and takes the
// real one only when it is whole: a copy that was cut off never looks like a model.

const FILE = "model.gguf";
const PARTIAL = "model.gguf.partial";

/** The stored file, or null. */
export async function storedModel(): Promise<File | null> {
  try {
    const root = await navigator.storage.getDirectory();
    return await (await root.getFileHandle(FILE)).getFile();
  } catch (error) {
    if (error instanceof DOMException && error.name === "NotFoundError") return null;
    throw error;
  }
}

/** Copies `file` in, replacing what was stored. `onProgress` gets bytes written. Rejects with AbortError on abort. */
export async function storeModel(file: File, signal: AbortSignal, onProgress: (written: number) => void): Promise<void> {
  const root = await navigator.storage.getDirectory();
  const handle = await root.getFileHandle(PARTIAL, { create: true });
  const sink = await handle.createWritable();
  let written = 0;
  const meter = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      written += chunk.byteLength;
      onProgress(written);
      controller.enqueue(chunk);
    },
  });
  try {
    await file.stream().pipeThrough(meter).pipeTo(sink, { signal });
  } catch (error) {
    await root.removeEntry(PARTIAL).catch(() => {});
    throw error;
  }
  await forgetModel();
  await (handle as FileSystemFileHandle & { move(name: string): Promise<void> }).move(FILE);
}

/** Deletes the stored file, if there is one. */
export async function forgetModel(): Promise<void> {
  const root = await navigator.storage.getDirectory();
  await root.removeEntry(FILE).catch(() => {});
}
