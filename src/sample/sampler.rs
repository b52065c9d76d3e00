//! The CPU's draw: what the page falls back to for chains or steps that the GPU leaves, and what the kernels are
//! tested against. The same seed and step draw the same token on both.

use super::chain::{log_softmax_at, process, softmax, sorted};
use super::options::{Processor, SamplingOptions};
use super::rng::{gumbel, gumbel_bits, uniform};
use crate::error::Result;

/// A sampled token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// Its id.
    pub token: u32,
    /// The natural log of its probability under the model's own distribution (before the chain).
    pub logprob: f32,
    /// How near the draw was to another outcome, for comparing implementations of less precision: the uniform's
    /// distance to the nearest border of the token's share, or the winner's lead over the second, divided by
    /// 1 + its score's magnitude, in a Gumbel draw; infinite where no other token could be drawn.
    pub margin: f64,
}

/// Draws tokens after checked options.
#[derive(Debug, Clone)]
pub struct CpuSampler {
    options: SamplingOptions,
    n_vocab: usize,
    seed: u64,
}

impl CpuSampler {
    /// A sampler for a vocabulary of `n_vocab`; `entropy` stands in where the options have no seed.
    /// Fails with `bad-option`.
    pub fn new(options: SamplingOptions, n_vocab: usize, entropy: u64) -> Result<Self> {
        options.validate(n_vocab)?;
        let seed = options.seed.unwrap_or(entropy);
        Ok(Self { options, n_vocab, seed })
    }

    /// The seed in use.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The options, checked.
    pub fn options(&self) -> &SamplingOptions {
        &self.options
    }

    /// The token of step `step` (0 for the request's first) from `n_vocab` logits and the ids before it.
    ///
    /// Without a selection it is the argmax of score + Gumbel noise, else the inverse CDF over what was kept, the
    /// most likely first. Fails with `internal` or `bad-option` as [`super::probabilities`] does.
    pub fn draw(&self, logits: &[f32], history: &[u32], step: u32) -> Result<Drawn> {
        if logits.len() != self.n_vocab {
            return Err(crate::err!(Internal, "sampling: expected {} logits, found {}", self.n_vocab, logits.len()));
        }
        let scores = process(logits, history, &self.options)?;
        let selects = self.options.active().any(|each| {
            matches!(each, Processor::TopP | Processor::MinP | Processor::TypicalP)
                || (each == Processor::TopK && (self.options.top_k as usize) < self.n_vocab)
        });
        let (id, margin) = if selects || self.options.is_greedy() {
            inverse_cdf(&scores, f64::from(uniform(self.seed, step)))
        } else {
            gumbel_max(&scores, self.seed, step)
        };
        let token = id as u32;
        let logprob = log_softmax_at(logits, token).unwrap_or(f64::NEG_INFINITY) as f32;
        Ok(Drawn { token, logprob, margin })
    }
}

fn inverse_cdf(scores: &[f64], u: f64) -> (usize, f64) {
    let ids = sorted(scores);
    let probabilities = softmax(scores);
    let mut below = 0.0;
    for (at, id) in ids.iter().enumerate() {
        let above = below + probabilities[*id];
        if u < above || at + 1 == ids.len() {
            let to_lower = if at == 0 { f64::INFINITY } else { u - below };
            let to_upper = if at + 1 == ids.len() { f64::INFINITY } else { above - u };
            return (*id, to_lower.min(to_upper));
        }
        below = above;
    }
    (0, 0.0) // not reached: the chain keeps at least one token
}

fn gumbel_max(scores: &[f64], seed: u64, step: u32) -> (usize, f64) {
    let (mut best, mut first, mut second) = (0, f64::NEG_INFINITY, f64::NEG_INFINITY);
    for (id, score) in scores.iter().enumerate() {
        let noisy = score + gumbel(gumbel_bits(seed, step, id as u32));
        if noisy > first {
            (best, first, second) = (id, noisy, first);
        } else {
            second = second.max(noisy);
        }
    }
    (best, (first - second) / (1.0 + first.abs()))
}
