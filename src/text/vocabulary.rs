//! The vocabulary as GGUF metadata has it: texts, types and scores of tokens, and the ids with a meaning.
//! Keys: `tokenizer.ggml.*` of the GGUF specification.

use crate::err;
use crate::error::Result;
use crate::gguf::{Array, Metadata, Strings, Value};

/// The most tokens a vocabulary may have: four times the largest in use (262,144), and small enough that a hostile
/// count cannot exhaust memory.
pub(super) const MAX_TOKENS: usize = 1 << 20;

/// The space of SentencePiece vocabularies, U+2581.
pub(super) const SPACE: char = '\u{2581}';

/// `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenType {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// The kinds of vocabularies in GGUF files (`tokenizer.ggml.model`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Model {
    /// `gpt2`: tokens spell bytes, each as one of 256 printable characters.
    ByteLevel,
    /// `llama`: tokens spell text with U+2581 for spaces; unknown characters fall back to byte tokens `<0xNN>`.
    SentencePiece,
    /// `t5`: tokens as in SentencePiece, of which the most likely together are taken.
    Unigram,
    /// `bert`: the longest tokens first, word by word.
    WordPiece,
}

/// Which tokens stand around a text where the file does not say: what the converters that leave out the keys mean.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Defaults {
    /// The beginning-of-sequence token before it.
    pub bos: bool,
    /// The end-of-sequence token behind it.
    pub eos: bool,
    /// The separator behind it.
    pub separator: bool,
}

/// What the metadata says of tokens.
#[derive(Debug)]
pub(super) struct Vocabulary {
    pub model: Model,
    /// Token texts by id.
    pub texts: Strings,
    /// Token types by id, as many as there are texts.
    pub types: Vec<TokenType>,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    /// What goes behind a whole text.
    pub last: Option<u32>,
    pub unknown: Option<u32>,
    /// Tokens that end a turn or the text, sorted.
    pub end_of_generation: Vec<u32>,
    pub add_bos: bool,
    pub add_space_prefix: bool,
}

/// Texts that end a turn or a text in the chat formats in use. A token counts only if it is a control token:
/// Gemma has `</s>` for HTML.
const END_TEXTS: [&str; 21] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<turn|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|end_of_turn|>",
    "<|eot|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|end_of_role|>",
    "</s>",
    "<eos>",
    "<EOT>",
    "_<EOT>",
    "<end_of_utterance>",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
    "[EOS]",
];

impl Vocabulary {
    /// Takes the vocabulary out of the metadata.
    pub fn from_metadata(meta: &mut Metadata, model: Model, defaults: Defaults) -> Result<Self> {
        let texts = take_strings(meta, "tokenizer.ggml.tokens")?
            .ok_or_else(|| err!(BadFile, "tokenizer: expected the array tokenizer.ggml.tokens, found none"))?;
        let n = texts.len();
        if n == 0 || n > MAX_TOKENS {
            return Err(err!(BadFile, "tokenizer: expected 1 to {MAX_TOKENS} tokens, found {n}"));
        }
        let types = match meta.take("tokenizer.ggml.token_type") {
            None => vec![TokenType::Normal; n],
            Some(value) => token_types(&value)?,
        };
        if types.len() != n {
            return Err(err!(BadFile, "tokenizer.ggml.token_type: expected {n} entries (one a token), found {}", types.len()));
        }
        let id = |name: &str| -> Result<Option<u32>> {
            let key = format!("tokenizer.ggml.{name}");
            match meta.uint(&key)? {
                None => Ok(None),
                // Written for "none" by converters.
                Some(id) if id == u64::from(u32::MAX) => Ok(None),
                Some(id) if id < n as u64 => Ok(Some(id as u32)),
                Some(id) => Err(err!(BadFile, "{key}: expected a token id below {n}, found {id}")),
            }
        };
        // The special tokens of WordPiece have texts by convention, should the ids be missing.
        let word_piece = |text: &str| match model {
            Model::WordPiece => (0u32..).zip(texts.iter()).find(|(_, t)| *t == text).map(|(id, _)| id),
            _ => None,
        };
        let class = if model == Model::WordPiece { id("cls_token_id")? } else { None };
        let eos = id("eos_token_id")?;
        let separator = id("seperator_token_id")?.or_else(|| word_piece("[SEP]")).or(eos);
        let flag = |key: &str, default: bool| Ok(meta.bool(key)?.unwrap_or(default));
        let last = match (
            flag("tokenizer.ggml.add_sep_token", defaults.separator)?,
            flag("tokenizer.ggml.add_eos_token", defaults.eos)?,
        ) {
            (true, _) => separator,
            (false, true) => eos,
            (false, false) => None,
        };
        // Byte-level vocabularies spell their spaces, the others mark where a word begins.
        let spaced = model != Model::ByteLevel;
        let mut this = Self {
            model,
            bos: class.or(id("bos_token_id")?).or_else(|| word_piece("[CLS]")),
            eos,
            last,
            unknown: id("unknown_token_id")?.or_else(|| word_piece("[UNK]")),
            end_of_generation: Vec::new(),
            add_bos: meta.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(defaults.bos),
            add_space_prefix: spaced && meta.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true),
            texts,
            types,
        };
        let ends = [this.eos, id("eot_token_id")?, id("eom_token_id")?];
        this.end_of_generation = this.find_ends(ends.into_iter().flatten().collect());
        if spaced {
            this.restore_spaces();
        }
        Ok(this)
    }

    /// The ids in `named` and the control tokens that are known to end a turn or a text.
    fn find_ends(&self, mut ends: Vec<u32>) -> Vec<u32> {
        let control = |text: &str| {
            let mut ids = (0..self.texts.len()).filter(|&id| self.texts.get(id) == Some(text));
            ids.find(|&id| self.types[id] == TokenType::Control).map(|id| id as u32)
        };
        // In the harmony format of gpt-oss <|end|> ends one message of several in a turn.
        let harmony = control("<|return|>").is_some() && control("<|call|>").is_some();
        ends.extend(END_TEXTS.iter().filter(|text| !(harmony && **text == "<|end|>")).filter_map(|text| control(text)));
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    /// Writes the spaces of user-defined tokens as U+2581 again, as SentencePiece has them. Converters write runs of
    /// spaces as plain spaces, but only with U+2581 do they take part in merging as they do in the original.
    fn restore_spaces(&mut self) {
        let spaced = |id: usize| self.types[id] == TokenType::UserDefined && self.texts.get(id).is_some_and(|t| t.contains(' '));
        if !(0..self.texts.len()).any(spaced) {
            return;
        }
        let mut texts = Strings::default();
        for (id, text) in self.texts.iter().enumerate() {
            if spaced(id) { texts.push(&text.replace(' ', "\u{2581}")) } else { texts.push(text) }
        }
        self.texts = texts;
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// The text of a token, as in the file.
    pub fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize)
    }

    /// The type of a token.
    pub fn kind(&self, id: u32) -> Option<TokenType> {
        self.types.get(id as usize).copied()
    }
}

/// Takes an array of strings out of the metadata.
pub(super) fn take_strings(meta: &mut Metadata, key: &str) -> Result<Option<Strings>> {
    match meta.take(key) {
        None => Ok(None),
        Some(Value::Array(Array::String(strings))) => Ok(Some(strings)),
        Some(_) => Err(err!(BadFile, "metadata {key}: expected an array of strings, found something else")),
    }
}

fn token_types(value: &Value) -> Result<Vec<TokenType>> {
    let Value::Array(array) = value else {
        return Err(err!(BadFile, "tokenizer.ggml.token_type: expected an array of integers, found something else"));
    };
    fn all<T: Copy + TryInto<i64>>(values: &[T]) -> Result<Vec<TokenType>> {
        values.iter().map(|&v| token_type(v.try_into().unwrap_or(-1))).collect()
    }
    match array {
        Array::U8(v) => all(v),
        Array::I8(v) => all(v),
        Array::U16(v) => all(v),
        Array::I16(v) => all(v),
        Array::U32(v) => all(v),
        Array::I32(v) => all(v),
        Array::U64(v) => all(v),
        Array::I64(v) => all(v),
        _ => Err(err!(BadFile, "tokenizer.ggml.token_type: expected an array of integers, found another type")),
    }
}

fn token_type(number: i64) -> Result<TokenType> {
    Ok(match number {
        // 0 is "undefined", which old converters wrote for ordinary tokens.
        0 | 1 => TokenType::Normal,
        2 => TokenType::Unknown,
        3 => TokenType::Control,
        4 => TokenType::UserDefined,
        5 => TokenType::Unused,
        6 => TokenType::Byte,
        other => return Err(err!(BadFile, "tokenizer.ggml.token_type: expected 0 to 6, found {other}")),
    })
}

/// The byte of a byte token: `<0x0A>` is 10.
pub(super) fn byte_of(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}
