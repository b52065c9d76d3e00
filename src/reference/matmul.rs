//! The twin of `matmul` and `matmul_rows`.

use super::Memory;
use super::activation::activation;
use super::case::{Case, Noise};
use super::weights::{decode_row, fill_matrix, formats_of};
use crate::error::Result;
use crate::kernels::matmul::{Io, matmul as build};
use crate::kernels::matvec::Epilogue;
use crate::kernels::parts::Activation;
use crate::kernels::state::{DONE, N_TOKENS, STATE_BYTES, STATE_WORDS};
use crate::kernels::{Binding, BufferId, Dispatch, Matrix, Recording};
use crate::tensor::{Format, Tier};

/// `y = epilogue(x · Wᵀ + bias)`, sums in f64.
pub fn matmul(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let state = m.binding(d, 1)?;
    if state[DONE] != 0 {
        return Ok(());
    }
    let &[groups, segments, tokens, y_stride, softcap, ..] = d.params.as_slice() else { return Ok(()) };
    let tokens = state[N_TOKENS].min(tokens) as usize;
    let constant = |name| d.variant.consts.iter().find(|c| c.0 == name).map_or(0, |c| c.1);
    let (cols, y_stride, softcap) = (groups as usize * 32, y_stride as usize, f64::from(f32::from_bits(softcap)));
    let x = m.floats(d, 2)?;
    let bias = if constant("BIAS") == 1 { m.floats(d, 4)? } else { Vec::new() };
    let formats = formats_of(&d.variant)?;
    let activate = activation(&d.variant)?;
    let mut rows = Vec::new(); // of all matrices: the products with each token
    for segment in d.params[8..].chunks(8).take(segments as usize) {
        let &[base, row_vec4, n_rows, format, ..] = segment else { continue };
        for r in 0..n_rows {
            let w = decode_row(formats[format as usize], cols, m.binding(d, 3)?, base + r * row_vec4)?;
            let bias = bias.get(rows.len()).map_or(0.0, |b| f64::from(*b));
            let dot = |t: usize| w.iter().zip(&x[t * cols..]).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum::<f64>() + bias;
            rows.push((0..tokens).map(dot).collect::<Vec<f64>>());
        }
    }
    let y = m.binding_mut(d, 5)?;
    for t in 0..tokens {
        for r in 0..y_stride {
            let (dot, slot) = (rows[r][t], &mut y[t * y_stride + r]);
            let value = match constant("EPILOGUE") {
                2 => activate(dot) * rows[y_stride + r][t],
                1 => f64::from(f32::from_bits(*slot)) + dot,
                _ if softcap != 0.0 => softcap * (dot / softcap).tanh(),
                _ => dot,
            };
            *slot = (value as f32).to_bits();
        }
    }
    Ok(())
}

/// Odd sizes, every format, every epilogue, mixed formats.
pub fn cases(tier: Tier) -> Result<Vec<Case>> {
    let store = Epilogue::Store { softcap: 0.0 };
    let plain =
        |shapes: &[(Format, u32)], cols, tokens| Spec { shapes: shapes.to_vec(), cols, tokens, bias: false, epilogue: store };
    let mut specs = Vec::new();
    for format in crate::quant::TABLE.iter().map(|q| q.format) {
        let cols = if format.block_len() == 256 { 512 } else { 96 };
        specs.push(plain(&[(format, 65)], cols, (31, 33)));
    }
    let q = Format::Q4_1;
    for (rows, cols, tokens) in [(1, 32, 1), (31, 96, 3), (257, 32, 64), (1, 576, 65), (33, 32, 129)] {
        specs.push(plain(&[(q, rows)], cols, (tokens, tokens)));
    }
    specs.push(plain(&[(q, 576), (q, 192), (q, 192)], 576, (31, 64)));
    specs.push(plain(&[(Format::Q5_0, 64), (Format::Q5_0, 33), (Format::Q8_0, 31)], 640, (5, 5)));
    specs.push(Spec { bias: true, ..plain(&[(Format::Q4_K, 65), (Format::Q5_K, 31), (Format::Q6_K, 1)], 256, (33, 40)) });
    specs.push(Spec { epilogue: Epilogue::Residual, ..plain(&[(q, 65)], 1536, (31, 32)) });
    specs.push(Spec { bias: true, epilogue: Epilogue::Residual, ..plain(&[(Format::Q8_0, 31)], 96, (3, 3)) });
    specs.push(Spec { epilogue: Epilogue::Gated(Activation::Silu), ..plain(&[(q, 129), (q, 129)], 576, (31, 31)) });
    specs.push(Spec {
        epilogue: Epilogue::Gated(Activation::GeluTanh),
        bias: true,
        ..plain(&[(Format::Q4_K, 33), (Format::Q6_K, 33)], 768, (65, 65))
    });
    specs.push(Spec { epilogue: Epilogue::Store { softcap: 1.5 }, ..plain(&[(Format::F16, 70)], 64, (2, 2)) });
    let mut cases = specs.iter().map(|spec| spec.case(tier, 0)).collect::<Result<Vec<_>>>()?;
    let mut done = plain(&[(q, 31)], 96, (3, 3)).case(tier, 1)?;
    done.name.push_str(" done");
    cases.push(done);
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
        let x = memory.push_f32(&noise.floats((tokens * cols) as usize));
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
        let dispatch = build(tier, &matrices, io, self.epilogue)?;
        let formats: Vec<&str> = self.shapes.iter().map(|s| s.0.name()).collect();
        Ok(Case {
            name: format!(
                "matmul {} {rows}x{cols} T={}/{tokens} bias={} {:?}",
                formats.join("|"),
                self.tokens.0,
                self.bias,
                self.epilogue
            ),
            recording: Recording { dispatches: vec![dispatch] },
            memory,
            outputs: vec![(y, 1e-4)],
        })
    }
}
