//! WordPiece vocabularies (`bert`): words, and each from the longest tokens that begin what is left of it. In GGUF files tokens
//! that begin a word have U+2581 before them, and those that continue one have no `##`.

use std::collections::HashMap;

use unicode_normalization_alignments::UnicodeNormalization;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use super::unicode::is_punctuation;
use super::vocabulary::{SPACE, TokenType, Vocabulary};
use crate::err;
use crate::error::Result;

/// Words of more characters are unknown, as in Hugging Face's.
const MAX_WORD: usize = 100;

/// A WordPiece model.
pub(super) struct WordPiece {
    ids: HashMap<String, u32>,
    unknown: u32,
    /// Whether texts are put in lower case.
    lowercase: bool,
    /// Whether accents are taken off.
    strip_accents: bool,
}

impl WordPiece {
    /// A model of the vocabulary's ordinary tokens. A file cannot say how its tokenizer normalizes, so the vocabulary does:
    /// one without capitals was made from lower case, and of those, one without accents from letters that had lost them.
    ///
    /// Errors: `bad-file` where there is no unknown token.
    pub fn new(vocabulary: &Vocabulary) -> Result<Self> {
        let mut ids = HashMap::with_capacity(vocabulary.len());
        let (mut capitals, mut accents) = (false, false);
        for (id, text) in (0u32..).zip(vocabulary.texts.iter()) {
            let ordinary = matches!(vocabulary.kind(id), Some(TokenType::Normal | TokenType::UserDefined));
            // Some converters write [UNK] and its kind as ordinary tokens.
            if !ordinary || text.is_empty() || (text.len() > 2 && text.starts_with('[') && text.ends_with(']')) {
                continue;
            }
            capitals |= text.chars().any(|c| c.is_ascii_uppercase());
            accents |=
                !text.is_ascii() && text.nfd().any(|(c, _)| is_accent(c)) && text.chars().any(|c| !is_accent(c) && c != SPACE);
            // The first of two equal tokens, as in the original's list.
            ids.entry(text.to_owned()).or_insert(id);
        }
        let unknown = vocabulary.unknown.ok_or_else(|| {
            err!(BadFile, "tokenizer: expected tokenizer.ggml.unknown_token_id, without which there is no WordPiece")
        })?;
        Ok(Self { ids, unknown, lowercase: !capitals, strip_accents: !capitals && !accents })
    }

    /// Appends the ids of `text`.
    pub fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let text = self.normalize(text);
        let mut word = String::new();
        for c in text.chars() {
            if c.is_whitespace() || is_punctuation(c) || is_ideograph(c) {
                self.encode_word(&mut word, ids);
                if !c.is_whitespace() {
                    word.push(c);
                    self.encode_word(&mut word, ids);
                }
            } else {
                word.push(c);
            }
        }
        self.encode_word(&mut word, ids);
    }

    /// The text without controls, and in the vocabulary's case.
    fn normalize(&self, text: &str) -> String {
        let clean = |&c: &char| match c {
            '\t' | '\n' | '\r' => true,
            '\0' | char::REPLACEMENT_CHARACTER => false,
            c => {
                !matches!(c.general_category(), GeneralCategory::Control | GeneralCategory::Format | GeneralCategory::PrivateUse)
            }
        };
        let mut text: String = text.chars().filter(clean).collect();
        if self.strip_accents && !text.is_ascii() {
            text = text.nfd().map(|(c, _)| c).filter(|&c| !is_accent(c)).collect();
        }
        if self.lowercase {
            text = text.chars().flat_map(char::to_lowercase).collect();
        }
        text
    }

    /// Appends the ids of a word and empties it.
    fn encode_word(&self, word: &mut String, ids: &mut Vec<u32>) {
        if word.is_empty() {
            return;
        }
        let first = ids.len();
        let mut known = word.chars().count() <= MAX_WORD;
        if known {
            word.insert(0, SPACE);
            let mut rest = word.as_str();
            while known && !rest.is_empty() {
                let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
                // The mark of a word's beginning alone is no piece; within a word it is a character, and a piece by itself.
                let mark = SPACE.len_utf8();
                let begins = rest.len() == word.len();
                let fits = |end: &usize| if begins { *end > mark } else { *end == mark || !rest.starts_with(SPACE) };
                let piece = ends.filter(fits).find_map(|end| self.ids.get(&rest[..end]).map(|&id| (end, id)));
                match piece {
                    Some((end, id)) => {
                        ids.push(id);
                        rest = &rest[end..];
                    }
                    None => known = false,
                }
            }
        }
        if !known {
            ids.truncate(first);
            ids.push(self.unknown);
        }
        word.clear();
    }
}

fn is_accent(c: char) -> bool {
    c.general_category() == GeneralCategory::NonspacingMark
}

/// What `tokenizers` takes for Chinese: each character is a word. (Its fifth block begins where the original's does not.)
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '\u{20000}'..='\u{2a6df}' | '\u{2a700}'..='\u{2b73f}'
        | '\u{2b740}'..='\u{2b81f}' | '\u{2b920}'..='\u{2ceaf}' | '\u{f900}'..='\u{faff}' | '\u{2f800}'..='\u{2fa1f}')
}
