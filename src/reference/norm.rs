//! The twin of `norm` and `norm_rows`.

use super::Memory;
use super::case::{Case, Noise};
use crate::err;
use crate::error::Result;
use crate::kernels::norm::{Into, Io, norm as build};
use crate::kernels::state::{DONE, N_TOKENS, STATE_BYTES, STATE_WORDS};
use crate::kernels::{Binding, Dispatch, Recording};
use crate::tensor::Tier;

/// RMS norm of each token's row, in f64.
pub fn norm(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let state = m.binding(d, 1)?;
    let &[vec4s, tokens, eps] = d.params.as_slice() else {
        return Err(err!(Internal, "norm: {} params", d.params.len()));
    };
    if state[DONE] != 0 {
        return Ok(());
    }
    let tokens = state[N_TOKENS].min(tokens) as usize;
    let (cols, eps) = (vec4s as usize * 4, f64::from(f32::from_bits(eps)));
    let add = d.variant.consts.contains(&("ADD", 1));
    let (a, w) = (m.floats(d, 2)?, m.floats(d, 3)?);
    let out = m.binding_mut(d, 4)?;
    for (a, out) in a.chunks_exact(cols).zip(out.chunks_exact_mut(cols)).take(tokens) {
        let squares: f64 = a.iter().map(|v| f64::from(*v).powi(2)).sum();
        let factor = 1.0 / (squares / cols as f64 + eps).sqrt();
        for ((a, w), out) in a.iter().zip(&w).zip(out) {
            let before = if add { f64::from(f32::from_bits(*out)) } else { 0.0 };
            *out = ((before + f64::from(*a) * f64::from(*w) * factor) as f32).to_bits();
        }
    }
    Ok(())
}

/// Odd sizes, both modes, rows of zeros and of large numbers. Normed values are below 4 here: the tolerance is four
/// units in the last place of 4.
pub fn cases(tier: Tier) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (cols, tokens) in [(32, 1), (36, 3), (576, 31), (640, 65), (2560, 2), (4096, 1)] {
        cases.push(case(tier, cols, (tokens, tokens), Into::Store, 1.0, 0)?);
    }
    cases.push(case(tier, 640, (17, 32), Into::Add, 1.0, 0)?);
    cases.push(case(tier, 640, (3, 3), Into::Add, 3000.0, 0)?);
    cases.push(case(tier, 64, (2, 2), Into::Store, 0.0, 0)?);
    cases.push(case(tier, 64, (2, 2), Into::Store, 1.0, 1)?);
    Ok(cases)
}

fn case(tier: Tier, cols: u32, tokens: (u32, u32), into: Into, scale: f32, done: u32) -> Result<Case> {
    let mut noise = Noise(u64::from(cols));
    let mut memory = Memory::default();
    let mut words = vec![0; STATE_WORDS];
    (words[DONE], words[N_TOKENS]) = (done, tokens.0);
    let n = (tokens.1 * cols) as usize;
    let state = memory.push(words);
    let a = memory.push_f32(&noise.floats(n).iter().map(|v| v * scale).collect::<Vec<_>>());
    let weights = memory.push_f32(&noise.floats(cols as usize));
    let out = memory.push_f32(&noise.floats(n));
    let bytes = n as u64 * 4;
    let io = Io {
        state: Binding::read(state, 0, STATE_BYTES),
        a: Binding::read(a, 0, bytes),
        weights: Binding::read(weights, 0, u64::from(cols) * 4),
        out: Binding::read_write(out, 0, bytes),
        tokens: tokens.1,
        cols,
    };
    Ok(Case {
        name: format!("norm {cols} T={}/{} {into:?} x{scale} done={done}", tokens.0, tokens.1),
        recording: Recording { dispatches: vec![build(tier, io, 1e-5, into)?] },
        memory,
        outputs: vec![(out, 2e-6)],
    })
}
