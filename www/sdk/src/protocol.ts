/**
 * The messages between the page and the host of the engine. The same messages are used whether the host lives in a
 * worker or in place. `id` names a call; a reply carries the id of the call that it answers.
 */
import type { BenchReport } from "./bench.js";
import type { WireError } from "./errors.js";
import type { Generated, LoadedModelInfo, ModelInfo, Progress, Token } from "./types.js";

/** How a server is asked. */
interface Asking {
  headers: Record<string, string>;
  credentials: RequestCredentials;
}

/** Where a model's files are, in a form that structured clone carries. `entry` names the file to begin with; "" is a folder. */
export type SourceDescription =
  | ({ kind: "url"; url: string } & Asking)
  | ({ kind: "urls"; entry: string; urls: [name: string, url: string][] } & Asking)
  | { kind: "blob"; blob: Blob }
  | { kind: "blobs"; entry: string; blobs: [name: string, blob: Blob][] };

/** The methods of a loaded model that answer at once. */
export interface Calls {
  tokenize: { args: [text: string, options: object]; value: Uint32Array };
  detokenize: { args: [ids: Uint32Array, options: object]; value: string };
  applyChatTemplate: { args: [messages: object[], options: object]; value: string };
}

export type Request =
  | { type: "inspect"; id: number; source: SourceDescription; quantize?: string; wasmUrl?: string }
  | { type: "load"; id: number; source: SourceDescription; options: object; wasmUrl?: string }
  | { type: "bench"; id: number; source?: SourceDescription; synthetic?: string; load: object; bench: object; wasmUrl?: string }
  | { type: "generate"; id: number; prompt: string | Uint32Array | object[]; options: Record<string, unknown> }
  | { type: "embed"; id: number; texts: string[]; options: Record<string, unknown> }
  | { type: "adapter"; id: number; source: SourceDescription }
  | { type: "call"; id: number; method: keyof Calls; args: unknown[] }
  | { type: "abort"; id: number }
  | { type: "dispose"; id: number };

export type Result = ModelInfo | BenchReport | LoadedModelInfo | Generated | Uint32Array | Float32Array[] | string | number | undefined;

export type Reply =
  | { type: "progress"; id: number; progress: Progress }
  | { type: "token"; id: number; token: Token }
  | { type: "result"; id: number; value: Result }
  | { type: "failure"; id: number; error: WireError }
  /** The device was lost or the engine broke: every call, pending or later, fails with this. */
  | { type: "dead"; error: WireError };
