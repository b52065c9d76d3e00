//! The twin of `experts` and `experts_rows`.

use super::Memory;
use super::activation::activation;
use super::case::{Case, Noise};
use super::weights::{clear_floats, decode_row, fill_matrix, formats_of, round, rounds};
use crate::err;
use crate::error::Result;
use crate::kernels::experts::{Io, KINDS_AT, Picks, Place, Run, Step, experts as build};
use crate::kernels::parts::Activation;
use crate::kernels::state::{DONE, N_TOKENS, STATE_BYTES, STATE_WORDS};
use crate::kernels::{Binding, BufferId, Dispatch, Matrix, Recording};
use crate::tensor::{Format, Tier};

/// A run of experts over each token's picks, sums in f64.
pub fn experts(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let state = m.binding(d, 1)?.to_vec();
    let word = |i: usize| d.params.get(i).copied().unwrap_or_default() as usize;
    if d.params.len() < KINDS_AT + 8 {
        return Err(err!(Internal, "experts: {} params", d.params.len()));
    }
    if state[DONE] != 0 {
        return Ok(());
    }
    let constant = |name| d.variant.consts.iter().find(|c| c.0 == name).map_or(0, |c| c.1);
    let gated = constant("GATED") == 1;
    let [cols, rows, first, x_stride, x_at] = [word(0) * 32, word(1), word(3), word(4) * 4, word(5) * 4];
    let [y_stride, y_at, picks_row, pick, slots, expert, bound] = [6, 7, 8, 9, 10, 11, 12].map(word);
    let (eps, scale) = (f64::from(f32::from_bits(d.params[14])), f64::from(f32::from_bits(d.params[15])));
    let tokens = (state[N_TOKENS] as usize).min(word(2));
    let (x, norm, picks) = (m.floats(d, 2)?, m.floats(d, 3)?, m.floats(d, 6)?);
    let biases = if constant("BIAS") == 1 { m.floats(d, 7)? } else { Vec::new() };
    let formats = formats_of(&d.variant)?;
    let weights = m.binding(d, 4)?;
    let product = |kind: usize, e: usize, x: &[f64]| -> Result<Vec<f64>> {
        let at = KINDS_AT + 4 * kind;
        let (base, row_vec4, format, bias) = (word(at), word(at + 1), formats[word(at + 2)], word(at + 3));
        let dot = |r: usize| -> Result<f64> {
            let start = base + ((e - expert) * rows + r) * row_vec4;
            let row = decode_row(format, cols, weights, start as u32)?;
            let bias = biases.get(bias + e * rows + r).map_or(0.0, |b| f64::from(*b));
            Ok(bias + row.iter().zip(x).map(|(w, v)| f64::from(*w) * v).sum::<f64>())
        };
        (0..rows).map(dot).collect()
    };
    let mut written: Vec<(usize, f64, bool)> = Vec::new(); // (place in y, number, whether it is added)
    let gate = activation(&d.variant)?.gated;
    let last = (first + d.workgroups[1] as usize).min(tokens);
    for (t, s) in (first..last).flat_map(|t| (0..slots).map(move |s| (t, s))) {
        let at = 2 * (t * picks_row + pick + s);
        let (e, weight) = (picks[at] as usize, f64::from(picks[at + 1]));
        if !(expert..expert + bound).contains(&e) {
            continue;
        }
        let from = t * x_stride + x_at + if gated { 0 } else { s * cols };
        let mut input: Vec<f64> = x[from..from + cols].iter().map(|v| f64::from(*v)).collect();
        if constant("NORM") == 1 {
            let factor = 1.0 / (input.iter().map(|v| v * v).sum::<f64>() / cols as f64 + eps).sqrt();
            input.iter_mut().zip(&norm).for_each(|(v, w)| *v *= f64::from(*w) * factor);
        }
        if rounds(&d.variant) {
            round(&mut input);
        }
        let first = product(0, e, &input)?;
        let to = t * y_stride + y_at;
        if gated {
            let both = first.iter().zip(product(1, e, &input)?);
            written.extend(both.enumerate().map(|(r, (g, u))| (to + s * rows + r, gate(*g, u), false)));
        } else {
            written.extend(first.iter().enumerate().map(|(r, v)| (to + r, scale * weight * v, true)));
        }
    }
    let y = m.binding_mut(d, 5)?;
    let mut sums = std::collections::BTreeMap::new();
    for (at, value, add) in written {
        *sums.entry(at).or_insert(if add { f64::from(f32::from_bits(y[at])) } else { 0.0 }) += value;
    }
    sums.into_iter().for_each(|(at, value)| y[at] = (value as f32).to_bits());
    Ok(())
}

/// Both steps, one token and several, biases, mixed formats, a run of experts from the middle, slices. Inputs are below 1, weights
/// below 2 and products some tens at most: 1e-4 is a few units in the last place, as in a matvec.
pub fn cases(tier: Tier) -> Result<Vec<Case>> {
    use Format::{F16, IQ3_S, MXFP4, Q4_0, Q4_K, Q8_0};
    let silu = Step::Gated(Activation::Silu);
    let down = Step::Down { scale: 1.0 };
    let of = |formats: &[Format], rows, cols, tokens, step| Spec {
        formats: formats.to_vec(),
        rows,
        cols,
        tokens,
        step,
        ..Spec::default()
    };
    let mut specs = vec![
        Spec { norm: true, ..of(&[Q4_0, Q4_0], 33, 96, (1, 1), silu) },
        Spec { shared: true, ..of(&[Q8_0], 33, 96, (1, 1), down) },
    ];
    if !tier.packed_dot {
        specs.extend([
            Spec { bias: true, ..of(&[MXFP4, MXFP4], 96, 128, (5, 6), Step::Gated(Activation::SwigluOai)) },
            Spec { bias: true, ..of(&[MXFP4], 65, 96, (5, 6), Step::Down { scale: 0.22 }) },
            Spec { run: (1, 2), ..of(&[Q4_K, IQ3_S], 31, 256, (7, 7), silu) },
            Spec { run: (2, 3), bias: true, slices: true, ..of(&[F16], 31, 64, (7, 7), down) },
            Spec { done: 1, ..of(&[F16], 4, 32, (1, 1), down) },
        ]);
    }
    specs.iter().map(|spec| spec.case(tier)).collect()
}

/// Experts of the cases' layers, and picks of a token.
const EXPERTS: u32 = 5;
const PICKS: u32 = 3;

struct Spec {
    formats: Vec<Format>,
    rows: u32,
    cols: u32,
    /// In the pass, and in the buffers.
    tokens: (u32, u32),
    step: Step,
    norm: bool,
    bias: bool,
    /// Only the last pick, as that of a shared expert.
    shared: bool,
    /// The first expert that is bound, and how many.
    run: (u32, u32),
    slices: bool,
    done: u32,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            formats: Vec::new(),
            rows: 0,
            cols: 0,
            tokens: (0, 0),
            step: Step::Down { scale: 1.0 },
            norm: false,
            bias: false,
            shared: false,
            run: (0, EXPERTS),
            slices: false,
            done: 0,
        }
    }
}

impl Spec {
    fn case(&self, tier: Tier) -> Result<Case> {
        let &Self { rows, cols, step, run: (first, bound), .. } = self;
        let tokens = self.tokens.1;
        let mut noise = Noise(u64::from(cols + rows));
        let mut memory = Memory::default();
        let mut words = vec![0; STATE_WORDS];
        (words[DONE], words[N_TOKENS]) = (self.done, self.tokens.0);
        let state = memory.push(words);
        let (from, slots) = if self.shared { (PICKS - 1, 1) } else { (0, PICKS) };
        let gated = matches!(step, Step::Gated(_));
        // Something lies before each token's part.
        let mut place = |noise: &mut Noise, floats: u32, clear: bool| {
            let stride = floats + 32;
            let n = (tokens * stride) as usize;
            let buffer = memory.push_f32(&if clear { clear_floats(noise, n) } else { noise.floats(n) });
            Place { binding: Binding::read(buffer, 0, n as u64 * 4), stride, at: 32 }
        };
        let mut x = place(&mut noise, if gated { cols } else { cols * slots }, tier.packed_dot);
        let mut y = place(&mut noise, if gated { rows * slots } else { rows }, false);
        y.binding = Binding::read_write(y.binding.buffer, 0, y.binding.bytes);
        let norms: Vec<f32> = noise.floats(cols as usize).iter().map(|w| 0.5 * (w.signum() + w)).collect();
        if self.norm && tier.packed_dot {
            // What is rounded is x times the norm's weights.
            let input: Vec<f32> = clear_floats(&mut noise, cols as usize).iter().zip(&norms).map(|(x, w)| x / w).collect();
            x = Place { binding: Binding::read(memory.push_f32(&input), 0, u64::from(cols) * 4), stride: cols, at: 0 };
        }
        let norm = memory.push_f32(&norms);
        let floats: Vec<f32> = (0..tokens * PICKS).flat_map(|_| [(noise.bits() % 5) as f32, noise.float().abs()]).collect();
        let picks = memory.push_f32(&floats);
        let kinds = self.formats.len() as u32;
        let bias = memory.push_f32(&noise.floats((kinds * EXPERTS * rows) as usize));
        let buffer = BufferId(memory.buffers().len() as u32);
        let mut words = Vec::new();
        let mut fill = |format: &Format| -> Result<Matrix> {
            let all = fill_matrix(&mut noise, *format, rows * bound, cols, buffer, &mut words)?;
            Ok(Matrix { rows, ..all })
        };
        let matrices = self.formats.iter().map(&mut fill).collect::<Result<Vec<_>>>()?;
        memory.push(words);
        let io = Io {
            state: Binding::read(state, 0, STATE_BYTES),
            x,
            norm: self.norm.then_some((Binding::read(norm, 0, u64::from(cols) * 4), 1e-5)),
            picks: Picks { binding: Binding::read(picks, 0, floats.len() as u64 * 4), row: PICKS, first: from, slots },
            bias: self.bias.then_some((Binding::read(bias, 0, u64::from(kinds * EXPERTS * rows) * 4), EXPERTS)),
            y,
            tokens,
        };
        let mut dispatches = build(tier, &Run { matrices, first, experts: bound }, io, step)?;
        if self.slices {
            dispatches = dispatches.iter().flat_map(|whole| crate::kernels::cut(whole, 3, 3)).collect();
        }
        let formats: Vec<&str> = self.formats.iter().map(|f| f.name()).collect();
        Ok(Case {
            name: format!(
                "experts{} {} {rows}x{cols} T={}/{tokens} {step:?} norm={} bias={} run={:?} done={}",
                if rounds(&dispatches[0].variant) { " int8" } else { "" },
                formats.join("|"),
                self.tokens.0,
                self.norm,
                self.bias,
                self.run,
                self.done
            ),
            recording: Recording { dispatches },
            memory,
            outputs: vec![(y.binding.buffer, 1e-4)],
        })
    }
}
