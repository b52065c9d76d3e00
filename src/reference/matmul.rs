//! The twin of `matmul`, `matmul_rows` and `matmul_small`.

use super::Memory;
use super::activation::{Functions, activation};
use super::case::{Case, Noise};
use super::weights::{by_three, clear_floats, decode_row, fill_matrix, formats_of, round, rounds, shapes};
use crate::error::Result;
use crate::kernels::matmul::{FIRST, Io, TILE_ROWS, matmul as build};
use crate::kernels::matvec::Epilogue;
use crate::kernels::parts::Activation;
use crate::kernels::state::{DONE, N_TOKENS, STATE_BYTES, STATE_WORDS};
use crate::kernels::{Binding, BufferId, Dispatch, Matrix, Recording, cut};
use crate::tensor::{Format, Tier};

/// One product and what its rounding is measured by.
#[derive(Clone, Copy)]
struct Product {
    /// Σ x·w + bias
    dot: f64,
    /// Σ |x·w| + |bias|
    magnitude: f64,
}

/// The rows of segment `s` that a slice's workgroups own. With gate and up, segment 0 says it for both.
fn rows_of(d: &Dispatch, segments: &[&[u32]], s: usize) -> std::ops::Range<u32> {
    let s = if constant(d, "EPILOGUE") == 2 { 0 } else { s };
    let (rows, start) = (segments[s][2], segments[s][5]);
    let row = |workgroup: u32| (workgroup.saturating_sub(start) * d.params[TILE_ROWS]).min(rows);
    row(d.params[FIRST])..row(d.params[FIRST] + d.workgroups[1])
}

/// The products of the slice's rows of all matrices with the tokens of the pass: (row, of each token).
fn products(d: &Dispatch, m: &Memory) -> Result<Vec<(usize, Vec<Product>)>> {
    let cols = d.params[0] as usize * 32;
    let segments: Vec<&[u32]> = d.params[8..].chunks(8).take(d.params[1] as usize).collect();
    let tokens = m.binding(d, 1)?[N_TOKENS].min(d.params[2]) as usize;
    let mut x: Vec<f64> = m.floats(d, 2)?.iter().map(|v| f64::from(*v)).collect();
    if rounds(&d.variant) {
        round(&mut x);
    }
    let bias = if constant(d, "BIAS") == 1 { m.floats(d, 4)? } else { Vec::new() };
    let formats = formats_of(&d.variant)?;
    let mut rows = Vec::new();
    for s in 0..segments.len() {
        let &[base, row_vec4, _, format, out_row, ..] = segments[s] else { continue };
        for r in rows_of(d, &segments, s) {
            let w = decode_row(formats[format as usize], cols, m.binding(d, 3)?, base + r * row_vec4)?;
            let row = (out_row + r) as usize;
            let bias = bias.get(row).map_or(0.0, |b| f64::from(*b));
            let one = |t: usize| {
                let mut p = Product { dot: bias, magnitude: bias.abs() };
                for (w, x) in w.iter().zip(&x[t * cols..]) {
                    let product = f64::from(*w) * x;
                    p.dot += product;
                    p.magnitude += product.abs();
                }
                p
            };
            rows.push((row, (0..tokens).map(one).collect()));
        }
    }
    Ok(rows)
}

fn constant(d: &Dispatch, name: &str) -> u32 {
    d.variant.consts.iter().find(|c| c.0 == name).map_or(0, |c| c.1)
}

/// `y = epilogue(x · Wᵀ + bias)`, sums in f64.
pub fn matmul(d: &Dispatch, m: &mut Memory) -> Result<()> {
    if m.binding(d, 1)?[DONE] != 0 {
        return Ok(());
    }
    let rows = products(d, m)?;
    let float = |word: u32| f64::from(f32::from_bits(word));
    let (y_stride, softcap, scale) = (d.params[3] as usize, float(d.params[4]), float(d.params[7]));
    let Functions { activate, gated } = activation(&d.variant)?;
    let epilogue = constant(d, "EPILOGUE");
    let y = m.binding_mut(d, 5)?;
    // With gate and up, the second half are the up rows.
    let outputs = if epilogue == 2 { rows.len() / 2 } else { rows.len() };
    for (i, (r, products)) in rows.iter().take(outputs).enumerate() {
        for (t, p) in products.iter().enumerate() {
            let slot = &mut y[t * y_stride + r];
            let value = match epilogue {
                3 => activate(p.dot),
                2 => gated(p.dot, rows[outputs + i].1[t].dot),
                1 => f64::from(f32::from_bits(*slot)) + scale * p.dot,
                _ if softcap != 0.0 => softcap * (scale * p.dot / softcap).tanh(),
                _ => scale * p.dot,
            };
            *slot = (value as f32).to_bits();
        }
    }
    Ok(())
}

/// The largest error that may be, where a product may be off by `relative` of its magnitude. An activation's slope is at
/// most 1.13, and a soft-cap's 1. What is gated is multiplied with up, or with up + 1.
fn tolerance(d: &Dispatch, m: &Memory, relative: f64) -> Result<f32> {
    let rows = products(d, m)?;
    let Functions { activate, .. } = activation(&d.variant)?;
    let scale = f64::from(f32::from_bits(d.params[7]));
    let mut top = 0.0f64;
    let outputs = if constant(d, "EPILOGUE") == 2 { rows.len() / 2 } else { rows.len() };
    for (i, (_, products)) in rows.iter().take(outputs).enumerate() {
        for (t, p) in products.iter().enumerate() {
            top = top.max(match constant(d, "EPILOGUE") {
                2 => {
                    let up = rows[outputs + i].1[t];
                    1.13 * p.magnitude * (up.dot.abs() + 1.0) + activate(p.dot).abs() * up.magnitude
                }
                _ => 1.13 * scale * p.magnitude + 1.0, // what was in y
            });
        }
    }
    Ok((top * relative) as f32)
}

/// Errors relative to Σ|x·w|. In f32 at most 1.0e-7 was measured, whatever the order of the sums. In f16 x and w are
/// each rounded to 11 bits and eight products are summed in it: 2.7e-4 was measured with 32 columns, 1e-4 with 576.
const F32_ERROR: f64 = 2.5e-7;
const F16_ERROR: f64 = 5e-4;

/// Odd sizes, every format, every epilogue, mixed formats.
pub fn cases(tier: Tier) -> Result<Vec<Case>> {
    let store = Epilogue::STORE;
    let plain =
        |shapes: &[(Format, u32)], cols, tokens| Spec { shapes: shapes.to_vec(), cols, tokens, bias: false, epilogue: store };
    if tier.packed_dot {
        return rounded_cases(tier);
    }
    let mut specs = Vec::new();
    for (formats, cols) in by_three(false) {
        specs.push(plain(&shapes(&formats, [65, 33, 1]), cols, (31, 33)));
    }
    let q = Format::Q4_1;
    for (rows, cols, tokens) in [(1, 32, 1), (31, 96, 3), (257, 32, 64), (1, 288, 65), (33, 32, 129)] {
        specs.push(plain(&[(q, rows)], cols, (tokens, tokens)));
    }
    specs.push(plain(&[(q, 129), (q, 65), (q, 33)], 288, (31, 64)));
    specs.push(plain(&[(Format::Q5_0, 64), (Format::Q5_0, 33), (Format::Q8_0, 31)], 320, (5, 5)));
    specs.push(Spec { bias: true, ..plain(&[(Format::Q4_K, 65), (Format::Q5_K, 31), (Format::Q6_K, 1)], 256, (33, 40)) });
    specs.push(Spec { epilogue: Epilogue::RESIDUAL, ..plain(&[(q, 65)], 768, (31, 40)) });
    specs.push(Spec { epilogue: Epilogue::Residual { scale: 0.22 }, ..plain(&[(q, 65)], 768, (21, 32)) });
    specs.push(plain(&[(Format::Q6_K, 40)], 768, (7, 8)));
    specs.push(Spec { bias: true, epilogue: Epilogue::Residual { scale: 0.22 }, ..plain(&[(Format::Q8_0, 31)], 96, (3, 3)) });
    specs.push(Spec { epilogue: Epilogue::Gated(Activation::Silu), ..plain(&[(q, 129), (q, 129)], 288, (31, 31)) });
    specs.push(Spec {
        epilogue: Epilogue::Gated(Activation::GeluTanh),
        bias: true,
        ..plain(&[(Format::Q4_K, 33), (Format::Q6_K, 33)], 512, (65, 65))
    });
    specs.push(Spec { epilogue: Epilogue::Store { softcap: 1.5, scale: 0.3 }, ..plain(&[(Format::F16, 70)], 64, (2, 2)) });
    specs.push(Spec { epilogue: Epilogue::Activated(Activation::Gelu), bias: true, ..plain(&[(q, 65)], 96, (33, 40)) });
    specs.push(Spec { epilogue: Epilogue::Gated(Activation::SwigluOai), bias: true, ..plain(&[(q, 33), (q, 33)], 96, (7, 8)) });
    let mut cases = specs.iter().map(|spec| spec.case(tier, 0)).collect::<Result<Vec<_>>>()?;
    let mut done = plain(&[(q, 31)], 96, (3, 3)).case(tier, 1)?;
    done.name.push_str(" done");
    cases.push(done);
    // Slices, played as one dispatch as they are, and each on its own: the second in another order.
    let gated = Spec { epilogue: Epilogue::Gated(Activation::Silu), ..plain(&[(q, 100), (q, 100)], 96, (33, 40)) };
    for spec in [plain(&[(q, 65), (q, 130), (q, 33)], 96, (33, 40)), plain(&[(q, 129), (q, 31)], 96, (3, 3)), gated] {
        for apart in [false, true] {
            let mut case = spec.case(tier, 0)?;
            let mut slices = cut(&case.recording.dispatches[0], FIRST, 3);
            if apart {
                slices.iter_mut().for_each(|s| s.continues = false);
                slices.reverse();
            }
            case.recording.dispatches = slices;
            case.name.push_str(if apart { " in slices, apart" } else { " in slices" });
            cases.push(case);
        }
    }
    Ok(cases)
}

/// The cases of a tier that rounds activations, which only GPUs do here. The twin rounds them as well.
fn rounded_cases(tier: Tier) -> Result<Vec<Case>> {
    use Format::{Q4_1, Q5_K, Q6_K, Q8_0};
    if tier.cpu {
        return Ok(Vec::new());
    }
    let spec = |shapes: &[(Format, u32)], cols, tokens, bias, epilogue| {
        Spec { shapes: shapes.to_vec(), cols, tokens, bias, epilogue }.case(tier, 0)
    };
    let store = Epilogue::STORE;
    let (silu, gelu) = (Epilogue::Gated(Activation::Silu), Epilogue::Gated(Activation::GeluTanh));
    let mut cases = Vec::new();
    for (formats, cols) in by_three(true) {
        cases.push(spec(&shapes(&formats, [65, 33, 1]), cols, (33, 40), cols > 96, store)?);
    }
    cases.extend([
        spec(&[(Q8_0, 65)], 32, (34, 129), false, Epilogue::RESIDUAL)?,
        spec(&[(Q4_1, 129), (Q4_1, 129)], 288, (33, 33), false, silu)?,
        spec(&[(Q5_K, 33), (Q6_K, 33)], 512, (64, 64), true, gelu)?,
    ]);
    Ok(cases)
}

struct Spec {
    shapes: Vec<(Format, u32)>,
    cols: u32,
    /// In the pass, and in the buffers.
    tokens: (u32, u32),
    bias: bool,
    epilogue: Epilogue,
}

impl Spec {
    fn case(&self, tier: Tier, done: u32) -> Result<Case> {
        let mut noise = Noise(u64::from(self.cols) + self.shapes.len() as u64);
        let mut memory = Memory::default();
        let mut words = vec![0; STATE_WORDS];
        (words[DONE], words[N_TOKENS]) = (done, self.tokens.0);
        let state = memory.push(words);
        let (tokens, cols) = (self.tokens.1, self.cols);
        let rows: u32 = self.shapes.iter().map(|s| s.1).sum();
        let y_rows = if matches!(self.epilogue, Epilogue::Gated(_)) { self.shapes[0].1 } else { rows };
        let n = (tokens * cols) as usize;
        let x = memory.push_f32(&if tier.packed_dot { clear_floats(&mut noise, n) } else { noise.floats(n) });
        let bias = memory.push_f32(&noise.floats(rows as usize));
        let y = memory.push_f32(&noise.floats((tokens * y_rows) as usize));
        let buffer = BufferId(memory.buffers().len() as u32);
        let mut words = Vec::new();
        let fill = |&(format, rows): &(Format, u32)| fill_matrix(&mut noise, format, rows, cols, buffer, &mut words);
        let matrices = self.shapes.iter().map(fill).collect::<Result<Vec<Matrix>>>()?;
        memory.push(words);
        let io = Io {
            state: Binding::read(state, 0, STATE_BYTES),
            x: Binding::read(x, 0, u64::from(tokens * cols) * 4),
            bias: self.bias.then_some(Binding::read(bias, 0, u64::from(rows) * 4)),
            y: Binding::read_write(y, 0, u64::from(tokens * y_rows) * 4),
            tokens,
        };
        let dispatches = build(tier, &matrices, io, self.epilogue)?;
        let relative = if dispatches[0].variant.f16 { F16_ERROR } else { F32_ERROR };
        let error = tolerance(&dispatches[0], &memory, relative)?;
        let formats: Vec<&str> = self.shapes.iter().map(|s| s.0.name()).collect();
        Ok(Case {
            name: format!(
                "matmul{} {} {rows}x{cols} T={}/{tokens} bias={} {:?}",
                if rounds(&dispatches[0].variant) { " int8" } else { "" },
                formats.join("|"),
                self.tokens.0,
                self.bias,
                self.epilogue
            ),
            recording: Recording { dispatches },
            memory,
            outputs: vec![(y, error)],
        })
    }
}
