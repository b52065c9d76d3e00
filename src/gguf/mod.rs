//! GGUF: bytes in, header out. It does no I/O: whoever has a source of bytes hands over a prefix of the file, and is
//! told to come back with more where that prefix is too short.

mod metadata;

pub use metadata::{Array, Metadata, Strings, Value};
