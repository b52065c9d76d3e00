//! GGUF: bytes in, header out. It does no I/O: whoever has a source of bytes hands over a prefix of the file, and is
//! told to come back with more where that prefix is too short. It trusts nothing: every count and size is bounded
//! before memory is taken for it, and what is taken is proportional to the prefix that was handed in.
//!
//! Layout of a file (versions 2 and 3, little-endian): magic, version, counts, key/value pairs, tensor table, padding
//! to `general.alignment`, tensor data. Source: ggml's `docs/gguf.md`.
//!
//! Deliberately absent: version 1, big-endian files, nested arrays (no model has them), and any opinion on which
//! formats can be computed ([`crate::quant`] has that).

mod header;
pub mod limits;
mod metadata;
mod reader;
mod split;
mod values;

pub use header::{Header, TensorInfo};
pub use metadata::{Array, Metadata, Strings, Value};
pub use split::{ShardName, in_file, merge, shard_count};

use crate::error::{Error, Result};
use reader::Reader;

/// What came of a prefix of a file.
#[derive(Debug)]
pub enum Parsed {
    /// The whole header.
    Header(Header),
    /// The header goes on beyond the prefix: parse again with at least this many bytes of the file's start. Twice the
    /// prefix at least, so that all tries together cost no more than two parses; never more than the file has.
    NeedMore(u64),
}

/// Why reading stopped.
enum Stop {
    /// The header goes on until this offset in the file at least.
    Short(u64),
    /// The file is bad.
    Bad(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Bad(error)
    }
}

type Step<T> = std::result::Result<T, Stop>;

/// Parses the header of a GGUF file from `prefix`, the file's first bytes, where the file has `file_len` bytes in all.
/// [`limits::FIRST_PREFIX`] is a good first length.
///
/// # Errors
/// `bad-file` where the file is truncated, inconsistent or beyond the [`limits`], naming the key or tensor, what was
/// expected and what was found; `unsupported-quant` where a tensor's type number is unknown.
pub fn parse(prefix: &[u8], file_len: u64) -> Result<Parsed> {
    let held = usize::try_from(file_len).map_or(prefix, |len| &prefix[..prefix.len().min(len)]);
    match header::read(&mut Reader::new(held, file_len)) {
        Ok(header) => Ok(Parsed::Header(header)),
        Err(Stop::Bad(error)) => Err(error),
        Err(Stop::Short(end)) => {
            let doubled = (held.len() as u64).saturating_mul(2);
            let wanted = end.max(doubled).clamp(limits::FIRST_PREFIX, limits::MAX_HEADER_BYTES);
            Ok(Parsed::NeedMore(wanted.min(file_len)))
        }
    }
}
