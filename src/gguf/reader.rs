//! A cursor over a file's prefix that tells "the prefix is too short" from "the file is too short".

use super::limits::MAX_HEADER_BYTES;
use super::{Step, Stop};
use crate::err;

/// Reads little-endian values. `what` arguments name the value for errors.
pub(super) struct Reader<'a> {
    /// The file's first bytes.
    bytes: &'a [u8],
    /// Position of the next byte, in both `bytes` and the file.
    at: usize,
    /// Bytes in the whole file.
    pub file_len: u64,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], file_len: u64) -> Self {
        Self { bytes, at: 0, file_len }
    }

    /// A second cursor over the same bytes, standing at an earlier offset.
    pub fn rewound(&self, at: usize) -> Reader<'a> {
        Reader { bytes: self.bytes, at: at.min(self.at), file_len: self.file_len }
    }

    /// Offset in the file of the next byte.
    pub fn offset(&self) -> u64 {
        self.at as u64
    }

    /// Bytes of the file from here on: the bound of whatever a count may claim.
    pub fn file_left(&self) -> u64 {
        self.file_len.saturating_sub(self.offset())
    }

    /// Bytes of the prefix from here on: the bound of what may be allocated.
    pub fn held(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: u64, what: impl FnOnce() -> String) -> Step<&'a [u8]> {
        if n > self.file_left() {
            let (at, left) = (self.at, self.file_left());
            return Err(err!(
                BadFile,
                "{}: expected {n} bytes at offset {at}, found the end of the file after {left}: it is truncated or damaged",
                what()
            )
            .into());
        }
        let end = self.offset() + n; // no overflow: at most file_len
        if end > MAX_HEADER_BYTES {
            return Err(
                err!(BadFile, "{}: expected a header of at most {MAX_HEADER_BYTES} bytes, found {end} or more", what()).into()
            );
        }
        // A header of at most MAX_HEADER_BYTES fits a usize everywhere.
        let end_at = end as usize;
        let taken = self.bytes.get(self.at..end_at).ok_or(Stop::Short(end))?;
        self.at = end_at;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: impl FnOnce() -> String) -> Step<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64, what)?);
        Ok(out)
    }

    pub fn u32(&mut self, what: impl FnOnce() -> String) -> Step<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub fn u64(&mut self, what: impl FnOnce() -> String) -> Step<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// The bytes of a string: its length as u64, at most `max`, then that many bytes.
    pub fn string_bytes(&mut self, max: u64, what: impl Fn() -> String) -> Step<&'a [u8]> {
        let len = self.u64(|| format!("{}, its length", what()))?;
        if len > max {
            return Err(err!(BadFile, "{}: expected a string of at most {max} bytes, found a length of {len}", what()).into());
        }
        self.take(len, what)
    }

    /// A string, which must be UTF-8.
    pub fn string(&mut self, max: u64, what: impl Fn() -> String) -> Step<&'a str> {
        let bytes = self.string_bytes(max, &what)?;
        Ok(utf8(bytes, what)?)
    }
}

/// `bytes` as UTF-8, or `bad-file` with the place of the first byte that is not.
pub(super) fn utf8(bytes: &[u8], what: impl FnOnce() -> String) -> crate::error::Result<&str> {
    std::str::from_utf8(bytes).map_err(|e| {
        let at = e.valid_up_to();
        err!(BadFile, "{}: expected UTF-8, found byte 0x{:02x} at position {at} of the string", what(), bytes[at])
    })
}
