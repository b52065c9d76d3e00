//! Bounds on what a header may claim, each with its reason. A file beyond one of them is `bad-file`.

/// A good length of the first prefix: most headers fit, and it costs less than one more round trip.
pub const FIRST_PREFIX: u64 = 1 << 20;

/// Bytes of a header. Half a million tokens with their merges take 17 MB, and a few converters add the whole
/// `tokenizer.json` (up to 33 MB) beside them.
pub const MAX_HEADER_BYTES: u64 = 128 << 20;

/// Key/value pairs. Real files have 20 to 80.
pub const MAX_METADATA: u64 = 1 << 14;

/// Bytes of a key: the specification's own limit.
pub const MAX_KEY_BYTES: u64 = 65_535;

/// Bytes of one string value: room for an embedded `tokenizer.json`.
pub const MAX_STRING_BYTES: u64 = 64 << 20;

/// Values in one array. The longest in use are merges, of which Gemma has 514,847.
pub const MAX_ARRAY_LEN: u64 = 1 << 22;

/// Tensors. Unmerged mixtures of experts have a few thousand.
pub const MAX_TENSORS: u64 = 1 << 16;

/// Dimensions of a tensor: ggml's `GGML_MAX_DIMS`.
pub const MAX_DIMS: u32 = 4;

/// Bytes of a tensor's name. ggml allows 63; some builds raise it to 127.
pub const MAX_NAME_BYTES: u64 = 255;

/// `general.alignment` in bytes. Files use 32; pages and disk sectors are the largest sensible values.
pub const MAX_ALIGNMENT: u64 = 1 << 16;
