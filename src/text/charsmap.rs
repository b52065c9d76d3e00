//! `tokenizer.ggml.precompiled_charsmap`: how SentencePiece normalizes a text, as a trie of what is replaced and the
//! replacements. The format is SentencePiece's: a u32 with the trie's length in bytes, the trie as a double array of u32
//! (Darts), and the replacements, each with a zero behind it; little-endian.

use super::unicode::Class;
use crate::err;
use crate::error::Result;

/// The longest text that a character may become, in bytes: twice the longest of Unicode's (U+FDFA takes 33). Without a bound a
/// file could make gigabytes of a line.
const MAX_REPLACEMENT: usize = 66;

/// A map of character sequences.
pub(super) struct CharsMap {
    trie: Vec<u32>,
    replacements: String,
}

impl CharsMap {
    /// Reads a map. Errors: `bad-file` for lengths that do not fit or replacements that are no UTF-8.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let bad =
            |found: &str| err!(BadFile, "tokenizer.ggml.precompiled_charsmap: expected a trie and its texts, found {found}");
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| bad("less than four bytes"))?;
        let length = u32::from_le_bytes(*length) as usize;
        let (trie, texts) = rest.split_at_checked(length).ok_or_else(|| bad("fewer bytes than the trie has"))?;
        let trie = trie.chunks_exact(4).map(|unit| u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]])).collect();
        let replacements = std::str::from_utf8(texts).map_err(|_| bad("texts that are no UTF-8"))?.to_owned();
        if replacements.split('\0').any(|text| text.len() > MAX_REPLACEMENT) {
            return Err(bad("a text that is longer than any of Unicode's normal forms"));
        }
        Ok(Self { trie, replacements })
    }

    /// The text, normalized. As in Hugging Face's: a character and the marks on it, where they take fewer than six bytes, are
    /// replaced together by what their beginning maps to, and otherwise each character by itself.
    pub fn apply(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let mut length = first.len_utf8();
            if !first.is_control() {
                let marks = |c: char| Class::MARK.has(c) || matches!(c, '\u{200c}' | '\u{200d}');
                length += super::scan::run(&rest[length..], marks);
            }
            let (cluster, after) = rest.split_at(length);
            match self.replacement(cluster).filter(|_| length < 6) {
                Some(text) => out.push_str(text),
                None => {
                    for c in cluster.chars() {
                        match self.replacement(c.encode_utf8(&mut [0; 4])) {
                            Some(text) => out.push_str(text),
                            None => out.push(c),
                        }
                    }
                }
            }
            rest = after;
        }
        out
    }

    /// What the shortest prefix in the trie is replaced by.
    fn replacement(&self, text: &str) -> Option<&str> {
        let offset = |unit: u32| (unit >> 10) << ((unit & (1 << 9)) >> 6);
        let mut node = offset(*self.trie.first()?);
        for &byte in text.as_bytes().iter().take_while(|&&byte| byte != 0) {
            node ^= u32::from(byte);
            let unit = *self.trie.get(node as usize)?;
            // The label, with the bit that a leaf has.
            if unit & (1 << 31 | 0xff) != u32::from(byte) {
                return None;
            }
            node ^= offset(unit);
            if unit >> 8 & 1 == 1 {
                let leaf = *self.trie.get(node as usize)? & !(1 << 31);
                let rest = self.replacements.get(leaf as usize..)?;
                return Some(rest.split('\0').next().unwrap_or(rest));
            }
        }
        None
    }
}
