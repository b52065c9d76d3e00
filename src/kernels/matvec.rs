//! Matrix times vector, the work of decoding: `shaders/matvec.wgsl` (a workgroup per few rows) and
//! `shaders/matvec_rows.wgsl` (an invocation per few rows, for CPU adapters). In a tier with `packed_dot` x is rounded to bytes
//! where every matrix has a form of bytes; float weights keep the exact kernel.

use super::parts::{Activation, Decoders};
use super::tuning::MatvecChoice;
use super::{Binding, Cost, Dispatch, MAX_WORKGROUPS, Matrix, Source, Variant, parts};
use crate::err;
use crate::error::Result;
use crate::source;
use crate::tensor::{Format, Tier};

/// Where the params' segments begin: eight words each, of which the third are the rows.
pub const SEGMENTS_AT: usize = 12;

const CORE: Source = source!("parts/matvec_core");
const WORKGROUP: Source = source!("matvec");
const ROWS: Source = source!("matvec_rows");
const X_ADDED: Source = source!("parts/x_added");
pub(super) const X_EACH: Source = source!("parts/x_each");
pub(super) const X_QUAD: Source = source!("parts/x_quad");
pub(super) const X_QUAD_I8: Source = source!("parts/x_quad_i8");
pub(super) const DOT_F32: Source = source!("parts/dot_f32");
pub(super) const DOT_I8: Source = source!("parts/dot_i8");

/// What becomes of the dot products, `dot` being one with its bias where there are biases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Epilogue {
    /// `y = scale · dot`, through `softcap · tanh(· / softcap)` where a soft-cap is given. Matrices lie one after another in y.
    Store {
        /// 0 for none.
        softcap: f32,
        /// 1 for none.
        scale: f32,
    },
    /// `y = activate(dot)`: a feed-forward without a gate.
    Activated(Activation),
    /// `y += scale · dot`: onto the residual stream.
    Residual {
        /// 1 for none.
        scale: f32,
    },
    /// `y = gated(gate, up)`, mostly `activate(gate) · up`: two matrices of the same shape, gate first.
    Gated(Activation),
}

impl Epilogue {
    /// `y = dot`
    pub const STORE: Self = Self::Store { softcap: 0.0, scale: 1.0 };
    /// `y += dot`
    pub const RESIDUAL: Self = Self::Residual { scale: 1.0 };

    /// `EPILOGUE`, `softcap` and `scale` of `shaders/parts/epilogue.wgsl`, and the activation to link.
    pub(super) fn words(self) -> (u32, u32, u32, Activation) {
        let (mode, softcap, scale, activation) = match self {
            Self::Store { softcap, scale } => (0, softcap, scale, Activation::Silu),
            Self::Residual { scale } => (1, 0.0, scale, Activation::Silu),
            Self::Gated(activation) => (2, 0.0, 1.0, activation),
            Self::Activated(activation) => (3, 0.0, 1.0, activation),
        };
        (mode, f32::to_bits(softcap), f32::to_bits(scale), activation)
    }
}

/// What is still to be added to x, RMS-normed with weights of its own (Gemma's norms after a block). The
/// matvec computes with the sum and stores it.
#[derive(Debug, Clone, Copy)]
pub struct Added {
    /// f32\[cols\]: what the matrix before made.
    pub d: Binding,
    /// f32\[cols\]: the weights of its norm. The epsilon is that of `Io::norm`.
    pub weights: Binding,
    /// f32\[cols\]: x + norm(d); another buffer than x.
    pub sum: Binding,
}

/// What a matvec is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// The state buffer.
    pub state: Binding,
    /// f32\[cols\]; with `last_row` f32\[tokens, cols\], of which the last token's row is taken (the head after a prefill)
    pub x: Binding,
    /// Whether x holds a row for each token of the pass.
    pub last_row: bool,
    /// RMS norm of x: weights f32\[cols\] and epsilon. `None` takes x as it is.
    pub norm: Option<(Binding, f32)>,
    /// f32\[rows of all matrices\], in order, gate then up: added to the dot products. In the buffer of the norm's weights, where
    /// there is a norm.
    pub bias: Option<Binding>,
    /// What comes onto x first. On GPUs, of one row, before a norm.
    pub added: Option<Added>,
    /// f32\[rows of all matrices\], or of one of them with [`Epilogue::Gated`]
    pub y: Binding,
}

/// `y = epilogue(matrices · norm(x) + bias)` for one to three matrices of one buffer, of up to three formats. `choice` changes how
/// the rows are shared out, and nothing of the result but the order of its sums.
///
/// # Errors
/// `internal` where the matrices or the bindings do not fit together, `unsupported-quant` for a format without a decoder.
pub fn matvec(tier: Tier, choice: MatvecChoice, matrices: &[Matrix], io: Io, epilogue: Epilogue) -> Result<Dispatch> {
    let first = matrices.first().ok_or_else(|| err!(Internal, "matvec: no matrix"))?;
    let gated = matches!(epilogue, Epilogue::Gated(_));
    let fits = |m: &Matrix| m.cols == first.cols && m.buffer == first.buffer && m.cols.is_multiple_of(32) && m.rows > 0;
    if matrices.len() > 3 || !matrices.iter().all(fits) || (gated && (matrices.len() != 2 || matrices[1].rows != first.rows)) {
        return Err(err!(Internal, "matvec: matrices that do not fit together: {matrices:?}"));
    }
    if io.added.is_some_and(|a| tier.cpu || io.last_row || io.norm.is_none() || a.sum.buffer == io.x.buffer) {
        return Err(err!(Internal, "matvec: nothing can be added to x here: {io:?}"));
    }
    let mut formats: Vec<Format> = Vec::new();
    for m in matrices {
        if !formats.contains(&m.format) {
            formats.push(m.format);
        }
    }
    let decoders = Decoders::of(&formats, tier.packed_dot)?;
    let (mode, softcap, scale, activation) = epilogue.words();
    let base = Variant::new(if tier.cpu { ROWS } else { WORKGROUP }, &[])
        .constant("NORM", u32::from(io.norm.is_some()))
        .constant("BIAS", u32::from(io.bias.is_some()))
        .constant("EPILOGUE", mode)
        .constant("ROWS", choice.rows)
        .with_quants(&decoders)
        .with(activation.part())
        .with(parts::EPILOGUE)
        .with(parts::SEGMENTS)
        .with(CORE)
        .with(if decoders.packed { DOT_I8 } else { DOT_F32 });
    let rows_each = if gated { choice.rows / 2 } else { choice.rows };
    let (mut variant, rows_per_workgroup) = if tier.cpu {
        let x = match (tier.subgroups, decoders.packed) {
            (true, true) => X_QUAD_I8,
            (true, false) => X_QUAD,
            (false, _) => X_EACH,
        };
        let mut rows = base.with(x).set("WG_ROWS", choice.invocations);
        rows.subgroups = tier.subgroups;
        (rows, choice.invocations * rows_each)
    } else {
        let x = if io.added.is_some() { X_ADDED } else { X_EACH };
        (base.with(x).with_reduce(tier, choice.invocations), rows_each)
    };

    let (mut segments, mut workgroups, mut out_row) = (Vec::new(), 0, 0);
    for m in matrices {
        let format = formats.iter().position(|f| *f == m.format).unwrap_or_default() as u32;
        segments.extend([m.base, m.row_vec4, m.rows, format, out_row, workgroups, 0, 0]);
        if !gated || workgroups == 0 {
            out_row += m.rows;
            workgroups += m.rows.div_ceil(rows_per_workgroup);
        }
    }
    segments.resize(3 * 8, 0);
    let rows: u64 = matrices.iter().map(|m| u64::from(m.rows)).sum();
    if io.bias.is_some_and(|b| b.bytes < rows * 4) {
        return Err(err!(Internal, "matvec: {rows} rows have fewer biases: {:?}", io.bias));
    }
    let (norm, [norm_at, bias_at]) = match (io.norm, io.bias) {
        (Some((norm, _)), Some(bias)) => norm.covering(bias)?,
        (norm, bias) => (norm.map(|n| n.0).or(bias).unwrap_or(io.x), [0, 0]),
    };
    let eps = io.norm.map_or(0.0, |n| n.1);
    let x_stride = if io.last_row { first.cols / 4 } else { 0 };
    let grid_x = workgroups.min(MAX_WORKGROUPS);
    let mut params = vec![first.cols / 32, matrices.len() as u32, workgroups, grid_x, eps.to_bits(), softcap, x_stride, scale];
    params.extend([norm_at / 4, bias_at, 0, 0]);
    params.extend(segments);
    let end = matrices.iter().map(|m| u64::from(m.base) + u64::from(m.rows) * u64::from(m.row_vec4)).max().unwrap_or(0);
    let mut bindings = vec![io.state, io.x, norm, Binding::read(first.buffer, 0, end * 16), io.y];
    bindings.extend(io.added.iter().flat_map(|a| [a.d, a.weights, a.sum]));
    parts::bind_codebooks(&mut variant, &mut bindings, matrices)?;
    Ok(Dispatch {
        variant,
        params,
        bindings,
        workgroups: [grid_x, workgroups.div_ceil(grid_x), 1],
        cost: Cost { fixed: matrices.iter().map(|m| u64::from(m.rows) * u64::from(m.cols)).sum(), per_key: 0 },
        continues: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::BufferId;

    #[test]
    fn norm_weights_and_biases_are_bound_as_one() {
        let q = Matrix { format: Format::Q4_0, buffer: BufferId(3), base: 0, rows: 65, cols: 64, row_vec4: 3, codebooks: None };
        let at = |id, offset, floats: u64| Binding::read(BufferId(id), offset, floats * 4);
        let (weights, bias) = (at(4, 1024, 64), at(4, 256, 130));
        let io = Io {
            state: at(0, 0, 64),
            x: at(1, 0, 64),
            last_row: false,
            norm: Some((weights, 1e-5)),
            bias: Some(bias),
            added: None,
            y: at(2, 0, 130),
        };
        let made = |io| matvec(Tier::BASE, MatvecChoice::of(Tier::BASE, 64), &[q, q], io, Epilogue::STORE);
        let both = made(io).unwrap();
        assert_eq!((both.bindings[2], both.params[8], both.params[9]), (at(4, 256, 256), 192 / 4, 0));
        let bias_alone = made(Io { norm: None, ..io }).unwrap();
        assert_eq!((bias_alone.bindings[2], bias_alone.params[9]), (bias, 0));
        assert_eq!(made(Io { norm: None, bias: None, ..io }).unwrap().bindings[2], io.x);
        assert!(made(Io { bias: Some(at(5, 256, 130)), ..io }).is_err(), "in another buffer");
        assert!(made(Io { bias: Some(at(4, 256, 129)), ..io }).is_err(), "too few");
    }
}
