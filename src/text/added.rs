//! Finds the texts of control and user-defined tokens in a text, before anything else looks at it.

use std::collections::HashSet;

use daachorse::{DoubleArrayAhoCorasick, DoubleArrayAhoCorasickBuilder, MatchKind};

use super::vocabulary::{TokenType, Vocabulary};
use crate::err;
use crate::error::Result;

/// The tokens that are matched as whole texts: the leftmost, and of those the longest, wins. Hugging Face's rule too.
pub(super) struct AddedTokens {
    automaton: Option<DoubleArrayAhoCorasick<u32>>,
}

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Ordinary text.
    Text(&'a str),
    /// A token that was spelled out.
    Token(u32),
}

impl AddedTokens {
    /// The matcher of a vocabulary's control, unknown and user-defined tokens.
    pub fn new(vocabulary: &Vocabulary) -> Result<Self> {
        let mut seen = HashSet::new();
        let mut patterns = Vec::new();
        for (id, kind) in (0u32..).zip(&vocabulary.types) {
            let added = matches!(kind, TokenType::Control | TokenType::UserDefined | TokenType::Unknown);
            let text = vocabulary.text(id).unwrap_or("");
            if added && !text.is_empty() && seen.insert(text) {
                patterns.push((text, id));
            }
        }
        if patterns.is_empty() {
            return Ok(Self { automaton: None });
        }
        let automaton = DoubleArrayAhoCorasickBuilder::new().match_kind(MatchKind::LeftmostLongest).build_with_values(patterns);
        let automaton = automaton.map_err(|e| err!(BadFile, "tokenizer: building the matcher of special tokens: {e}"))?;
        Ok(Self { automaton: Some(automaton) })
    }

    /// Cuts `text` into ordinary text and tokens. User-defined tokens are always found; control tokens only where
    /// `parse_special`, and otherwise their text is ordinary text.
    pub fn split<'a>(&self, vocabulary: &Vocabulary, text: &'a str, parse_special: bool, mut each: impl FnMut(Piece<'a>)) {
        let mut from = 0;
        if let Some(automaton) = &self.automaton {
            for found in automaton.leftmost_find_iter(text) {
                let id = found.value();
                if !parse_special && vocabulary.kind(id) != Some(TokenType::UserDefined) {
                    continue;
                }
                // A vocabulary is UTF-8, so matches lie on borders of characters.
                let Some(before) = text.get(from..found.start()) else { continue };
                if !before.is_empty() {
                    each(Piece::Text(before));
                }
                each(Piece::Token(id));
                from = found.end();
            }
        }
        if let Some(rest) = text.get(from..).filter(|rest| !rest.is_empty()) {
            each(Piece::Text(rest));
        }
    }
}
