//! The twin of `matvec` and `matvec_rows`.

use super::Memory;
use super::activation::activation;
use super::case::{Case, Noise};
use super::weights::{clear_floats, decode_row, fill_matrix, round, rounds};
use crate::error::Result;
use crate::kernels::matvec::{Added, Epilogue, Io, matvec as build};
use crate::kernels::parts::Activation;
use crate::kernels::tuning::MatvecChoice;
use crate::kernels::{Binding, Dispatch, Matrix, Recording};
use crate::tensor::{Format, Tier};

/// `y = epilogue(W · norm(x))`, sums in f64.
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
        input.iter_mut().zip(&norm).for_each(|(v, w)| *v *= f64::from(*w) * factor);
    }
    if rounds(&d.variant) {
        round(&mut input);
    }
    let formats = super::weights::formats_of(&d.variant)?;
    let mut dots = Vec::new(); // per matrix: (out row, dot products)
    for segment in d.params[8..].chunks(8).take(d.params[1] as usize) {
        let &[base, row_vec4, rows, format, out_row, ..] = segment else { continue };
        let weights = m.binding(d, 4)?;
        let dot = |r| -> Result<f64> {
            let row = decode_row(formats[format as usize], cols, weights, base + r * row_vec4)?;
            Ok(row.iter().zip(&input).map(|(w, v)| f64::from(*w) * v).sum())
        };
        dots.push((out_row as usize, (0..rows).map(dot).collect::<Result<Vec<f64>>>()?));
    }
    let softcap = f64::from(f32::from_bits(d.params[5]));
    let activate = activation(&d.variant)?;
    let y = m.binding_mut(d, 5)?;
    let mut put = |i: usize, v: f64| y[i] = (v as f32).to_bits();
    match constant("EPILOGUE") {
        2 => dots[0].1.iter().zip(&dots[1].1).enumerate().for_each(|(i, (gate, up))| put(i, activate(*gate) * up)),
        1 => {
            for (out_row, rows) in dots {
                for (i, v) in rows.iter().enumerate() {
                    y[out_row + i] = (f64::from(f32::from_bits(y[out_row + i])) + v).to_bits_f32();
                }
            }
        }
        _ => {
            for (out_row, rows) in dots {
                for (i, v) in rows.iter().enumerate() {
                    put(out_row + i, if softcap == 0.0 { *v } else { softcap * (v / softcap).tanh() });
                }
            }
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

trait F32Bits {
    fn to_bits_f32(self) -> u32;
}
impl F32Bits for f64 {
    fn to_bits_f32(self) -> u32 {
        (self as f32).to_bits()
    }
}

/// Odd sizes, every format, every epilogue, mixed formats. Tolerance: 2e-6 of Σ|w·x| would be f32's rounding over 2,048
/// terms; inputs are below 1 and weights below 2, so 1e-4 absolute is a few units in the last place of the largest sums.
pub fn cases(tier: Tier) -> Result<Vec<Case>> {
    if tier.packed_dot {
        return rounded_cases(tier);
    }
    let mut cases = Vec::new();
    let store = Epilogue::Store { softcap: 0.0 };
    for format in crate::quant::TABLE.iter().map(|q| q.format) {
        let cols = if format.block_len() == 256 { 512 } else { 96 };
        for rows in [1, 31, 257] {
            cases.push(case(tier, &[(format, rows)], cols, false, store)?);
        }
        cases.push(case(tier, &[(format, 31)], cols, true, Epilogue::Residual)?);
    }
    let q = Format::Q4_1;
    cases.push(case(tier, &[(q, 576), (q, 192), (q, 192)], 576, true, store)?);
    cases.push(case(tier, &[(q, 576)], 1536, false, Epilogue::Residual)?);
    cases.push(case(tier, &[(q, 257), (q, 257)], 576, true, Epilogue::Gated(Activation::Silu))?);
    cases.push(case(tier, &[(Format::Q5_0, 64), (Format::Q5_0, 33), (Format::Q8_0, 31)], 640, true, store)?);
    cases.push(case(tier, &[(Format::Q4_K, 65), (Format::Q5_K, 31), (Format::Q6_K, 1)], 256, true, store)?);
    cases.push(case(tier, &[(Format::Q4_K, 33), (Format::Q6_K, 33)], 2560, true, Epilogue::Gated(Activation::GeluTanh))?);
    cases.push(case(tier, &[(Format::F16, 5000)], 32, false, Epilogue::Store { softcap: 1.5 })?);
    // At every way of sharing the work out that tuning may choose: the fewest and the most invocations stand for all.
    for (shapes, epilogue) in [(&[(q, 65), (q, 31)][..], store), (&[(q, 33), (q, 33)], Epilogue::Gated(Activation::Silu))] {
        let choices = MatvecChoice::candidates(tier, 1 << 14, epilogue != store);
        let ends = [choices.iter().map(|c| c.invocations).min(), choices.iter().map(|c| c.invocations).max()];
        for choice in choices.into_iter().filter(|c| ends.contains(&Some(c.invocations))) {
            cases.push(case_of(tier, choice, shapes, 576, true, false, epilogue)?);
        }
    }
    if !tier.cpu {
        let gelu = Epilogue::Gated(Activation::GeluTanh);
        cases.push(case_of(
            tier,
            MatvecChoice::of(tier, 640),
            &[(Format::Q5_0, 64), (Format::Q5_0, 33), (Format::Q8_0, 31)],
            640,
            true,
            true,
            store,
        )?);
        cases.push(case_of(
            tier,
            MatvecChoice::of(tier, 2560),
            &[(Format::Q4_K, 33), (Format::Q6_K, 33)],
            2560,
            true,
            true,
            gelu,
        )?);
        cases.push(case_of(tier, MatvecChoice::of(tier, 4128), &[(Format::F16, 5)], 4128, true, true, store)?);
    }
    Ok(cases)
}

/// The cases of a tier that rounds activations: every format that it does so for, every epilogue. The twin rounds them as well.
fn rounded_cases(tier: Tier) -> Result<Vec<Case>> {
    use Format::{Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0};
    let store = Epilogue::Store { softcap: 0.0 };
    let (silu, gelu) = (Epilogue::Gated(Activation::Silu), Epilogue::Gated(Activation::GeluTanh));
    let mut cases = vec![
        case(tier, &[(Q4_0, 31), (Q4_1, 33), (Q5_0, 1)], 96, false, store)?,
        case(tier, &[(Q5_1, 64), (Q8_0, 33), (Q4_K, 31)], 512, true, store)?,
        case(tier, &[(Q5_K, 65), (Q6_K, 31)], 512, true, store)?,
        case(tier, &[(Q4_1, 257)], 1536, false, Epilogue::Residual)?,
        case(tier, &[(Q4_1, 257), (Q4_1, 257)], 576, true, silu)?,
        case(tier, &[(Q4_K, 33), (Q6_K, 33)], 2560, true, gelu)?,
    ];
    if !tier.cpu {
        let choice = MatvecChoice::of(tier, 640);
        cases.push(case_of(tier, choice, &[(Q5_0, 64), (Q5_0, 33), (Q8_0, 31)], 640, true, true, store)?);
    }
    Ok(cases)
}

fn case(tier: Tier, shapes: &[(Format, u32)], cols: u32, norm: bool, epilogue: Epilogue) -> Result<Case> {
    case_of(tier, MatvecChoice::of(tier, cols), shapes, cols, norm, false, epilogue)
}

fn case_of(
    tier: Tier,
    choice: MatvecChoice,
    shapes: &[(Format, u32)],
    cols: u32,
    norm: bool,
    added: bool,
    epilogue: Epilogue,
) -> Result<Case> {
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
        if added {
            let factor = rms_factor(d.iter().map(|v| f64::from(*v)), f64::from(EPS)) as f32;
            input.iter_mut().zip(&d).zip(&d_norms).for_each(|((x, d), w)| *x -= d * factor * w);
        }
    }
    let x = memory.push_f32(&input);
    let norm_weights = memory.push_f32(&norms);
    let rows: u32 = shapes.iter().map(|s| s.1).sum();
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
    let added = added.then(|| {
        let [d, weights] = [&d, &d_norms].map(|v| Binding::read(memory.push_f32(v), 0, vector));
        let sum = memory.push_f32(&noise.floats(cols as usize));
        outputs.push((sum, 2e-6));
        Added { d, weights, sum: Binding::read_write(sum, 0, vector) }
    });
    let io = Io {
        state: Binding::read(state, 0, 256),
        x: Binding::read(x, 0, vector),
        last_row: false,
        norm: norm.then_some((Binding::read(norm_weights, 0, vector), EPS)),
        added,
        y: Binding::read_write(y, 0, u64::from(rows) * 4),
    };
    let dispatch = build(tier, choice, &matrices, io, epilogue)?;
    let formats: Vec<&str> = shapes.iter().map(|s| s.0.name()).collect();
    Ok(Case {
        name: format!(
            "matvec{} {} {rows}x{cols} norm={norm} added={} {epilogue:?} rows={} invocations={}",
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
