//! The chain of logit processors, plainly: dense f64 logits of length `n_vocab`, where minus infinity means "not
//! kept". A selection looks at the softmax of what its predecessors left, so the order matters. Every selection keeps
//! at least one token.

use super::options::{Processor, SamplingOptions};
use crate::error::Result;
use std::cmp::Ordering;

/// The distribution after the whole chain: `n_vocab` probabilities that sum to 1; 0 where a token was cut.
///
/// `logits` are the model's (`n_vocab` of them), `history` the ids of prompt and answer so far, oldest first.
/// Fails with `internal` where the logits hold NaN or plus infinity or nothing but minus infinity, and with
/// `bad-option` where an option is out of range or the bias bans every token.
pub fn probabilities(logits: &[f32], history: &[u32], options: &SamplingOptions) -> Result<Vec<f64>> {
    options.validate(logits.len())?;
    Ok(softmax(&process(logits, history, options)?))
}

/// The logits after the whole chain, for options that were checked before. Errors as in [`probabilities`].
pub fn process(logits: &[f32], history: &[u32], options: &SamplingOptions) -> Result<Vec<f64>> {
    check(logits)?;
    let mut scores: Vec<f64> = logits.iter().map(|logit| f64::from(*logit)).collect();
    let counts = if options.has_penalties() { counts(options.window(history), scores.len())? } else { Vec::new() };
    for processor in options.active() {
        match processor {
            Processor::LogitBias => logit_bias(&mut scores, &options.logit_bias)?,
            Processor::RepetitionPenalty => repetition_penalty(&mut scores, &counts, options.repetition_penalty),
            Processor::FrequencyPenalty => frequency_penalty(&mut scores, &counts, options.frequency_penalty),
            Processor::PresencePenalty => presence_penalty(&mut scores, &counts, options.presence_penalty),
            Processor::TopK => top_k(&mut scores, options.top_k),
            Processor::TypicalP => typical_p(&mut scores, options.typical_p),
            Processor::TopP => top_p(&mut scores, options.top_p),
            Processor::MinP => min_p(&mut scores, options.min_p),
            Processor::Temperature if options.is_greedy() => top_k(&mut scores, 1),
            Processor::Temperature => temperature(&mut scores, options.temperature),
        }
    }
    Ok(scores)
}

fn check(logits: &[f32]) -> Result<()> {
    if let Some(id) = logits.iter().position(|logit| logit.is_nan() || *logit == f32::INFINITY) {
        let found = logits[id];
        return Err(crate::err!(
            Internal,
            "sampling: expected logits below infinity, found {found} for token {id}: the model's arithmetic overflowed"
        ));
    }
    if logits.iter().all(|logit| *logit == f32::NEG_INFINITY) {
        let n = logits.len();
        return Err(crate::err!(Internal, "sampling: expected a token to choose, found {n} logits and no finite one"));
    }
    Ok(())
}

/// How often each token occurs in `seen`. A window of the engine's own tokens, so ids beyond the vocabulary are a defect.
fn counts(seen: &[u32], n_vocab: usize) -> Result<Vec<u32>> {
    let mut counts = vec![0; n_vocab];
    for id in seen {
        match usize::try_from(*id).ok().and_then(|id| counts.get_mut(id)) {
            Some(count) => *count += 1,
            None => return Err(crate::err!(BadOption, "history: expected token ids below {n_vocab}, found {id}")),
        }
    }
    Ok(counts)
}

fn logit_bias(scores: &mut [f64], bias: &[(u32, f32)]) -> Result<()> {
    for (id, bias) in bias {
        if let Some(score) = scores.get_mut(*id as usize) {
            *score += f64::from(*bias);
        }
    }
    if scores.iter().all(|score| *score == f64::NEG_INFINITY) {
        return Err(crate::err!(BadOption, "logitBias: expected at least one token that is not banned, found none"));
    }
    Ok(())
}

fn repetition_penalty(scores: &mut [f64], counts: &[u32], penalty: f32) {
    for (score, count) in scores.iter_mut().zip(counts) {
        if *count > 0 {
            *score = if *score <= 0.0 { *score * f64::from(penalty) } else { *score / f64::from(penalty) };
        }
    }
}

fn frequency_penalty(scores: &mut [f64], counts: &[u32], penalty: f32) {
    for (score, count) in scores.iter_mut().zip(counts) {
        *score -= f64::from(*count) * f64::from(penalty);
    }
}

fn presence_penalty(scores: &mut [f64], counts: &[u32], penalty: f32) {
    for (score, count) in scores.iter_mut().zip(counts) {
        if *count > 0 {
            *score -= f64::from(penalty);
        }
    }
}

fn temperature(scores: &mut [f64], temperature: f32) {
    for score in scores {
        *score /= f64::from(temperature);
    }
}

/// Exactly k, as llama.cpp does it; transformers keeps every token tied with the k-th. Among equals the lowest ids.
fn top_k(scores: &mut [f64], k: u32) {
    let mut ids = kept(scores);
    let k = k as usize;
    if k < ids.len() {
        ids.select_nth_unstable_by(k, |a, b| by_score(scores, *a, *b));
        cut(scores, &ids[k..]);
    }
}

fn top_p(scores: &mut [f64], p: f32) {
    let ids = sorted(scores);
    let probabilities = softmax(scores);
    cut(scores, &ids[prefix_with_mass(&ids, &probabilities, p)..]);
}

fn min_p(scores: &mut [f64], min_p: f32) {
    // p_i / p_max >= min_p, in logits: no division by an underflowed probability.
    let least = max(scores) + f64::from(min_p).ln();
    for score in scores {
        if *score < least {
            *score = f64::NEG_INFINITY;
        }
    }
}

/// Tokens of probability 0 take no part: 0 * ln 0 counts as 0 in the entropy (transformers' `nansum`; llama.cpp gets NaN).
fn typical_p(scores: &mut [f64], p: f32) {
    let probabilities = softmax(scores);
    let entropy: f64 = probabilities.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
    let distance: Vec<f64> = probabilities.iter().map(|p| (-p.ln() - entropy).abs()).collect();
    let mut ids = kept(scores);
    ids.sort_unstable_by(|a, b| distance[*a].total_cmp(&distance[*b]).then(a.cmp(b)));
    cut(scores, &ids[prefix_with_mass(&ids, &probabilities, p)..]);
}

/// The length (at least 1) of the shortest prefix of `ids` that holds the mass `p`.
fn prefix_with_mass(ids: &[usize], probabilities: &[f64], p: f32) -> usize {
    let mut mass = 0.0;
    for (at, id) in ids.iter().enumerate() {
        mass += probabilities[*id];
        if mass >= f64::from(p) {
            return at + 1;
        }
    }
    ids.len()
}

fn cut(scores: &mut [f64], ids: &[usize]) {
    for id in ids {
        scores[*id] = f64::NEG_INFINITY;
    }
}

fn kept(scores: &[f64]) -> Vec<usize> {
    (0..scores.len()).filter(|id| scores[*id] > f64::NEG_INFINITY).collect()
}

fn by_score(scores: &[f64], a: usize, b: usize) -> Ordering {
    scores[b].partial_cmp(&scores[a]).unwrap_or(Ordering::Equal).then(a.cmp(&b))
}

/// The ids that are kept: the most likely first, among equals the lowest id first.
pub(super) fn sorted(scores: &[f64]) -> Vec<usize> {
    let mut ids = kept(scores);
    ids.sort_unstable_by(|a, b| by_score(scores, *a, *b));
    ids
}

fn max(scores: &[f64]) -> f64 {
    scores.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// exp(s_i) / sum exp(s_j), with the maximum taken out first.
pub fn softmax(scores: &[f64]) -> Vec<f64> {
    let max = max(scores);
    let mut out: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
    let sum: f64 = out.iter().sum();
    for p in &mut out {
        *p /= sum;
    }
    out
}

fn log_sum_exp(logits: &[f32]) -> f64 {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    max + logits.iter().map(|logit| (f64::from(*logit) - max).exp()).sum::<f64>().ln()
}

/// The natural log of token `id`'s probability under the model's own distribution: raw logits at temperature 1,
/// before bias, penalties and selections, as `onToken`'s `logprob` reports it. `None` beyond the vocabulary.
pub fn log_softmax_at(logits: &[f32], id: u32) -> Option<f64> {
    Some(f64::from(*logits.get(id as usize)?) - log_sum_exp(logits))
}

/// The `n` most likely tokens under the model's own distribution with their log probabilities, the most likely first.
/// Errors as in [`probabilities`].
pub fn top_logprobs(logits: &[f32], n: usize) -> Result<Vec<(u32, f64)>> {
    check(logits)?;
    let scores: Vec<f64> = logits.iter().map(|logit| f64::from(*logit)).collect();
    let sum = log_sum_exp(logits);
    Ok(sorted(&scores).into_iter().take(n).map(|id| (id as u32, scores[id] - sum)).collect())
}
