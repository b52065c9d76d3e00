/// <reference lib="esnext.disposable" preserve="true" />
import type { RivuletError } from "./errors.js";

/** How the KV cache is stored. `f16` (the default) halves the memory of `f32`. */
export type KvType = "f32" | "f16";

/**
 * Whether activations may be rounded. `exact` (the default): no. `fast`: to eight bits in groups of 32, so that the device multiplies
 * packed bytes wherever the weights are integers and scales (all formats but F32, F16 and BF16). Answers change: measure before you
 * choose it. `bad-option` where the browser lacks WGSL's `packed_4x8_integer_dot_product`.
 */
export type Precision = "exact" | "fast";

/** What weights in safetensors become while they load. */
export type Quantize = "q8_0" | "q4_0" | "none";

/**
 * Where a model comes from: an `http(s)` address, `hf://org/repo/file.gguf` (a revision may follow the repository:
 * `hf://org/repo@revision/file.gguf`), a File or Blob, the pieces of one file in order, a stream, or bytes in memory.
 *
 * A split GGUF model (`NAME-00001-of-00003.gguf`): the address of any of its files, an array of all addresses, or all Files or Blobs.
 *
 * A directory of safetensors as Hugging Face publishes them (`config.json`, `tokenizer.json`, `.safetensors` files): its address with
 * `/` at the end, that of its `config.json`, `hf://org/repo`, an array of the addresses of its files, or its Files, as
 * `<input webkitdirectory>` gives them.
 */
export type ModelSource =
  | string
  | URL
  | readonly (string | URL)[]
  | Blob
  | readonly Blob[]
  | ReadableStream<Uint8Array>
  | ArrayBuffer
  | Uint8Array;

/** One message of a conversation. Other properties (`name`, `tool_calls`, …) reach the chat template unchanged. */
export interface Message {
  role: string;
  content: string;
  [property: string]: unknown;
}

/** A LoRA adapter in GGUF, and how strongly it counts. */
export interface AdapterUse {
  /** Where its file comes from. Fetched once: the same address, or the same object, is the same adapter. */
  source: ModelSource;
  /** What its changes are multiplied with; 1 by default. */
  scale?: number;
}

/** How far loading is. */
export interface Progress {
  /** What is being done now: `header`, `tokenizer`, `weights` or `kernels`. */
  phase: string;
  /** Units done: bytes, or for `kernels` compiled pipelines. */
  loaded: number;
  /** Units in all; 0 while it is not known. */
  total: number;
  /** The rate over the last seconds, of bytes; 0 in phases that do not move bytes. */
  bytesPerSecond: number;
}

/** Options of everything that reads a model file. */
export interface SourceOptions {
  /** Aborts: the call rejects with code `aborted`. */
  signal?: AbortSignal;
  /** Request headers for a URL source, such as `Authorization`. */
  headers?: Record<string, string>;
  /** Whether cookies go with the requests of a URL source. `same-origin` by default. */
  credentials?: RequestCredentials;
  /** Run in a module worker (the default), or in place: `false` is for service workers and tests. */
  worker?: boolean;
  /** The address of this package's `worker.js`, where a bundler does not find it by itself. */
  workerUrl?: string | URL;
  /** The address of this package's `rivulet_bg.wasm`, where a bundler does not find it by itself. */
  wasmUrl?: string | URL;
}

/** Options of {@link inspectModel}. */
export interface InspectOptions extends SourceOptions {
  /** What weights in safetensors would become while they load; `q8_0` by default. */
  quantize?: Quantize;
}

/** Options of {@link loadModel}. */
export interface LoadOptions extends SourceOptions {
  /**
   * Tokens that prompt and answer may have together. By default the model's own length, within 4,096. Models with longrope (Phi 3)
   * choose their rope factors by it: beyond the length of their first training short texts are seen through the long factors, too.
   */
  contextLength?: number;
  /** How the KV cache is stored; `f16` by default. */
  kvType?: KvType;
  /** Whether activations may be rounded to eight bits; `exact` by default. */
  precision?: Precision;
  /**
   * What weights in safetensors become while they load: eight bits (`q8_0`, the default) or four (`q4_0`) with a scale for each 32, or
   * what they are in the files (`none`). With `q4_0` the embedding and the head have eight. Weights in GGUF have their format: there it is `bad-option`.
   */
  quantize?: Quantize;
  /** Forces a device tier (`base`, `f16`, `subgroup`, `cpu`, …), for tests and measurements. */
  tier?: string;
  /**
   * Whether kernels may be tuned on the visitor's device, for a second or two of the first load; what is found is kept for
   * later loads that may tune. By default on GPUs; false takes the defaults of devices like this one.
   */
  autotune?: boolean;
  /** A chat template (Jinja) in place of the file's, or where the file has none. A broken one fails the load with `bad-template`. */
  template?: string;
  /** Adapters that answers are given with, unless {@link GenerateOptions.adapters} says otherwise. They are fetched while loading. */
  adapters?: readonly AdapterUse[];
  /** Called as loading advances. */
  onProgress?: (progress: Progress) => void;
}

/** Options of {@link Model.generate}. Sampling starts from the model's raw logits; nothing is applied unasked. */
export interface GenerateOptions {
  /** The most tokens to sample; by default as many as the context holds. */
  maxTokens?: number;
  /** 0 takes the most probable token; 1 leaves the distribution as it is. */
  temperature?: number;
  /** Keeps the k most probable tokens. 0 keeps all. */
  topK?: number;
  /** Keeps the smallest set of tokens whose probability reaches p. 1 keeps all. */
  topP?: number;
  /** Keeps tokens at least p times as probable as the most probable one. 0 keeps all. */
  minP?: number;
  /** Keeps the tokens whose surprise is nearest the expected one, until their probability reaches p. 1 keeps all. */
  typicalP?: number;
  /** Divides the logits of tokens that occurred (and multiplies negative ones); 1 is off. */
  repetitionPenalty?: number;
  /** Subtracted from a token's logit for each time it occurred; 0 is off. */
  frequencyPenalty?: number;
  /** Subtracted from the logit of every token that occurred; 0 is off. */
  presencePenalty?: number;
  /** How many of the last tokens, of prompt and answer, the penalties see; all by default. */
  penaltyWindow?: number;
  /** The order in which the options above are applied, by their names; penalties, topK, typicalP, topP, minP, temperature by default. */
  order?: readonly string[];
  /** Added to the logits of token ids before anything else: `{ 42: -100 }`. */
  logitBias?: Record<number, number> | Map<number, number>;
  /** The seed of the random numbers: the same seed gives the same text. Random by default. */
  seed?: number;
  /** The answer ends before any of these strings. */
  stop?: string | readonly string[];
  /** Goes on past end-of-generation tokens. */
  ignoreEos?: boolean;
  /** Recognises special tokens such as `<|im_end|>` in a raw prompt; false by default. */
  parseSpecial?: boolean;
  /** Descriptions of tools for the chat template. */
  tools?: readonly object[];
  /** More variables for the chat template, such as `enable_thinking`. */
  templateVars?: Record<string, unknown>;
  /**
   * The adapters of this answer, instead of those that the model was loaded with: `[]` for none. One that is new is fetched first.
   * Another choice than the last answer's empties the KV cache.
   */
  adapters?: readonly AdapterUse[];
  /** Aborts: `run.done` resolves with what there is, finishReason `aborted`. */
  signal?: AbortSignal;
  /** Called once per sampled token, in order. What it throws ends the run and rejects `run.done`. */
  onToken?: (token: Token) => void;
}

/** One sampled token. */
export interface Token {
  /** The token's id in the vocabulary. */
  id: number;
  /** The text that this token completes: whole characters only, so it may be empty. */
  text: string;
  /** The natural logarithm of its probability under the model's own distribution. */
  logprob: number;
  /** Its place in the answer, from 0. */
  index: number;
}

/** Why an answer ended. */
export type FinishReason = "stop" | "length" | "stop-string" | "aborted";

/** A finished answer. */
export interface Generated {
  /** The whole text: what the pieces' texts add up to. */
  text: string;
  /** The ids of the answer's tokens, without an end-of-generation token. */
  tokens: number[];
  finishReason: FinishReason;
  usage: Usage;
  timings: Timings;
}

/** Tokens counted. */
export interface Usage {
  promptTokens: number;
  completionTokens: number;
  /** Tokens of the prompt that were still in the KV cache and were not computed again. */
  cachedTokens: number;
}

/** Times of one answer. */
export interface Timings {
  /**
   * Milliseconds that the engine took to load the model, for reports; `info.loadMs` counts the worker's start too. Absent where
   * the run was aborted before its turn.
   */
  loadMs?: number;
  /** Milliseconds from the start of the run (its turn in the queue), tokenising included, to its first token; 0 where there was none. */
  ttftMs: number;
  /** Prompt tokens per second. */
  prefillTps: number;
  /** Sampled tokens per second after the first. */
  decodeTps: number;
  /** Submits that the prompt was computed in; the page can paint between two of them. */
  prefillSubmits: number;
  /**
   * Milliseconds of the longest of them, of those whose size was chosen by measured times; absent where there was none, or an abort
   * came before the first token. On a CPU adapter a submit is at least one dispatch, so there may be several for a token.
   */
  longestSubmitMs?: number;
}

/** What a header says about a model. */
export interface ModelInfo {
  /** GGUF's `general.architecture`, such as `llama`. */
  architecture: string;
  /** GGUF's `general.name`, where there is one. */
  name?: string;
  /** The weight format that holds most of the weights, such as `Q4_K`. */
  quantization: string;
  /** Bytes of tensor data in each weight format. */
  formats: Record<string, number>;
  /** Number of weights. */
  parameters: number;
  /** Bytes of the file. */
  fileBytes: number;
  /** Bytes of tensor data. */
  weightBytes: number;
  /** The context that the model was trained for, in tokens. */
  contextLength: number;
  layers: number;
  embeddingLength: number;
  vocabularySize: number;
  /** Bytes that one token's keys and values take over all layers, stored as f32. */
  kvBytesPerToken: number;
  /** The chat template, where the file has one; of a model loaded with the option `template`, that one. */
  chatTemplate?: string;
  /** Why the file's chat template cannot be used: texts can be continued, and messages need the option `template`. */
  templateError?: string;
  /** GGUF's `tokenizer.ggml.model`, such as `gpt2`. */
  tokenizer: string;
  /** Why this model cannot be run by this version; empty where it can. */
  unsupported: { code: string; message: string }[];
}

/** What is known of a loaded model. */
export interface LoadedModelInfo extends ModelInfo {
  /** The device that the model is on. */
  device: {
    /** The adapter's name, as far as the browser tells. */
    adapter: string;
    /** Which variant of the kernels was chosen, such as `base`, `f16+subgroup` or `cpu+subgroup`. */
    tier: string;
    /** Bytes of the GPU buffers. */
    memoryBytes: number;
  };
  /** The context of this model as it was loaded, in tokens. */
  loadedContextLength: number;
  /** How the KV cache is stored. */
  kvType: KvType;
  /** Milliseconds that loading took, with starting the engine. */
  loadMs: number;
  /** What it took them for. */
  loadPhases: LoadPhases;
  /** How its kernels are tuned to the device. */
  tuning: Tuning;
}

/** How a model's kernels share their work out. It changes their speed and no result. */
export interface Tuning {
  /** Stands for the device's tier and the model's shape. */
  key: string;
  /** `measured` in this load, `stored` by an earlier one, or the `default` of devices like this one. */
  source: "default" | "stored" | "measured";
  /** Rows that are worked on at once and invocations of a workgroup, for each kind of matrix. */
  choices: Record<"qkv" | "out" | "gate_up" | "down" | "head", { rows: number; invocations: number }>;
  /** Choices that were measured, and how many there were: fewer where the time ran out. */
  measured: number;
  candidates: number;
}

/** Milliseconds of each part of a load, in order. */
export interface LoadPhases {
  /** Reading and parsing the header. */
  headerMs: number;
  /** The tokenizer and the chat template. */
  tokenizerMs: number;
  /** Allocating GPU buffers. */
  buffersMs: number;
  /** Fetching, repacking and uploading the weights. Kernels are compiled meanwhile. */
  weightsMs: number;
  /** Compiling kernels, as far as it went on when the weights were there. */
  kernelsMs: number;
  /** Tuning them. */
  tuningMs: number;
  /** All of it, from the header on. */
  totalMs: number;
}

/** What {@link checkSupport} found, before any weights are downloaded. */
export interface Support {
  /** Whether nothing known speaks against loading. */
  ok: boolean;
  /** What speaks against it, for people. */
  reasons: string[];
  /** GPU memory that the model will take: weights, KV cache and scratch. An estimate. 0 without a header. */
  memoryBytes: number;
  /** The adapter, or null where there is no WebGPU. */
  adapter: AdapterSummary | null;
}

/** A WebGPU adapter, as far as the browser tells. */
export interface AdapterSummary {
  vendor: string;
  architecture: string;
  description: string;
  /** A software adapter: correct but slow. */
  fallback: boolean;
  f16: boolean;
  subgroups: boolean;
  maxBufferSize: number;
  maxStorageBufferBindingSize: number;
}

/** Options of {@link Model.embed}. */
export interface EmbedOptions {
  /** Which tokens' vectors count: the mean of all, the first one's (`cls`) or the last one's. By default what the file says. */
  pooling?: "mean" | "cls" | "last";
  /** Scales each vector to length 1, so that a dot product is the cosine; true by default. */
  normalize?: boolean;
  /** Only the first so many numbers, for models that were trained for that (Matryoshka); all by default. */
  dimensions?: number;
  /** Aborts: the call rejects with code `aborted`. */
  signal?: AbortSignal;
}

/** Options of {@link Model.tokenize}. */
export interface TokenizeOptions {
  /** Puts the beginning-of-sequence token first; by default what the file says. */
  addBos?: boolean;
  /** Recognises special tokens such as `<|im_end|>` in the text; false by default. */
  parseSpecial?: boolean;
}

/** Options of {@link Model.detokenize}. */
export interface DetokenizeOptions {
  /** Leaves special tokens out; true by default. */
  skipSpecial?: boolean;
}

/** Options of {@link Model.applyChatTemplate}. */
export interface TemplateOptions {
  /** Descriptions of tools, as the template expects them. */
  tools?: readonly object[];
  /** More variables of the template, such as `enable_thinking`. */
  vars?: Record<string, unknown>;
  /** Ends with the header of the assistant's turn; true by default. */
  addGenerationPrompt?: boolean;
}

/** An answer under way. Iterate it, or await `done`, or both. */
export interface Run extends AsyncIterable<Token> {
  /** The finished answer. Resolves on abort too; rejects with a {@link RivuletError} on failure. */
  readonly done: Promise<Generated>;
  /** Ends the run as an abort does. */
  cancel(): void;
}

/** A prompt: raw text, token ids, or messages for the model's chat template. */
export type Prompt = string | Uint32Array | readonly number[] | readonly Message[];

/** A loaded model. Generations run one after another, in the order of their calls. */
export interface Model extends AsyncDisposable {
  readonly info: LoadedModelInfo;
  /** Rejections of later calls say it too; this tells a page at once. Resolves with the error when the device is lost. */
  readonly lost: Promise<RivuletError>;
  generate(prompt: Prompt, options?: GenerateOptions): Run;
  /**
   * The vector of a text, or one for each of several: what the model makes of its tokens, pooled. For embeddings models; others have
   * to be told a pooling. Prefixes that a model was trained with ("query: ", "search_document: ") are the caller's to write. It takes
   * its turn with generations.
   */
  embed(text: string, options?: EmbedOptions): Promise<Float32Array>;
  embed(texts: readonly string[], options?: EmbedOptions): Promise<Float32Array[]>;
  embed(text: string | readonly string[], options?: EmbedOptions): Promise<Float32Array | Float32Array[]>;
  tokenize(text: string, options?: TokenizeOptions): Promise<Uint32Array>;
  detokenize(ids: Uint32Array | readonly number[], options?: DetokenizeOptions): Promise<string>;
  countTokens(textOrMessages: string | readonly Message[], options?: TokenizeOptions): Promise<number>;
  applyChatTemplate(messages: readonly Message[], options?: TemplateOptions): Promise<string>;
  /** Frees everything. Calls that are under way end with `disposed`. Idempotent. */
  dispose(): Promise<void>;
}
