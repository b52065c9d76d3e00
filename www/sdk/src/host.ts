/**
 * The host of the engine: it owns the WebAssembly, at most one model, and the source of its bytes. It is the same in a
 * worker and in place; it hears {@link Request}s and answers with {@link Reply}s, and knows nothing of who is talking.
 */
import init, * as engine from "../wasm/rivulet.js";
import type { ModelFiles } from "../wasm/rivulet.js";
import type { BenchReport } from "./bench.js";
import { adapterFacts, watchDevices } from "./device.js";
import { RivuletError, toRivuletError, toWire } from "./errors.js";
import { openFiles } from "./files.js";
import { nudgeMappings } from "./nudge.js";
import { PipelineCompiler } from "./pipelines.js";
import type { Calls, Reply, Request, Result, SourceDescription } from "./protocol.js";
import { Rate } from "./rate.js";
import { type StoredTunings, recallTunings, rememberTuning } from "./tunings.js";
import type { Generated, LoadedModelInfo, ModelInfo, Progress, Token } from "./types.js";

type RequestOf<T extends Request["type"]> = Extract<Request, { type: T }>;

interface DeviceRequest {
  id: number;
  source: SourceDescription | undefined;
  wasmUrl: string | undefined;
  /** What is aborted, for people. */
  what: string;
}

interface DeviceTools {
  files: ModelFiles | undefined;
  subgroups: boolean;
  /** What earlier loads found on this adapter. */
  tunings: StoredTunings;
  onProgress: (progress: Omit<Progress, "bytesPerSecond">) => void;
  flag: engine.AbortFlag;
  compiler: PipelineCompiler;
  /** The adapter's name, once there is a device; empty where the browser hides it. */
  adapter: () => string;
}

/** How long an error that nobody expects waits for the news that the device was lost. */
const LOSS_IS_TOLD_MS = 100;

/** Everything of an inspection is in the first bytes: little is read beyond them. */
const INSPECT_READ_AHEAD = 1024 * 1024;

/** One WebAssembly instance in each worker or page: it is fetched and compiled once. */
let ready: Promise<unknown> | undefined;
/** Hosts that want to hear of a panic: those of this instance. */
const hosts = new Set<(error: RivuletError) => void>();
/** The panic that broke this instance. */
let broken: RivuletError | undefined;

async function startEngine(wasmUrl: string | undefined): Promise<void> {
  if (broken) throw broken;
  ready ??= (async () => {
    // Written out for bundlers, which find the file by this very expression.
    const address = wasmUrl ?? new URL("../wasm/rivulet_bg.wasm", import.meta.url);
    try {
      await init({ module_or_path: address });
    } catch (error) {
      ready = undefined;
      const { message } = toRivuletError(error);
      throw new RivuletError("internal", `starting the engine from ${String(address)}: ${message}; serve that file, or give wasmUrl`);
    }
    engine.onPanic((message) => {
      broken = new RivuletError("internal", `the engine broke: ${message}; please report this`);
      for (const tell of hosts) tell(broken);
    });
  })();
  return ready as Promise<void>;
}

/** Loads in place take turns, so that each one's device is known to be its own. */
let loading: Promise<unknown> = Promise.resolve();

export class Host {
  readonly #reply: (reply: Reply) => void;
  #model: engine.Model | undefined;
  /** What stops a call that is under way, by its id. */
  readonly #stops = new Map<number, () => void>();
  /** The call that the model is busy with; a model does one thing at a time. */
  #busy: Promise<unknown> = Promise.resolve();
  #dead: RivuletError | undefined;
  #disposed = false;
  readonly #die = (error: RivuletError): void => {
    if (this.#dead || this.#disposed) return;
    this.#dead = error;
    for (const stop of this.#stops.values()) stop();
    this.#reply({ type: "dead", error: toWire(error) });
  };

  constructor(reply: (reply: Reply) => void) {
    this.#reply = reply;
    hosts.add(this.#die);
  }

  /** Never throws and never rejects: every failure is a reply. */
  async handle(request: Request): Promise<void> {
    if (request.type === "abort") {
      this.#stops.get(request.id)?.();
      return;
    }
    const { id } = request;
    try {
      this.#reply({ type: "result", id, value: await this.#answer(request) });
    } catch (error) {
      // Who uses a device sees that it is gone before anybody is told so.
      if (!this.#dead && toRivuletError(error).code === "internal") await new Promise((resolve) => setTimeout(resolve, LOSS_IS_TOLD_MS));
      this.#reply({ type: "failure", id, error: toWire(this.#dead ?? error) });
    } finally {
      this.#stops.delete(id);
    }
  }

  #answer(request: Exclude<Request, { type: "abort" }>): Promise<Result> | Result {
    if (this.#dead && request.type !== "dispose") throw this.#dead;
    switch (request.type) {
      case "inspect":
        return this.#inspect(request);
      case "load":
        return this.#load(request);
      case "bench":
        return this.#bench(request);
      case "generate":
        return this.#generate(request);
      case "embed":
        return this.#embed(request);
      case "adapter":
        return this.#adapter(request);
      case "call":
        // The tokenizer and the template are free even while the model answers.
        return this.#call(request);
      case "dispose":
        return this.#dispose();
    }
  }

  /** Runs `work` once nothing else uses the model. The page's queue sees to that already; the engine refuses what gets past. */
  #alone<T>(work: () => Promise<T> | T): Promise<T> {
    const result = this.#busy.then(() => {
      if (this.#dead) throw this.#dead;
      return work();
    });
    this.#busy = result.catch(() => undefined);
    return result;
  }

  /** A flag for the engine and a signal for the source, which an abort message sets. */
  #stoppable(id: number): { flag: engine.AbortFlag; signal: AbortSignal } {
    const flag = new engine.AbortFlag();
    const controller = new AbortController();
    this.#stops.set(id, () => {
      flag.abort();
      controller.abort();
    });
    return { flag, signal: controller.signal };
  }

  /** Starts the engine, and gives what {@link #stoppable} does. An abort meanwhile ends the request as soon as the engine is there. */
  async #started(id: number, wasmUrl: string | undefined): Promise<{ flag: engine.AbortFlag; signal: AbortSignal }> {
    const early = new AbortController();
    this.#stops.set(id, () => early.abort());
    await startEngine(wasmUrl);
    if (early.signal.aborted) throw new RivuletError("aborted", "the caller aborted while the engine started");
    return this.#stoppable(id);
  }

  async #inspect({ id, source, quantize, wasmUrl }: RequestOf<"inspect">): Promise<ModelInfo> {
    const { flag, signal } = await this.#started(id, wasmUrl);
    const controller = new AbortController();
    const both = AbortSignal.any([signal, controller.signal]);
    try {
      return (await engine.inspect(openFiles(source, { signal: both, readAhead: INSPECT_READ_AHEAD }), quantize)) as ModelInfo;
    } finally {
      // Ends the response that is still under way behind the header.
      controller.abort();
      flag.free();
    }
  }

  async #load({ id, source, options, wasmUrl }: RequestOf<"load">): Promise<LoadedModelInfo> {
    if (this.#model) throw new RivuletError("internal", "load: this host holds a model already");
    const began = performance.now();
    return this.#onDevice({ id, source, wasmUrl, what: "loading" }, async (tools) => {
      const { files, subgroups, tunings, onProgress, flag, compiler, adapter } = tools;
      const model = await engine.Model.load(files as ModelFiles, { ...options, subgroups, tunings }, onProgress, flag, compiler);
      if (this.#dead ?? this.#disposed) {
        model.dispose();
        throw this.#dead ?? new RivuletError("disposed", "load: the model was disposed of while it loaded");
      }
      this.#model = model;
      const info = model.info() as LoadedModelInfo;
      // wgpu passes on the description only, which browsers hide.
      const device = { ...info.device, adapter: adapter() || info.device.adapter };
      if (info.tuning.source === "measured") await rememberTuning(adapter(), info.tuning.key, info.tuning.choices);
      return { ...info, device, loadMs: performance.now() - began };
    });
  }

  #bench({ id, source, synthetic, load, bench, wasmUrl }: RequestOf<"bench">): Promise<BenchReport> {
    return this.#onDevice({ id, source, wasmUrl, what: "measuring" }, async (tools) => {
      const { files, subgroups, tunings, onProgress, flag, compiler, adapter } = tools;
      const options = { ...load, subgroups, tunings };
      const report = (await engine.benchmark(files, synthetic, options, bench, onProgress, flag, compiler)) as BenchReport;
      const { tuning } = report;
      if (tuning?.source === "measured") await rememberTuning(adapter(), tuning.key, tuning.choices);
      return { ...report, adapter: adapter() || report.adapter };
    });
  }

  /** Runs `work` with what takes a device: the files of a source, where there is one, and a watch on the device that it asks for. */
  async #onDevice<T>(request: DeviceRequest, work: (tools: DeviceTools) => Promise<T>): Promise<T> {
    const { id, source, wasmUrl, what } = request;
    const { flag, signal } = await this.#started(id, wasmUrl);
    const rate = new Rate();
    let phase = "";
    const tell = (progress: Omit<Progress, "bytesPerSecond">, moves: boolean): void => {
      // A new phase starts a new count.
      if (progress.phase !== phase) rate.at(0);
      phase = progress.phase;
      const bytesPerSecond = moves ? rate.at(progress.loaded) : 0;
      this.#reply({ type: "progress", id, progress: { ...progress, bytesPerSecond } });
    };
    const finish = new AbortController();
    const turn = loading;
    let release: () => void = () => undefined;
    loading = new Promise<void>((resolve) => (release = resolve));
    let unwatch: () => void = () => undefined;
    try {
      await turn;
      const files =
        source &&
        openFiles(source, {
          signal: AbortSignal.any([signal, finish.signal]),
          onDownload: (loaded, total) => tell({ phase: "download", loaded, total }, true),
        });
      let name = "";
      const compiler = new PipelineCompiler();
      unwatch = watchDevices({
        onDevice: (device, adapter) => {
          name = adapter;
          compiler.attach(device);
          nudgeMappings(device);
        },
        onLost: (reason, message) => {
          if (this.#disposed || (reason === "destroyed" && !this.#model)) return;
          this.#die(new RivuletError("device-lost", `the GPU device was lost (${message || reason}); load the model again`));
        },
        onError: (kind, message) => {
          // Results after such an error cannot be trusted: stop instead of streaming nonsense.
          const code = kind === "out-of-memory" ? "out-of-memory" : "internal";
          this.#die(new RivuletError(code, `the GPU reported an uncaught ${kind} error: ${message}`));
        },
      });
      const facts = await adapterFacts();
      const tunings = await recallTunings(facts.name);
      const onProgress: DeviceTools["onProgress"] = (progress) =>
        tell(progress, progress.phase === "weights" || progress.phase === "header");
      return await work({ files, subgroups: facts.subgroups, tunings, onProgress, flag, compiler, adapter: () => name });
    } catch (error) {
      if (signal.aborted && !this.#dead) throw new RivuletError("aborted", `${what} was aborted by the caller`);
      throw error;
    } finally {
      unwatch();
      release();
      finish.abort();
      flag.free();
    }
  }

  async #generate({ id, prompt, options }: RequestOf<"generate">): Promise<Generated> {
    const model = this.#loaded();
    // Before its turn: in place an abort may come in the very tick of the call.
    const { flag } = this.#stoppable(id);
    const tell = (token: Token): void => this.#reply({ type: "token", id, token });
    try {
      return await this.#alone(async () => (await model.generate(prompt, options, tell, flag)) as Generated);
    } finally {
      this.#stops.delete(id);
      flag.free();
    }
  }

  async #embed({ id, texts, options }: RequestOf<"embed">): Promise<Float32Array[]> {
    const model = this.#loaded();
    const { flag } = this.#stoppable(id);
    try {
      return await this.#alone(async () => {
        const vectors: Float32Array[] = [];
        for (const text of texts) vectors.push(await model.embed(text, options, flag));
        return vectors;
      });
    } finally {
      this.#stops.delete(id);
      flag.free();
    }
  }

  async #adapter({ id, source }: RequestOf<"adapter">): Promise<number> {
    const model = this.#loaded();
    const { flag, signal } = this.#stoppable(id);
    try {
      return await this.#alone(() => model.loadAdapter(openFiles(source, { signal }), flag));
    } catch (error) {
      if (signal.aborted && !this.#dead) throw new RivuletError("aborted", "loading an adapter was aborted by the caller");
      throw error;
    } finally {
      this.#stops.delete(id);
      flag.free();
    }
  }

  #call({ method, args }: RequestOf<"call">): Result {
    const model = this.#loaded();
    switch (method) {
      case "tokenize":
        return model.tokenize(...(args as Calls["tokenize"]["args"]));
      case "detokenize":
        return model.detokenize(...(args as Calls["detokenize"]["args"]));
      case "applyChatTemplate":
        return model.applyChatTemplate(...(args as Calls["applyChatTemplate"]["args"]));
    }
  }

  #loaded(): engine.Model {
    if (!this.#model) throw new RivuletError("disposed", "this model was disposed of");
    return this.#model;
  }

  async #dispose(): Promise<undefined> {
    this.#disposed = true;
    hosts.delete(this.#die);
    for (const stop of this.#stops.values()) stop();
    await this.#busy;
    const model = this.#model;
    this.#model = undefined;
    // An instance that panicked is not entered any more.
    if (model && !broken) {
      model.dispose();
      model.free();
    }
    return undefined;
  }
}
