// The types of what wasm-bindgen generates into ../wasm from src/web, written by hand, since the generated ones say `any` for
// every object. `npm run wasm-types` copies them there, so that the package type-checks before the WebAssembly is built.

/** Random access to a model file, as the engine sees it. `read` resolves to exactly `length` bytes or rejects. */
export interface ByteSource {
  readonly size: number;
  read(offset: number, length: number): Promise<Uint8Array>;
}

/** The files of a model by name: `entry` is the one to begin with ("" for a folder); `open` gives undefined for one that is not there. */
export interface ModelFiles {
  readonly entry: string;
  open(name: string): Promise<ByteSource | undefined>;
}

/** What compiles pipelines beside other work; see `src/pipelines.ts`. */
export interface PipelineCompiler {
  begin(): boolean;
  end(): void;
  ended(known: number): Promise<number>;
}

/** A flag that ends a running call at once. */
export class AbortFlag {
  constructor();
  abort(): void;
  free(): void;
}

export class Model {
  static load(
    files: ModelFiles,
    options: object,
    onProgress: (progress: { phase: string; loaded: number; total: number }) => void,
    abort: AbortFlag,
    compiler: PipelineCompiler,
  ): Promise<Model>;
  info(): unknown;
  generate(
    prompt: string | Uint32Array | object[],
    options: object,
    onToken: (token: { id: number; text: string; logprob: number; index: number }) => void,
    abort: AbortFlag,
  ): Promise<unknown>;
  embed(text: string, options: object, abort: AbortFlag): Promise<Float32Array>;
  loadAdapter(files: ModelFiles, abort: AbortFlag): Promise<number>;
  tokenize(text: string, options?: object): Uint32Array;
  detokenize(ids: Uint32Array, options?: object): string;
  applyChatTemplate(messages: object[], options?: object): string;
  dispose(): void;
  free(): void;
}

/** Reads the header only. */
export function inspect(files: ModelFiles, quantize?: string): Promise<unknown>;

/** Loads a model from files or by a synthetic name, measures it and frees it. */
export function benchmark(
  files: ModelFiles | undefined,
  synthetic: string | undefined,
  load: object,
  bench: object,
  onProgress: (progress: { phase: string; loaded: number; total: number }) => void,
  abort: AbortFlag,
  compiler: PipelineCompiler,
): Promise<unknown>;

/** Called with the message of a panic: the module must not be called any more. */
export function onPanic(callback: (message: string) => void): void;

export default function init(input?: { module_or_path: string | URL | Promise<Response> }): Promise<unknown>;
