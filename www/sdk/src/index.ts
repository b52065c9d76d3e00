/** Rivulet: language models inside a web page. This is the list of what the package offers. */
export { inspectModel, loadModel } from "./model.js";
export { checkSupport } from "./support.js";
export { ERROR_CODES, RivuletError } from "./errors.js";
export type { ErrorCode } from "./errors.js";
export type {
  AdapterSummary,
  AdapterUse,
  DetokenizeOptions,
  EmbedOptions,
  FinishReason,
  GenerateOptions,
  Generated,
  InspectOptions,
  KvType,
  LoadOptions,
  LoadedModelInfo,
  LoadPhases,
  Tuning,
  Message,
  Model,
  ModelInfo,
  ModelSource,
  Precision,
  Progress,
  Prompt,
  Quantize,
  Run,
  SourceOptions,
  Support,
  TemplateOptions,
  Timings,
  Token,
  TokenizeOptions,
  Usage,
} from "./types.js";
