//! The twin of `norm` and `norm_rows`.

use super::Memory;
use super::case::{Case, Noise};
use crate::err;
use crate::error::Result;
use crate::kernels::norm::{Into, Io, Norm, NormKind, norm as build};
use crate::kernels::state::{DONE, N_TOKENS, STATE_BYTES, STATE_WORDS};
use crate::kernels::{Binding, Dispatch, Recording};
use crate::tensor::Tier;

/// The norm of each token's row, in f64.
pub fn norm(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let state = m.binding(d, 1)?;
    let &[vec4s, tokens, eps, offset, stride, w_at, b_at] = d.params.as_slice() else {
        return Err(err!(Internal, "norm: {} params", d.params.len()));
    };
    if state[DONE] != 0 {
        return Ok(());
    }
    let tokens = state[N_TOKENS].min(tokens) as usize;
    let (cols, eps) = (vec4s as usize * 4, f64::from(f32::from_bits(eps)));
    let (offset, stride) = (offset as usize * 4, stride as usize * 4);
    let constant = |name| d.variant.consts.iter().find(|c| c.0 == name).map_or(0, |c| c.1);
    let (a, small) = (m.floats(d, 2)?, m.floats(d, 3)?);
    let (w, b) = (&small[w_at as usize * 4..], &small[b_at as usize * 4..]);
    let out = m.binding_mut(d, 4)?;
    for t in 0..tokens {
        let out = &mut out[offset + t * stride..][..cols];
        let row: Vec<f64> = match constant("INTO") {
            2 => out.iter().map(|v| f64::from(f32::from_bits(*v))).collect(),
            _ => a[t * cols..][..cols].iter().map(|v| f64::from(*v)).collect(),
        };
        let mean = |sum: f64| sum / cols as f64;
        let centre = if constant("LAYER") == 1 { mean(row.iter().sum()) } else { 0.0 };
        let factor = 1.0 / (mean(row.iter().map(|v| (v - centre).powi(2)).sum()) + eps).sqrt();
        for (k, (v, out)) in row.iter().zip(out).enumerate() {
            let bias = if constant("BIAS") == 1 { f64::from(b[k]) } else { 0.0 };
            let before = if constant("INTO") == 1 { f64::from(f32::from_bits(*out)) } else { 0.0 };
            *out = ((before + (v - centre) * f64::from(w[k]) * factor + bias) as f32).to_bits();
        }
    }
    Ok(())
}

/// Odd sizes, every mode, rows of zeros, of large numbers, far from 0, and rows within longer ones. Normed values are below 4 here:
/// the tolerance is four units in the last place of 4, and more where the rows' mean is larger than what differs from it.
pub fn cases(tier: Tier) -> Result<Vec<Case>> {
    let plain =
        Spec { cols: 32, tokens: (1, 1), kind: NormKind::Rms, bias: false, into: Into::Store, scale: 1.0, mean: 0.0, done: 0 };
    let layer = Spec { kind: NormKind::Layer, bias: true, ..plain };
    let mut specs: Vec<Spec> = [(32, 1), (36, 3), (576, 31), (2560, 2), (4096, 1)]
        .map(|(cols, tokens)| Spec { cols, tokens: (tokens, tokens), ..plain })
        .into();
    specs.extend([
        Spec { cols: 640, tokens: (17, 32), into: Into::Add, ..plain },
        Spec { cols: 640, tokens: (3, 3), into: Into::Add, scale: 3000.0, ..plain },
        Spec { cols: 640, tokens: (17, 32), into: Into::InPlace, ..plain },
        Spec { cols: 640, tokens: (65, 65), ..layer },
        Spec { cols: 36, tokens: (3, 4), into: Into::InPlace, mean: 5.0, ..layer },
        Spec { cols: 2560, tokens: (2, 2), into: Into::Add, scale: 3000.0, bias: false, ..layer },
        Spec { cols: 64, tokens: (2, 2), scale: 0.0, ..plain },
        Spec { cols: 64, tokens: (2, 2), done: 1, ..plain },
    ]);
    specs.iter().map(|spec| spec.case(tier)).collect()
}

struct Spec {
    cols: u32,
    /// In the pass, and in the buffers.
    tokens: (u32, u32),
    kind: NormKind,
    bias: bool,
    into: Into,
    /// What is normed: noise times scale, plus mean.
    scale: f32,
    mean: f32,
    done: u32,
}

impl Spec {
    fn case(&self, tier: Tier) -> Result<Case> {
        let &Self { cols, tokens, kind, into, scale, mean, done, .. } = self;
        let mut noise = Noise(u64::from(cols));
        let mut memory = Memory::default();
        let mut words = vec![0; STATE_WORDS];
        (words[DONE], words[N_TOKENS]) = (done, tokens.0);
        let state = memory.push(words);
        // In place: in the middle of longer rows.
        let in_place = into == Into::InPlace;
        let (offset, stride) = if in_place { (64, 2 * cols + 64) } else { (0, cols) };
        let mut rows = |n: u32, is_input: bool| {
            let mut rows = noise.floats(n as usize);
            rows.iter_mut().filter(|_| is_input).for_each(|v| *v = *v * scale + mean);
            memory.push_f32(&rows)
        };
        let out = rows(tokens.1 * stride, in_place);
        let a = if in_place { out } else { rows(tokens.1 * cols, true) };
        // The bias lies before the weights, each from a place of its own on.
        let padded = cols.next_multiple_of(64);
        let small = memory.push_f32(&noise.floats((padded + cols) as usize));
        let vector = u64::from(cols) * 4;
        let io = Io {
            state: Binding::read(state, 0, STATE_BYTES),
            a: Binding::read(a, 0, u64::from(tokens.1) * vector),
            weights: Binding::read(small, u64::from(padded) * 4, vector),
            bias: self.bias.then_some(Binding::read(small, 0, vector)),
            out: Binding::read_write(out, 0, u64::from(tokens.1 * stride) * 4),
            offset,
            stride,
            tokens: tokens.1,
            cols,
        };
        Ok(Case {
            name: format!(
                "norm {kind:?} {cols} T={}/{} bias={} {into:?} x{scale}+{mean} done={done}",
                tokens.0, tokens.1, self.bias
            ),
            recording: Recording { dispatches: vec![build(tier, io, Norm { kind, eps: 1e-5 }, into)?] },
            memory,
            outputs: vec![(out, 2e-6 * (1.0 + mean))],
        })
    }
}
