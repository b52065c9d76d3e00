/** The stable codes of errors. Programs may match on them; messages are for people and may change. */
export const ERROR_CODES = [
  "webgpu-unavailable",
  "device-lost",
  "out-of-memory",
  "unsupported-architecture",
  "unsupported-quant",
  "bad-file",
  "network",
  "integrity",
  "quota",
  "context-overflow",
  "bad-option",
  "bad-template",
  "unsupported-tokenizer",
  "aborted",
  "disposed",
  "self-test-failed",
  "internal",
] as const;

/** One of {@link ERROR_CODES}. */
export type ErrorCode = (typeof ERROR_CODES)[number];

/** Every failure of this package. The message says what was expected, what was found, and what to do. */
export class RivuletError extends Error {
  override readonly name = "RivuletError";
  /** What kind of failure this is. */
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** An error as it crosses the border of a worker (structured clone drops an error's own properties). */
export interface WireError {
  code: ErrorCode;
  message: string;
}

function isCode(value: unknown): value is ErrorCode {
  return (ERROR_CODES as readonly unknown[]).includes(value);
}

/** Whatever was thrown, as a RivuletError. An error without a code of ours is a defect of ours: `internal`. */
export function toRivuletError(thrown: unknown, fallback: ErrorCode = "internal"): RivuletError {
  if (thrown instanceof RivuletError) return thrown;
  if (typeof thrown === "object" && thrown !== null) {
    const { code, message, name } = thrown as { code?: unknown; message?: unknown; name?: unknown };
    const text = typeof message === "string" ? message : "an object was thrown";
    if (isCode(code)) return new RivuletError(code, text, { cause: thrown });
    if (name === "AbortError") return new RivuletError("aborted", "the caller aborted", { cause: thrown });
    if (name === "QuotaExceededError") return new RivuletError("quota", `storage is full: ${text}`, { cause: thrown });
    return new RivuletError(fallback, typeof name === "string" ? `${name}: ${text}` : text, { cause: thrown });
  }
  return new RivuletError(fallback, String(thrown));
}

/** The part of an error that crosses. */
export function toWire(thrown: unknown): WireError {
  const { code, message } = toRivuletError(thrown);
  return { code, message };
}

/** The error again, on the other side. */
export function fromWire(error: WireError): RivuletError {
  return new RivuletError(error.code, error.message);
}
