//! The twin of `sample_candidates` and `sample_candidates_strip`.

use super::Memory;
use crate::error::Result;
use crate::kernels::{Dispatch, state};
use crate::sample::{GPU_CANDIDATES, Mode, gumbel, gumbel_bits};

const LOWEST: f64 = -1e38;
const OUT: f64 = -1e37;

/// A block's record of 8 words and its candidates, the most likely first, for every block of the vocabulary.
pub fn sample_candidates(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let header = m.binding(d, 1)?.to_vec();
    if header[state::DONE] != 0 || header[state::MODE] == Mode::Cpu as u32 {
        return Ok(());
    }
    let float = |at: usize| f64::from(f32::from_bits(header[at]));
    let has = |flag: u32| header[state::FLAGS] & flag != 0;
    let &[n_vocab, _, block_len, _] = &d.params[..] else { return Ok(()) };
    let (logits, bias, counts) = (m.floats(d, 2)?, m.floats(d, 3)?, m.binding(d, 4)?.to_vec());
    let seed = u64::from(header[state::SEED_HI]) << 32 | u64::from(header[state::SEED_LO]);

    let score = |id: usize| {
        let mut score = f64::from(logits[id]);
        if has(state::FLAG_BIAS) {
            score += f64::from(bias[id]);
        }
        if score.is_nan() || score <= OUT || score == f64::INFINITY {
            return LOWEST;
        }
        if has(state::FLAG_PENALTIES) && counts[id] > 0 {
            let repetition = float(state::REPETITION);
            score = if score <= 0.0 { score * repetition } else { score / repetition };
            score -= f64::from(counts[id]) * float(state::FREQUENCY) + float(state::PRESENCE);
        }
        score
    };
    let noisy = |score: f64, id: u32| {
        if header[state::MODE] != Mode::Gumbel as u32 || score <= OUT {
            return score;
        }
        score * float(state::DRAW_SCALE) + gumbel(gumbel_bits(seed, header[state::STEP], id))
    };
    let (mut records, mut candidates) = (Vec::new(), Vec::new());
    for start in (0..n_vocab).step_by(block_len as usize) {
        let ids: Vec<u32> = (start..n_vocab.min(start + block_len)).collect();
        let raw: Vec<f64> = ids
            .iter()
            .map(|id| f64::from(logits[*id as usize]))
            .map(|raw| if raw.is_nan() || raw == f64::INFINITY { LOWEST } else { raw.max(LOWEST) })
            .collect();
        let scores: Vec<f64> = ids.iter().map(|id| score(*id as usize)).collect();
        let bad = ids.iter().filter(|id| logits[**id as usize].is_nan() || logits[**id as usize] == f32::INFINITY).count();
        let (mut best, mut best_id) = (LOWEST, 0xff_ffff);
        for (id, score) in ids.iter().zip(&scores) {
            if noisy(*score, *id) > best {
                (best, best_id) = (noisy(*score, *id), *id);
            }
        }
        let most = |values: &[f64]| values.iter().copied().fold(LOWEST, f64::max);
        let sum = |values: &[f64], scale: f64| {
            let top = most(values);
            values.iter().map(|value| ((value - top) * scale).exp()).sum::<f64>()
        };
        let mut present: Vec<(f64, u32)> = scores.iter().copied().zip(ids).filter(|entry| entry.0 > OUT).collect();
        let word = |value: f64| (value as f32).to_bits();
        records.extend([
            word(most(&raw)),
            word(sum(&raw, 1.0)),
            word(most(&scores)),
            word(sum(&scores, float(state::SELECT_SCALE))),
            word(best),
            best_id,
            present.len() as u32,
            bad as u32,
        ]);
        present.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        present.truncate(GPU_CANDIDATES as usize);
        candidates.extend(present.iter().flat_map(|(score, id)| [key(*score as f32), *id]));
        candidates.resize(records.len() / 8 * GPU_CANDIDATES as usize * 2, 0);
    }
    m.binding_mut(d, 5)?.copy_from_slice(&records);
    if header[state::MODE] == Mode::Restricted as u32 {
        m.binding_mut(d, 6)?.copy_from_slice(&candidates);
    }
    Ok(())
}

/// An unsigned integer in the order of the scores.
fn key(score: f32) -> u32 {
    let bits = if score == 0.0 { 0 } else { score.to_bits() };
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

/// [`key`]'s inverse.
pub(super) fn score(key: u32) -> f32 {
    f32::from_bits(if key >> 31 == 1 { key & !(1 << 31) } else { !key })
}
