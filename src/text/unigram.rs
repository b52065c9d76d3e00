//! Unigram vocabularies (`t5`): of all ways to make a text from tokens, the one with the highest sum of scores.

use daachorse::{DoubleArrayAhoCorasick, DoubleArrayAhoCorasickBuilder, MatchKind};

use super::charsmap::CharsMap;
use super::vocabulary::{SPACE, TokenType, Vocabulary, byte_of};
use crate::err;
use crate::error::Result;

/// How much less likely than the least likely token an unknown character is.
const UNKNOWN_PENALTY: f64 = 10.0;

/// A unigram model.
pub(super) struct Unigram {
    automaton: DoubleArrayAhoCorasick<u32>,
    scores: Vec<f32>,
    unknown: u32,
    unknown_score: f64,
    /// The byte tokens, by byte, where there are all of them.
    bytes: Option<Vec<u32>>,
    /// Whether some token has a space behind another character, so that texts cannot be cut there.
    crosses: bool,
    map: Option<CharsMap>,
    /// Whether runs of spaces are one, and none begins or ends a text.
    one_space: bool,
}

/// The best way to make a text up to some place: its score, and where its last token starts.
#[derive(Clone, Copy)]
struct Node {
    score: f64,
    start: u32,
    id: u32,
}

impl Unigram {
    /// A model of the vocabulary's ordinary tokens. `map`: what the text is normalized by. Error: `bad-file` where there is
    /// no unknown token.
    pub fn new(vocabulary: &Vocabulary, scores: Vec<f32>, map: Option<CharsMap>, one_space: bool) -> Result<Self> {
        let mut patterns = Vec::new();
        let mut bytes = vec![None; 256];
        let mut lowest = f64::INFINITY;
        let mut crosses = false;
        for (id, text) in (0u32..).zip(vocabulary.texts.iter()).filter(|(_, text)| !text.is_empty()) {
            match vocabulary.kind(id) {
                Some(TokenType::Normal | TokenType::UserDefined) => {
                    patterns.push((text, id));
                    lowest = lowest.min(f64::from(scores[id as usize]));
                    crosses |= text.char_indices().any(|(at, c)| c == SPACE && at > 0 && !text[..at].ends_with(SPACE));
                }
                Some(TokenType::Byte) => {
                    if let Some(byte) = byte_of(text) {
                        bytes[usize::from(byte)] = Some(id);
                    }
                }
                _ => {}
            }
        }
        let unknown = vocabulary.unknown.ok_or_else(|| {
            err!(BadFile, "tokenizer: expected tokenizer.ggml.unknown_token_id, without which there is no unigram")
        })?;
        if patterns.is_empty() {
            return Err(err!(BadFile, "tokenizer: expected ordinary tokens, found none"));
        }
        let automaton = DoubleArrayAhoCorasickBuilder::new().match_kind(MatchKind::Standard).build_with_values(patterns);
        let automaton = automaton.map_err(|e| err!(BadFile, "tokenizer: building the matcher of tokens: {e}"))?;
        let bytes = bytes.into_iter().collect();
        Ok(Self { automaton, scores, unknown, unknown_score: lowest - UNKNOWN_PENALTY, bytes, crosses, map, one_space })
    }

    /// Appends the ids of `text`, before which a space goes where `prefix`.
    pub fn encode(&self, text: &str, prefix: bool, ids: &mut Vec<u32>) {
        let mut text = match &self.map {
            Some(map) => map.apply(text),
            None => text.to_owned(),
        };
        if self.one_space {
            text = text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        }
        if text.is_empty() {
            return;
        }
        let mut spaced = String::with_capacity(text.len() + 8);
        if prefix && !text.starts_with([' ', SPACE]) {
            spaced.push(SPACE);
        }
        spaced.extend(text.chars().map(|c| if c == ' ' { SPACE } else { c }));
        let mut from = 0;
        let mut previous = SPACE;
        for (at, c) in spaced.char_indices() {
            if !self.crosses && c == SPACE && previous != SPACE {
                self.encode_part(&spaced[from..at], ids);
                from = at;
            }
            previous = c;
        }
        self.encode_part(&spaced[from..], ids);
    }

    fn encode_part(&self, text: &str, ids: &mut Vec<u32>) {
        const NONE: Node = Node { score: 0.0, start: u32::MAX, id: 0 };
        let mut best = vec![NONE; text.len() + 1];
        let mut matches = self.automaton.find_overlapping_iter(text).peekable();
        for (start, c) in text.char_indices() {
            let end = start + c.len_utf8();
            let mut single = false;
            // Of equal ways the one whose last token is the longest stays, as in Hugging Face's.
            let better = |node: &mut Node, score: f64, start: usize, id: u32| {
                let start = start as u32;
                if node.start == u32::MAX || score > node.score || (score == node.score && start < node.start) {
                    *node = Node { score, start, id };
                }
            };
            while let Some(found) = matches.next_if(|found| found.end() <= end) {
                single |= found.start() == start;
                let score = best[found.start()].score + f64::from(self.scores[found.value() as usize]);
                better(&mut best[end], score, found.start(), found.value());
            }
            if !single {
                let score = best[start].score + self.unknown_score;
                better(&mut best[end], score, start, self.unknown);
            }
        }
        // From the end to the beginning; unknown characters side by side are one token.
        let first = ids.len();
        let mut end = text.len();
        let mut unknown_to = None;
        while end > 0 {
            let node = best[end];
            let start = node.start as usize;
            if node.id == self.unknown {
                let to = *unknown_to.get_or_insert(end);
                if start == 0 || best[start].id != self.unknown {
                    match &self.bytes {
                        Some(bytes) => ids.extend(text.as_bytes()[start..to].iter().rev().map(|b| bytes[usize::from(*b)])),
                        None => ids.push(self.unknown),
                    }
                    unknown_to = None;
                }
            } else {
                ids.push(node.id);
            }
            end = start;
        }
        ids[first..].reverse();
    }
}
