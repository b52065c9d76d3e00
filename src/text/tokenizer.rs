//! The tokenizer of a model.

use unicode_normalization_alignments::UnicodeNormalization;

use super::added::{AddedTokens, Piece};
use super::bpe::{Bpe, Order};
use super::charsmap::CharsMap;
use super::pretokenize::PreTokenizer;
use super::unigram::Unigram;
use super::vocabulary::{Defaults, Model, SPACE, TokenType, Vocabulary, byte_of, take_strings};
use super::wordpiece::WordPiece;
use crate::err;
use crate::error::Result;
use crate::gguf::{Array, Metadata, Value};

/// The longest text that is tokenized, in bytes: what a context of a million tokens holds. Merging one unbroken word takes
/// some 110 bytes of memory for each of its bytes.
pub const MAX_TEXT_BYTES: usize = 4 << 20;

/// How [`Tokenizer::encode`] reads a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Whether the text of a control token (`<|im_start|>`) becomes that token. Only for text from a template: in what
    /// a person typed it is ordinary text. User-defined tokens are always found.
    pub parse_special: bool,
    /// Whether the beginning-of-sequence token goes first, if the model wants one ([`Tokenizer::add_bos`]).
    pub add_bos: bool,
    /// Whether the end-of-sequence or separator token goes last, if the model wants one: for a text that is whole, as
    /// embeddings models see it. What is to be continued must not end.
    pub add_eos: bool,
}

enum Kind {
    ByteLevel {
        pre: PreTokenizer,
        nfc: bool,
        bpe: Bpe,
    },
    /// SentencePiece; the characters of a text are its own.
    SentencePiece(Bpe),
    Unigram(Unigram),
    WordPiece(WordPiece),
}

/// A model's tokenizer, made from the vocabulary in its GGUF file. Ids are those of Hugging Face's `tokenizers`.
pub struct Tokenizer {
    vocabulary: Vocabulary,
    kind: Kind,
    added: AddedTokens,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({} tokens)", self.vocab_len())
    }
}

impl Tokenizer {
    /// Makes the tokenizer of a file's metadata (`tokenizer.ggml.*`). Tokens, types, scores and merges are taken out of
    /// the metadata, so that a vocabulary is not held twice.
    ///
    /// Errors: `unsupported-tokenizer` for a kind or pre-tokenizer that is not known; `bad-file` for an inconsistent
    /// vocabulary (arrays of unequal length, a token twice, merges of tokens that are not there, ids out of range).
    pub fn from_metadata(meta: &mut Metadata) -> Result<Self> {
        let model = Self::model(meta)?;
        let (vocabulary, kind) = match model {
            Model::ByteLevel => Self::byte_level(meta)?,
            Model::SentencePiece => {
                let vocabulary = Vocabulary::from_metadata(meta, model, Defaults { bos: true, ..Defaults::default() })?;
                // Files that were made of a tokenizer.json have its merges, which say the order exactly.
                let order = match take_strings(meta, "tokenizer.ggml.merges")?.filter(|merges| !merges.is_empty()) {
                    Some(merges) => Order::Merges(merges),
                    None => Order::Scores(take_scores(meta, vocabulary.len())?),
                };
                let bpe = Bpe::sentence_piece(&vocabulary, order)?;
                (vocabulary, Kind::SentencePiece(bpe))
            }
            Model::Unigram => {
                let vocabulary = Vocabulary::from_metadata(meta, model, Defaults { eos: true, ..Defaults::default() })?;
                let scores = take_scores(meta, vocabulary.len())?;
                let map = match meta.take("tokenizer.ggml.precompiled_charsmap") {
                    None => None,
                    Some(Value::Array(Array::U8(bytes))) => Some(CharsMap::new(&bytes)?),
                    Some(Value::Array(Array::I8(bytes))) => Some(CharsMap::new(bytemuck::cast_slice(&bytes))?),
                    Some(_) => return Err(err!(BadFile, "tokenizer.ggml.precompiled_charsmap: expected an array of bytes")),
                };
                let one_space = meta.bool("tokenizer.ggml.remove_extra_whitespaces")?.unwrap_or(true);
                let unigram = Unigram::new(&vocabulary, scores, map, one_space)?;
                (vocabulary, Kind::Unigram(unigram))
            }
            Model::WordPiece => {
                let vocabulary = Vocabulary::from_metadata(meta, model, Defaults { bos: true, separator: true, eos: false })?;
                let wordpiece = WordPiece::new(&vocabulary)?;
                (vocabulary, Kind::WordPiece(wordpiece))
            }
        };
        let added = AddedTokens::new(&vocabulary)?;
        Ok(Self { vocabulary, kind, added })
    }

    /// Whether this kind of tokenizer is supported, without making it: what can be said before anything else is read.
    ///
    /// # Errors
    /// `unsupported-tokenizer` naming the model or the pre-tokenizer, `bad-file` where neither is named.
    pub fn check(meta: &Metadata) -> Result<()> {
        match Self::model(meta)? {
            Model::ByteLevel => Self::pre_tokenizer(meta).map(|_| ()),
            Model::SentencePiece | Model::Unigram | Model::WordPiece => Ok(()),
        }
    }

    fn model(meta: &Metadata) -> Result<Model> {
        Ok(match meta.string("tokenizer.ggml.model")? {
            Some("gpt2") => Model::ByteLevel,
            Some("llama") => Model::SentencePiece,
            Some("t5") => Model::Unigram,
            Some("bert") => Model::WordPiece,
            Some(other) => {
                return Err(err!(
                    UnsupportedTokenizer,
                    "tokenizer.ggml.model: expected gpt2, llama, t5 or bert, found {other:?}"
                ));
            }
            None => return Err(err!(BadFile, "tokenizer: expected tokenizer.ggml.model, found none")),
        })
    }

    fn pre_tokenizer(meta: &Metadata) -> Result<PreTokenizer> {
        PreTokenizer::from_name(meta.string("tokenizer.ggml.pre")?.unwrap_or("default"))
    }

    fn byte_level(meta: &mut Metadata) -> Result<(Vocabulary, Kind)> {
        let pre = Self::pre_tokenizer(meta)?;
        let defaults = Defaults { bos: pre.add_bos, ..Defaults::default() };
        let vocabulary = Vocabulary::from_metadata(meta, Model::ByteLevel, defaults)?;
        let merges = take_strings(meta, "tokenizer.ggml.merges")?.filter(|merges| !merges.is_empty()).ok_or_else(|| {
            err!(BadFile, "tokenizer: expected the array tokenizer.ggml.merges, without which there is no BPE, found none")
        })?;
        // A file cannot say whether its tokenizer normalizes. Where those of its name do, to NFC, a vocabulary trained on
        // composed text has a token for é; one that has none (test vocabularies) was trained without.
        let nfc = pre.nfc && vocabulary.texts.iter().any(|t| t == "\u{c3}\u{a9}");
        let bpe = Bpe::byte_level(&vocabulary, merges, pre.whole_first)?;
        Ok((vocabulary, Kind::ByteLevel { pre, nfc, bpe }))
    }

    /// The token ids of `text`. Time is linear in its length but for single words of extreme length (n log n).
    ///
    /// Errors: `bad-option` for a text longer than [`MAX_TEXT_BYTES`].
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Result<Vec<u32>> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(err!(BadOption, "tokenize: expected a text of at most {MAX_TEXT_BYTES} bytes, found {}", text.len()));
        }
        let mut ids = Vec::new();
        if options.add_bos && self.vocabulary.add_bos {
            ids.extend(self.vocabulary.bos);
        }
        let mut result = Ok(());
        let mut scratch = String::new();
        self.added.split(&self.vocabulary, text, options.parse_special, |piece| match piece {
            Piece::Token(id) => ids.push(id),
            Piece::Text(text) if result.is_ok() => result = self.encode_text(text, &mut scratch, &mut ids),
            Piece::Text(_) => {}
        });
        if options.add_eos {
            ids.extend(self.vocabulary.last);
        }
        result.map(|()| ids)
    }

    /// Appends the ids of a text without special tokens in it.
    fn encode_text(&self, text: &str, scratch: &mut String, ids: &mut Vec<u32>) -> Result<()> {
        match &self.kind {
            Kind::Unigram(unigram) => {
                unigram.encode(text, self.vocabulary.add_space_prefix, ids);
                Ok(())
            }
            Kind::WordPiece(wordpiece) => {
                wordpiece.encode(text, ids);
                Ok(())
            }
            Kind::SentencePiece(bpe) => {
                scratch.clear();
                if self.vocabulary.add_space_prefix {
                    scratch.push(SPACE);
                }
                scratch.extend(text.chars().map(|c| if c == ' ' { SPACE } else { c }));
                bpe.encode_parts(scratch, ids)
            }
            Kind::ByteLevel { pre, nfc, bpe } => {
                let composed: String;
                let text = if *nfc && !text.is_ascii() {
                    composed = text.nfc().map(|(c, _)| c).collect();
                    composed.as_str()
                } else {
                    text
                };
                let mut result = Ok(());
                pre.split(text, |piece| {
                    if result.is_ok() {
                        scratch.clear();
                        scratch.extend(piece.bytes().map(byte_to_char));
                        result = bpe.encode(scratch, ids);
                    }
                });
                result
            }
        }
    }

    /// The text of `ids`, as a whole text: bytes that are no UTF-8 become U+FFFD, and where the model's convention puts
    /// a space before a text, it is taken off. `skip_special` leaves control tokens out.
    ///
    /// Errors: `bad-option` for an id out of range.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        for &id in ids {
            if id as usize >= self.vocab_len() {
                return Err(err!(BadOption, "detokenize: expected ids below {}, found {id}", self.vocab_len()));
            }
            if !(skip_special && self.is_special(id)) {
                self.push_bytes(id, &mut bytes);
            }
        }
        let text = if self.strips_leading_space() { bytes.strip_prefix(b" ").unwrap_or(&bytes) } else { &bytes };
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// The bytes that a token stands for: U+2581 as a space, a byte token as its byte, a control token as its text.
    /// They need not be UTF-8. `None` where there is no such token.
    pub fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        self.vocabulary.kind(id)?;
        let mut bytes = Vec::new();
        self.push_bytes(id, &mut bytes);
        Some(bytes)
    }

    /// Appends the bytes of a token; nothing where there is no such token.
    pub(super) fn push_bytes(&self, id: u32, bytes: &mut Vec<u8>) {
        let (Some(text), Some(kind)) = (self.vocabulary.text(id), self.vocabulary.kind(id)) else { return };
        if let Some(byte) = byte_of(text).filter(|_| kind == TokenType::Byte) {
            return bytes.push(byte);
        }
        match self.kind {
            Kind::SentencePiece(_) | Kind::Unigram(_) | Kind::WordPiece(_) => {
                let mut utf8 = [0; 4];
                for c in text.chars() {
                    bytes.extend_from_slice(if c == SPACE { b" " } else { c.encode_utf8(&mut utf8).as_bytes() });
                }
            }
            Kind::ByteLevel { .. } => {
                // Control and user-defined tokens are spelled as they are, not byte by byte.
                let spelled = matches!(kind, TokenType::Normal | TokenType::Byte | TokenType::Unused);
                if spelled && text.chars().all(|c| char_to_byte(c).is_some()) {
                    bytes.extend(text.chars().filter_map(char_to_byte));
                } else {
                    bytes.extend_from_slice(text.as_bytes());
                }
            }
        }
    }

    /// How many tokens there are.
    pub fn vocab_len(&self) -> usize {
        self.vocabulary.len()
    }

    /// The beginning-of-sequence token.
    pub fn bos(&self) -> Option<u32> {
        self.vocabulary.bos
    }

    /// The end-of-sequence token.
    pub fn eos(&self) -> Option<u32> {
        self.vocabulary.eos
    }

    /// Whether the model wants its beginning-of-sequence token before a text.
    pub fn add_bos(&self) -> bool {
        self.vocabulary.add_bos
    }

    /// Whether a model that produces this token has finished: the end-of-sequence, end-of-turn and end-of-message
    /// tokens that the file names, and control tokens known to mean that.
    pub fn is_end_of_generation(&self, id: u32) -> bool {
        self.vocabulary.end_of_generation.binary_search(&id).is_ok()
    }

    /// All tokens of [`Self::is_end_of_generation`], sorted.
    pub fn end_of_generation(&self) -> &[u32] {
        &self.vocabulary.end_of_generation
    }

    /// Whether the token is a control token, or the unknown token.
    pub fn is_special(&self, id: u32) -> bool {
        matches!(self.vocabulary.kind(id), Some(TokenType::Control | TokenType::Unknown))
    }

    /// The text of a token as a template sees it (`bos_token`), or `None` where there is no such token.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.vocabulary.text(id)
    }

    /// Whether a decoded text begins with a space that is not the text's own.
    pub(super) fn strips_leading_space(&self) -> bool {
        self.vocabulary.add_space_prefix
    }
}

fn take_scores(meta: &mut Metadata, n: usize) -> Result<Vec<f32>> {
    let scores = match meta.take("tokenizer.ggml.scores") {
        Some(Value::Array(Array::F32(scores))) => scores,
        Some(_) => return Err(err!(BadFile, "tokenizer.ggml.scores: expected an array of f32, found something else")),
        None => return Err(err!(BadFile, "tokenizer: expected the array tokenizer.ggml.scores, found none")),
    };
    if scores.len() != n {
        return Err(err!(BadFile, "tokenizer.ggml.scores: expected {n} entries (one a token), found {}", scores.len()));
    }
    Ok(scores)
}

/// The character that spells a byte in byte-level vocabularies: itself where it is printable Latin-1, and otherwise,
/// in order, one from U+0100 on (GPT-2's table).
fn byte_to_char(byte: u8) -> char {
    let code = match byte {
        0..=0x20 => 0x100 + u32::from(byte),
        0x7f..=0xa0 => 0x121 + u32::from(byte - 0x7f),
        0xad => 0x143,
        other => u32::from(other),
    };
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte that a character spells, or `None` if it spells none.
fn char_to_byte(c: char) -> Option<u8> {
    let byte = match u32::from(c) {
        code @ 0x100..=0x120 => code - 0x100,
        code @ 0x121..=0x142 => code - 0x121 + 0x7f,
        0x143 => 0xad,
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => code,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_character() {
        for byte in 0..=255 {
            assert_eq!(char_to_byte(byte_to_char(byte)), Some(byte));
        }
        assert_eq!((byte_to_char(b' '), byte_to_char(b'\n'), byte_to_char(b'a')), ('Ġ', 'Ċ', 'a'));
    }
}
