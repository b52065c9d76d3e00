//! Logits and log-probabilities of a given text, without generating.

use serde::Serialize;

use super::load::Engine;
use super::prefill::Prefill;
use crate::err;
use crate::error::Result;
use crate::kernels::state::{Done, N_TOKENS};
use crate::sample::log_softmax_at;

/// How probable a text is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scored {
    /// The text's tokens.
    pub tokens: Vec<u32>,
    /// For each token but the first, the natural logarithm of its probability after those before it.
    pub logprobs: Vec<f64>,
    /// exp(-mean of `logprobs`)
    pub perplexity: f64,
}

impl Engine {
    /// The logits after the last token, or after every token: calls `each` with position and f32\[n_vocab\].
    ///
    /// # Errors
    /// `unsupported-architecture` for a model that does not generate, `bad-option` for an empty list or ids beyond the vocabulary, `context-overflow`, `bad-file` for weights that
    /// give no numbers, and what the device fails with.
    pub async fn logits(&mut self, ids: &[u32], all: bool, each: &mut dyn FnMut(u32, Vec<f32>) -> Result<()>) -> Result<()> {
        self.must_generate()?;
        let n_vocab = self.architecture().n_vocab;
        if ids.is_empty() {
            return Err(err!(BadOption, "ids: expected at least one token, found none"));
        }
        if let Some(id) = ids.iter().find(|id| **id >= n_vocab) {
            return Err(err!(BadOption, "ids: expected token ids below {n_vocab}, found {id}"));
        }
        self.forget();
        let result = self.rows(ids, all, each).await;
        // Nothing of this is kept: a generation starts from an empty cache.
        self.forget();
        self.settled(result)
    }

    /// The logits of tokens that fit, the cache being empty.
    async fn rows(&mut self, ids: &[u32], all: bool, each: &mut dyn FnMut(u32, Vec<f32>) -> Result<()>) -> Result<()> {
        let chunk = self.passes.prefill.last().map_or(1, |p| p.0) as usize;
        let (mut pos, mut run, never) = (0, Prefill::new(), || false);
        for part in ids.chunks(chunk) {
            let n = part.len() as u32;
            self.begin_pass(part, pos)?;
            self.write(self.plan.ids.state.id, 0, &[Done::Running as u32, pos, n])?;
            self.feed(&[self.pass(pos, n)?], pos + n, &mut run, &never).await?;
            self.settle(&mut run, &never).await?;
            // The head takes the last token of a pass, so each row in turn is called the last.
            let is_last = (pos + n) as usize == ids.len();
            let rows = if all { 1..=n } else { n..=if is_last { n } else { 0 } };
            for row in rows {
                self.write(self.plan.ids.state.id, N_TOKENS, &[row])?;
                self.gpu.submit(&[&self.passes.head]);
                each(pos + row - 1, self.read_logits().await?)?;
            }
            pos += n;
        }
        Ok(())
    }

    /// How probable each token of `ids` is after those before it. Errors as [`Self::logits`], and `bad-option` for fewer
    /// than two tokens.
    pub async fn score(&mut self, ids: &[u32]) -> Result<Scored> {
        if ids.len() < 2 {
            return Err(err!(BadOption, "score: expected at least two tokens, found {}", ids.len()));
        }
        let mut logprobs = Vec::with_capacity(ids.len() - 1);
        self.logits(ids, true, &mut |pos, logits| {
            if let Some(next) = ids.get(pos as usize + 1) {
                let logprob = log_softmax_at(&logits, *next).ok_or_else(|| err!(Internal, "a token beyond the logits"))?;
                logprobs.push(logprob);
            }
            Ok(())
        })
        .await?;
        let perplexity = (-logprobs.iter().sum::<f64>() / logprobs.len() as f64).exp();
        Ok(Scored { tokens: ids.to_vec(), logprobs, perplexity })
    }
}
