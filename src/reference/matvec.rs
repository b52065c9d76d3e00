//! The twin of `matvec` and `matvec_rows`.

use super::Memory;
use super::activation::{Functions, activation};
use super::case::{Case, Noise};
use super::weights::{by_three, clear_floats, decode_row, fill_matrix, round, rounds, shapes};
use crate::error::Result;
use crate::kernels::matvec::{Added, Epilogue, Io, SEGMENTS_AT, matvec as build};
use crate::kernels::parts::Activation;
use crate::kernels::tuning::MatvecChoice;
use crate::kernels::{Binding, Dispatch, Matrix, Recording};
use crate::tensor::{Format, Tier};

/// `y = epilogue(W · norm(x) + bias)`, sums in f64.
pub fn matvec(d: &Dispatch, m: &mut Memory) -> Result<()> {
    if m.binding(d, 1)?[0] != 0 {
        return Ok(());
    }
    let constant = |name| d.variant.consts.iter().find(|c| c.0 == name).map_or(0, |c| c.1);
    let cols = d.params[0] as usize * 32;
    let eps = f64::from(f32::from_bits(d.params[4]));
    let at = (m.binding(d, 1)?[2].max(1) as usize - 1) * d.params[6] as usize * 4;
    let mut x: Vec<f64> = m.floats(d, 2)?[at..at + cols].iter().map(|v| f64::from(*v)).collect();
    if d.variant.parts.iter().any(|p| p.source.name == "parts/x_added") {
        let (added, weights) = (m.floats(d, 6)?, m.floats(d, 7)?);
        let factor = rms_factor(added[..cols].iter().map(|v| f64::from(*v)), eps);
        for ((x, a), w) in x.iter_mut().zip(&added).zip(&weights) {
            *x += f64::from(*a) * f64::from(*w) * factor;
        }
        m.binding_mut(d, 8)?.iter_mut().zip(&x).for_each(|(out, x)| *out = (*x as f32).to_bits());
    }
    let mut input = x.clone();
    if constant("NORM") == 1 {
        let factor = rms_factor(x.iter().copied(), eps);
        let norm = m.floats(d, 3)?;
        let norm = &norm[4 * d.params[8] as usize..];
        input.iter_mut().zip(norm).for_each(|(v, w)| *v *= f64::from(*w) * factor);
    }
    if rounds(&d.variant) {
        round(&mut input);
    }
    let formats = super::weights::formats_of(&d.variant)?;
    let biases = if constant("BIAS") == 1 { m.floats(d, 3)?.split_off(d.params[9] as usize) } else { Vec::new() };
    let bias = |row: u32| biases.get(row as usize).map_or(0.0, |b| f64::from(*b));
    let mut dots = Vec::new(); // per matrix: (out row, dot products)
    for segment in d.params[SEGMENTS_AT..].chunks(8).take(d.params[1] as usize) {
        let &[base, row_vec4, rows, format, out_row, ..] = segment else { continue };
        let weights = m.binding(d, 4)?;
        let dot = |r| -> Result<f64> {
            let row = decode_row(formats[format as usize], cols, weights, base + r * row_vec4)?;
            Ok(bias(out_row + r) + row.iter().zip(&input).map(|(w, v)| f64::from(*w) * v).sum::<f64>())
        };
        dots.push((out_row as usize, (0..rows).map(dot).collect::<Result<Vec<f64>>>()?));
    }
    let (softcap, scale) = (f64::from(f32::from_bits(d.params[5])), f64::from(f32::from_bits(d.params[7])));
    let Functions { activate, gated } = activation(&d.variant)?;
    let epilogue = constant("EPILOGUE");
    let y = m.binding_mut(d, 5)?;
    if epilogue == 2 {
        for ((y, gate), up) in y.iter_mut().zip(&dots[0].1).zip(&dots[1].1) {
            *y = (gated(*gate, *up) as f32).to_bits();
        }
        return Ok(());
    }
    for (out_row, rows) in dots {
        for (y, dot) in y[out_row..].iter_mut().zip(rows) {
            let value = match epilogue {
                3 => activate(dot),
                1 => f64::from(f32::from_bits(*y)) + scale * dot,
                _ if softcap != 0.0 => softcap * (scale * dot / softcap).tanh(),
                _ => scale * dot,
            };
            *y = (value as f32).to_bits();
        }
    }
    Ok(())
}

/// The epsilon of the cases' norms.
const EPS: f32 = 1e-5;

fn rms_factor(x: impl ExactSizeIterator<Item = f64>, eps: f64) -> f64 {
    let n = x.len() as f64;
    1.0 / (x.map(|v| v * v).sum::<f64>() / n + eps).sqrt()
}

/// Odd sizes, every format, every epilogue, mixed formats. Tolerance: 2e-6 of Σ|w·x| would be f32's rounding over 2,048
/// terms; inputs are below 1 and weights below 2, so 1e-4 absolute is a few units in the last place of the largest sums.
pub fn cases(tier: Tier) -> Result<Vec<Case>> {
    if tier.packed_dot {
        return rounded_cases(tier);
    }
    let store = Epilogue::STORE;
    let mut specs = Vec::new();
    for (formats, cols) in by_three(false) {
        specs.push(Spec::new(&shapes(&formats, [33, 31, 1]), cols, store).normed());
    }
    specs.extend([1, 31, 257].map(|rows| Spec::new(&[(Format::Q4_0, rows)], 96, store)));
    specs.push(Spec::new(&[(Format::Q8_0, 31)], 96, Epilogue::RESIDUAL).normed());
    let q = Format::Q4_1;
    specs.push(Spec::new(&[(q, 576), (q, 192), (q, 192)], 576, store).normed().biased());
    specs.push(Spec::new(&[(q, 576)], 1536, Epilogue::Residual { scale: 0.22 }).biased());
    specs.push(Spec::new(&[(q, 257), (q, 257)], 576, Epilogue::Gated(Activation::Silu)).normed());
    specs.push(Spec::new(&[(q, 65)], 576, Epilogue::Activated(Activation::Gelu)).normed().biased());
    specs.push(Spec::new(&[(q, 33), (q, 33)], 64, Epilogue::Gated(Activation::SwigluOai)).normed().biased());
    specs.push(Spec::new(&[(Format::Q5_0, 64), (Format::Q5_0, 33), (Format::Q8_0, 31)], 640, store).normed());
    specs.push(Spec::new(&[(Format::Q4_K, 65), (Format::Q5_K, 31), (Format::Q6_K, 1)], 256, store).normed());
    let gelu = Epilogue::Gated(Activation::GeluTanh);
    specs.push(Spec::new(&[(Format::Q4_K, 33), (Format::Q6_K, 33)], 2560, gelu).normed());
    specs.push(Spec::new(&[(Format::F16, 5000)], 32, Epilogue::Store { softcap: 1.5, scale: 0.3 }));
    // At every way of sharing the work out that tuning may choose: the fewest and the most invocations stand for all.
    for (shapes, epilogue) in [(&[(q, 65), (q, 31)][..], store), (&[(q, 33), (q, 33)], Epilogue::Gated(Activation::Silu))] {
        let choices = MatvecChoice::candidates(tier, 1 << 14, epilogue != store);
        let ends = [choices.iter().map(|c| c.invocations).min(), choices.iter().map(|c| c.invocations).max()];
        for choice in choices.into_iter().filter(|c| ends.contains(&Some(c.invocations))) {
            specs.push(Spec { choice: Some(choice), ..Spec::new(shapes, 576, epilogue).normed() });
        }
    }
    if !tier.cpu {
        let q5_q8 = [(Format::Q5_0, 64), (Format::Q5_0, 33), (Format::Q8_0, 31)];
        specs.push(Spec::new(&q5_q8, 640, store).normed().biased().added());
        specs.push(Spec::new(&[(Format::Q4_K, 33), (Format::Q6_K, 33)], 2560, gelu).normed().added());
        specs.push(Spec::new(&[(Format::F16, 5)], 4128, store).normed().added());
    }
    specs.iter().map(|spec| spec.case(tier)).collect()
}

/// The cases of a tier that rounds activations: every format that it does so for, every epilogue. The twin rounds them as well.
fn rounded_cases(tier: Tier) -> Result<Vec<Case>> {
    use Format::{Q4_1, Q4_K, Q5_0, Q6_K, Q8_0};
    let store = Epilogue::STORE;
    let (silu, gelu) = (Epilogue::Gated(Activation::Silu), Epilogue::Gated(Activation::GeluTanh));
    let mut specs = vec![
        Spec::new(&[(Q4_1, 257)], 1536, Epilogue::RESIDUAL),
        Spec::new(&[(Q4_1, 257), (Q4_1, 257)], 576, silu).normed(),
        Spec::new(&[(Q4_K, 33), (Q6_K, 33)], 2560, gelu).normed(),
        Spec::new(&[(Q5_0, 31)], 96, store),
    ];
    for (formats, cols) in by_three(true) {
        specs.push(Spec::new(&shapes(&formats, [33, 31, 1]), cols, store).normed().biased());
    }
    if !tier.cpu {
        specs.push(Spec::new(&[(Q5_0, 64), (Q5_0, 33), (Q8_0, 31)], 640, store).normed().added());
    }
    specs.iter().map(|spec| spec.case(tier)).collect()
}

struct Spec {
    shapes: Vec<(Format, u32)>,
    cols: u32,
    norm: bool,
    bias: bool,
    added: bool,
    epilogue: Epilogue,
    /// `None`: the tier's default.
    choice: Option<MatvecChoice>,
}

impl Spec {
    fn new(shapes: &[(Format, u32)], cols: u32, epilogue: Epilogue) -> Self {
        Self { shapes: shapes.to_vec(), cols, norm: false, bias: false, added: false, epilogue, choice: None }
    }

    fn normed(self) -> Self {
        Self { norm: true, ..self }
    }

    fn biased(self) -> Self {
        Self { bias: true, ..self }
    }

    fn added(self) -> Self {
        Self { added: true, ..self }
    }

    fn case(&self, tier: Tier) -> Result<Case> {
        let &Self { ref shapes, cols, norm, bias, epilogue, .. } = self;
        let choice = self.choice.unwrap_or_else(|| MatvecChoice::of(tier, cols));
        let mut noise = Noise(u64::from(cols) + shapes.len() as u64);
        let mut memory = Memory::default();
        let state = memory.push(vec![0; 64]);
        let mut input = noise.floats(cols as usize);
        let mut norms = noise.floats(cols as usize);
        let d: Vec<f32> = noise.floats(cols as usize).iter().map(|v| v * 30.0).collect();
        let d_norms = noise.floats(cols as usize);
        if tier.packed_dot {
            // What is rounded is x times the norm's weights, with what is added.
            norms.iter_mut().for_each(|w| *w = 0.5 * (w.signum() + *w));
            input = clear_floats(&mut noise, cols as usize);
            if norm {
                input.iter_mut().zip(&norms).for_each(|(x, w)| *x /= w);
            }
            if self.added {
                let factor = rms_factor(d.iter().map(|v| f64::from(*v)), f64::from(EPS)) as f32;
                input.iter_mut().zip(&d).zip(&d_norms).for_each(|((x, d), w)| *x -= d * factor * w);
            }
        }
        let x = memory.push_f32(&input);
        let rows: u32 = shapes.iter().map(|s| s.1).sum();
        // Biases and norm weights as a model's plan lays them out: in one buffer, each from a place of its own on.
        let mut small = noise.floats((rows as usize).next_multiple_of(64));
        let (biases, norm_at) = (u64::from(rows) * 4, small.len() as u64 * 4);
        small.extend(&norms);
        let small = memory.push_f32(&small);
        let y = memory.push_f32(&noise.floats(rows as usize));
        let mut words = Vec::new();
        let buffer = crate::kernels::BufferId(memory.buffers().len() as u32);
        let matrices = shapes
            .iter()
            .map(|&(format, rows)| fill_matrix(&mut noise, format, rows, cols, buffer, &mut words))
            .collect::<Result<Vec<Matrix>>>()?;
        memory.push(words);
        let vector = u64::from(cols) * 4;
        let mut outputs = vec![(y, 1e-4)];
        let added = self.added.then(|| {
            let [d, weights] = [&d, &d_norms].map(|v| Binding::read(memory.push_f32(v), 0, vector));
            let sum = memory.push_f32(&noise.floats(cols as usize));
            outputs.push((sum, 2e-6));
            Added { d, weights, sum: Binding::read_write(sum, 0, vector) }
        });
        let io = Io {
            state: Binding::read(state, 0, 256),
            x: Binding::read(x, 0, vector),
            last_row: false,
            norm: norm.then_some((Binding::read(small, norm_at, vector), EPS)),
            bias: bias.then_some(Binding::read(small, 0, biases)),
            added,
            y: Binding::read_write(y, 0, u64::from(rows) * 4),
        };
        let dispatch = build(tier, choice, &matrices, io, epilogue)?;
        let formats: Vec<&str> = shapes.iter().map(|s| s.0.name()).collect();
        Ok(Case {
            name: format!(
                "matvec{} {} {rows}x{cols} norm={norm} bias={bias} added={} {epilogue:?} rows={} invocations={}",
                if tier.packed_dot { " int8" } else { "" },
                formats.join("|"),
                io.added.is_some(),
                choice.rows,
                choice.invocations
            ),
            recording: Recording { dispatches: vec![dispatch] },
            memory,
            outputs,
        })
    }
}
