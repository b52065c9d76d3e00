//! Byte-pair merging, by `tokenizers`' `BPE`: its vocabulary and merges, from what GGUF files hold.

use tokenizers::Model as _;
use tokenizers::models::bpe::{BPE, Merges, Vocab};

use super::vocabulary::{Model, SPACE, TokenType, Vocabulary};
use crate::err;
use crate::error::Result;
use crate::gguf::Strings;

/// The most merges: twice the most in use (Gemma's 514,906). Each takes some 250 bytes while the tokenizer is made.
const MAX_MERGES: usize = 1 << 20;

/// The longest SentencePiece token, in bytes: three times the longest in use. Each place to cut it is tried.
const MAX_PIECE: usize = 256;

/// A BPE model.
pub(super) struct Bpe {
    model: BPE,
    /// Characters that stand before U+2581 inside some mergeable token, sorted.
    before_space: Vec<char>,
}

impl Bpe {
    /// Byte-level BPE: `merges` holds `"left right"` in order of rank. `whole_first`: a piece that is a token as it
    /// stands is not merged (Llama 3).
    pub fn byte_level(vocabulary: &Vocabulary, merges: Strings, whole_first: bool) -> Result<Self> {
        let vocab = vocab(vocabulary)?;
        let pairs = pairs(&vocab, &merges)?;
        drop(merges);
        let builder = BPE::builder().vocab_and_merges(vocab, pairs).ignore_merges(whole_first);
        // No cache: it is per thread, and would outlive the model.
        let model = builder.cache_capacity(0).build().map_err(|e| err!(BadFile, "tokenizer: {e}"))?;
        Ok(Self { model, before_space: Vec::new() })
    }

    /// SentencePiece BPE, in the order of a list of merges or of scores.
    pub fn sentence_piece(vocabulary: &Vocabulary, order: Order) -> Result<Self> {
        let vocab = vocab(vocabulary)?;
        let merges = match order {
            Order::Merges(merges) => pairs(&vocab, &merges)?,
            Order::Scores(scores) => by_score(vocabulary, &vocab, &scores)?,
        };
        let mut before_space = Vec::new();
        for text in (0u32..).zip(vocabulary.texts.iter()).filter(|(id, _)| mergeable(vocabulary, *id)).map(|(_, text)| text) {
            let inside = text.chars().zip(text.chars().skip(1)).filter(|(before, c)| *c == SPACE && *before != SPACE);
            before_space.extend(inside.map(|(before, _)| before));
        }
        before_space.sort_unstable();
        before_space.dedup();
        let mut builder = BPE::builder().vocab_and_merges(vocab, merges).byte_fallback(true).fuse_unk(true).cache_capacity(0);
        if let Some(unknown) = vocabulary.unknown.and_then(|id| vocabulary.text(id)) {
            builder = builder.unk_token(unknown.to_owned());
        }
        let model = builder.build().map_err(|e| err!(BadFile, "tokenizer: {e}"))?;
        Ok(Self { model, before_space })
    }

    /// Appends the ids of `text`, which merging may go all across.
    pub fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let tokens = self.model.tokenize(text).map_err(|e| err!(BadFile, "tokenizer: {e}"))?;
        ids.extend(tokens.iter().map(|token| token.id));
        Ok(())
    }

    /// Appends the ids of a SentencePiece text, in parts. Hugging Face merges it as one word, which takes 100 bytes of
    /// memory for each of text; no token of the vocabulary goes across the borders used here, so the ids are the same.
    pub fn encode_parts(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let mut from = 0;
        let mut previous = SPACE;
        for (at, c) in text.char_indices() {
            if c == SPACE && previous != SPACE && self.before_space.binary_search(&previous).is_err() {
                self.encode(&text[from..at], ids)?;
                from = at;
            }
            previous = c;
        }
        if from < text.len() { self.encode(&text[from..], ids) } else { Ok(()) }
    }
}

/// Where the order of SentencePiece merges comes from.
pub(super) enum Order {
    /// A list of `"left right"`, the first going first.
    Merges(Strings),
    /// The tokens' scores.
    Scores(Vec<f32>),
}

/// Whether a token takes part in SentencePiece's merging.
fn mergeable(vocabulary: &Vocabulary, id: u32) -> bool {
    matches!(vocabulary.kind(id), Some(TokenType::Normal | TokenType::UserDefined))
}

/// Merges of `"left right"`, whose parts and wholes must be tokens.
fn pairs(vocab: &Vocab, merges: &Strings) -> Result<Merges> {
    if merges.len() > MAX_MERGES {
        return Err(err!(BadFile, "tokenizer: expected at most {MAX_MERGES} merges, found {}", merges.len()));
    }
    let mut pairs = Merges::with_capacity(merges.len());
    let mut joined = String::new();
    for (rank, merge) in merges.iter().enumerate() {
        // No byte-level token but a lone space has a space in it.
        let at = merge.char_indices().skip(1).find(|(_, c)| *c == ' ').map(|(at, _)| at);
        let (left, right) = match at {
            Some(at) => (&merge[..at], &merge[at + 1..]),
            None => return Err(err!(BadFile, "tokenizer.ggml.merges {rank}: expected two tokens, found {merge:?}")),
        };
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        // `BPE` itself would panic on a merge longer than every token.
        for part in [left, right, &joined] {
            if !vocab.contains_key(part) {
                return Err(err!(BadFile, "tokenizer.ggml.merges {rank}: {merge:?} needs {part:?}, which is no ordinary token"));
            }
        }
        pairs.push((left.to_owned(), right.to_owned()));
    }
    Ok(pairs)
}

/// Every way to make a token from two others is a merge; the token with the higher score goes first, then the longer left part, as
/// in Hugging Face's converter, whose list for Gemma this reproduces.
fn by_score(vocabulary: &Vocabulary, vocab: &Vocab, scores: &[f32]) -> Result<Merges> {
    let in_merges = |text: &str| vocab.get(text).is_some_and(|&id| mergeable(vocabulary, id));

    struct Merge {
        score: f32,
        id: u32,
        // In characters, for the order, and in bytes, for the cut.
        left_chars: u16,
        right_chars: u16,
        left: u16,
    }
    let mut found = Vec::new();
    for (id, text) in (0u32..).zip(vocabulary.texts.iter()).filter(|(id, _)| mergeable(vocabulary, *id)) {
        if text.len() > MAX_PIECE {
            return Err(err!(
                BadFile,
                "tokenizer: expected tokens of at most {MAX_PIECE} bytes, found {} in token {id}",
                text.len()
            ));
        }
        // The original gives user-defined tokens the score 0, the highest; converters write another.
        let score = if vocabulary.kind(id) == Some(TokenType::UserDefined) { 0.0 } else { scores[id as usize] };
        let chars = text.chars().count();
        for (i, (at, _)) in text.char_indices().enumerate() {
            let cut = i > 0 && in_merges(&text[..at]) && in_merges(&text[at..]);
            if cut {
                found.push(Merge { score, id, left_chars: i as u16, right_chars: (chars - i) as u16, left: at as u16 });
            }
        }
        if found.len() > MAX_MERGES {
            return Err(err!(BadFile, "tokenizer: expected at most {MAX_MERGES} merges, found more"));
        }
    }
    // Stable, so that equals stay in the order of ids. `+ 0.0` makes -0 a 0, which `total_cmp` tells apart.
    let key = |m: &Merge| (m.left_chars, m.right_chars);
    found.sort_by(|a, b| (b.score + 0.0).total_cmp(&(a.score + 0.0)).then_with(|| key(b).cmp(&key(a))));
    let cut = |m: Merge| {
        let (left, right) = vocabulary.text(m.id).unwrap_or("").split_at(m.left as usize);
        (left.to_owned(), right.to_owned())
    };
    Ok(found.into_iter().map(cut).collect())
}

/// Token texts to ids, of the tokens that ordinary text can become. Control tokens are left out, so that no text can
/// be merged into one.
fn vocab(vocabulary: &Vocabulary) -> Result<Vocab> {
    let mut vocab = Vocab::with_capacity(vocabulary.len());
    for (id, text) in (0u32..).zip(vocabulary.texts.iter()) {
        let ordinary = match vocabulary.kind(id) {
            Some(TokenType::Control | TokenType::Unused) | None => false,
            Some(TokenType::Unknown) => vocabulary.model == Model::SentencePiece,
            Some(TokenType::Normal | TokenType::UserDefined | TokenType::Byte) => true,
        };
        if !ordinary || text.is_empty() {
            continue;
        }
        if let Some(first) = vocab.insert(text.to_owned(), id) {
            return Err(err!(BadFile, "tokenizer.ggml.tokens: {text:?} is both token {first} and token {id}"));
        }
    }
    Ok(vocab)
}
