//! Where bytes and time come from. Neither trait asks for `Send`: in a page everything lives on one thread.

use crate::err;
use crate::error::Result;
use crate::gguf::{Header, Parsed, parse, shard_count};

/// A source of bytes that answers range reads: memory, a file, HTTP ranges, a Blob.
#[allow(async_fn_in_trait)] // no Send bound is wanted
pub trait ByteSource {
    /// Bytes in all.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `out` with the bytes from `offset` on, which the caller keeps within [`Self::len`].
    /// Errors: `network`, `integrity`, or `aborted` where the source was told to stop.
    async fn read(&self, offset: u64, out: &mut [u8]) -> Result<()>;

    /// Whether there is nothing to read: the weights are noise, made on the device ([`model::synthetic`](crate::model::synthetic)).
    fn is_noise(&self) -> bool {
        false
    }
}

/// Time and chance, as the host has them.
pub trait Host {
    /// Milliseconds since some fixed moment, never going back.
    fn now_ms(&self) -> f64;

    /// Seconds since 1970, UTC, for templates that write the date.
    fn unix_seconds(&self) -> i64;

    /// 64 random bits, the seed of a request that names none.
    fn entropy(&self) -> u64;
}

/// A file in memory.
pub struct MemorySource(pub Vec<u8>);

impl ByteSource for MemorySource {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    async fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = start.checked_add(out.len()).and_then(|end| self.0.get(start..end));
        out.copy_from_slice(bytes.ok_or_else(|| err!(Internal, "reading {} bytes at {offset} of {}", out.len(), self.0.len()))?);
        Ok(())
    }
}

/// The source of a synthetic model: it has a length and no bytes.
pub struct NoiseSource(pub u64);

impl ByteSource for NoiseSource {
    fn len(&self) -> u64 {
        self.0
    }

    async fn read(&self, offset: u64, _: &mut [u8]) -> Result<()> {
        Err(err!(Internal, "a synthetic model has no bytes to read at {offset}"))
    }

    fn is_noise(&self) -> bool {
        true
    }
}

/// The first read of a header: holds the metadata of small models whole.
const FIRST_READ: u64 = 1 << 20;

/// Reads the header of a model that is one file, and no more than about twice its bytes.
///
/// # Errors
/// `bad-file` and `unsupported-quant` as [`parse`] finds them, `bad-file` for one file of several
/// ([`open_model`](super::open_model) finds the others), and what the source fails with.
pub async fn read_header(source: &impl ByteSource) -> Result<Header> {
    let header = read_part(source).await?;
    match shard_count(&header)? {
        1 => Ok(header),
        count => Err(err!(BadFile, "the model is split into {count} files, and this is one of them; give all")),
    }
}

/// Reads the header of a file that may be one of several.
pub(super) async fn read_part(source: &impl ByteSource) -> Result<Header> {
    let mut prefix = Vec::new();
    let mut want = FIRST_READ;
    loop {
        let have = prefix.len() as u64;
        let end = want.min(source.len());
        prefix.resize(end as usize, 0);
        source.read(have, &mut prefix[have as usize..]).await?;
        match parse(&prefix, source.len())? {
            Parsed::Header(header) => return Ok(header),
            Parsed::NeedMore(least) if end < source.len() => want = least.max(end * 2),
            Parsed::NeedMore(_) => return Err(err!(BadFile, "the file ends inside its header")),
        }
    }
}
