//! The twin of `short_conv`.

use super::Memory;
use super::case::{Case, Noise};
use crate::err;
use crate::error::Result;
use crate::kernels::short_conv::{Io, ShortConv, short_conv as build};
use crate::kernels::state::{DONE, N_TOKENS, POS, STATE_BYTES, STATE_WORDS};
use crate::kernels::{Binding, Dispatch, Recording};
use crate::tensor::Tier;

/// x · sigmoid(x)
pub(super) fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// The convolution of each channel, in f64.
pub fn short_conv(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let state = m.binding(d, 1)?;
    let &[channels, stride, tokens] = d.params.as_slice() else {
        return Err(err!(Internal, "short_conv: {} params", d.params.len()));
    };
    if state[DONE] != 0 {
        return Ok(());
    }
    let (tokens, fresh) = (state[N_TOKENS].min(tokens) as usize, state[POS] == 0);
    let (channels, stride) = (channels as usize, stride as usize);
    let gated = d.variant.consts.contains(&("GATED", 1));
    let (rows, weights, past) = (m.floats(d, 2)?, m.floats(d, 3)?, m.floats(d, 4)?);
    let taps = weights.len() / channels;
    for c in 0..channels {
        let at = |t: usize, part: usize| f64::from(rows[t * stride + part * channels + c]);
        let before = (0..taps - 1).map(|j| if fresh { 0.0 } else { f64::from(past[j * channels + c]) });
        let inputs: Vec<f64> = before.chain((0..tokens).map(|t| if gated { at(t, 0) * at(t, 2) } else { at(t, 0) })).collect();
        for t in 0..tokens {
            let sum: f64 = (0..taps).map(|j| f64::from(weights[c * taps + j]) * inputs[t + j]).sum();
            let y = if gated { at(t, 1) * sum } else { silu(sum) };
            m.binding_mut(d, 5)?[t * channels + c] = (y as f32).to_bits();
        }
        for j in 0..taps - 1 {
            m.binding_mut(d, 4)?[j * channels + c] = (inputs[tokens + j] as f32).to_bits();
        }
    }
    Ok(())
}

/// Both modes, at the start of a sequence (with NaN in what must not be read) and later, fewer tokens than taps, one tap.
pub fn cases(tier: Tier) -> Result<Vec<Case>> {
    let gated = |channels, taps| ShortConv { channels, taps, gated: true };
    let plain = |channels, taps| ShortConv { channels, taps, gated: false };
    Ok(vec![
        case(tier, gated(96, 3), 288, (0, 7), 9, 0)?,
        case(tier, gated(96, 3), 288, (5, 1), 1, 0)?,
        case(tier, plain(65, 4), 70, (3, 2), 2, 0)?,
        case(tier, plain(128, 4), 200, (0, 3), 3, 0)?,
        case(tier, plain(32, 8), 32, (64, 33), 64, 0)?,
        case(tier, gated(32, 1), 100, (1, 2), 2, 0)?,
        case(tier, plain(32, 2), 32, (4, 1), 1, 1)?,
    ])
}

fn case(tier: Tier, shape: ShortConv, stride: u32, (pos, n): (u32, u32), tokens: u32, done: u32) -> Result<Case> {
    let mut noise = Noise(u64::from(shape.channels + 7 * shape.taps));
    let mut memory = Memory::default();
    let mut words = vec![0; STATE_WORDS];
    (words[DONE], words[POS], words[N_TOKENS]) = (done, pos, n);
    let state = memory.push(words);
    let rows = memory.push_f32(&noise.floats((tokens * stride) as usize));
    let weights = memory.push_f32(&noise.floats((shape.channels * shape.taps) as usize));
    let past_len = shape.past_len().max(4) as usize;
    let past = if pos == 0 { vec![f32::NAN; past_len] } else { noise.floats(past_len) };
    let past = memory.push_f32(&past);
    let out = memory.push_f32(&noise.floats((tokens * shape.channels) as usize));
    let io = Io {
        state: Binding::read(state, 0, STATE_BYTES),
        rows: Binding::read(rows, 0, u64::from(tokens * stride) * 4),
        stride,
        weights: Binding::read(weights, 0, u64::from(shape.channels * shape.taps) * 4),
        past: Binding::read_write(past, 0, past_len as u64 * 4),
        out: Binding::read_write(out, 0, u64::from(tokens * shape.channels) * 4),
        tokens,
    };
    Ok(Case {
        name: format!("short_conv {shape:?} pos={pos} T={n}/{tokens} done={done}"),
        recording: Recording { dispatches: vec![build(tier, shape, io)?] },
        memory,
        outputs: vec![(out, 2e-6), (past, 1e-6)],
    })
}
