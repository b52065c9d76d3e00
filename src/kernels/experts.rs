//! A mixture's matrices, of which each token takes those of the experts that it picked: `shaders/experts.wgsl` (a workgroup
//! per few rows) and `shaders/experts_rows.wgsl` (an invocation per few rows, for CPU adapters). Decode and prefill alike: a
//! prefill has its tokens in the grid. In a tier with `packed_dot` x is rounded to bytes as in a matvec.

use super::matvec::{DOT_F32, DOT_I8, X_EACH, X_QUAD, X_QUAD_I8};
use super::parts::{Activation, Decoders, bind_codebooks};
use super::tuning::MatvecChoice;
use super::{Binding, Cost, Dispatch, MAX_WORKGROUPS, Matrix, Source, Variant, sliced, state};
use crate::err;
use crate::error::Result;
use crate::source;
use crate::tensor::{Format, Tier};

const CORE: Source = source!("parts/experts_core");
const WORKGROUP: Source = source!("experts");
const ROWS: Source = source!("experts_rows");

/// Where the params hold the first token of a slice.
const FIRST: usize = 3;
/// Where the params hold the matrices, four words each.
pub const KINDS_AT: usize = 16;
/// Invocations of a workgroup of `experts_rows`.
const CPU_WG: u32 = 16;

/// Matrices of a run of a layer's experts.
#[derive(Debug, Clone)]
pub struct Run {
    /// Gate and up, or down: each as its first expert has it. The other experts follow, row after row.
    pub matrices: Vec<Matrix>,
    /// Which of the layer's experts is the first.
    pub first: u32,
    /// How many there are in the run.
    pub experts: u32,
}

/// Which picks of a token the matrices are for.
#[derive(Debug, Clone, Copy)]
pub struct Picks {
    /// \[tokens, row\] of (expert, weight), both f32: see [`super::route`].
    pub binding: Binding,
    /// Picks in a token's row.
    pub row: u32,
    /// The first of those that are meant.
    pub first: u32,
    /// How many are meant.
    pub slots: u32,
}

/// A token's part of a buffer: floats `token · stride + at` and on.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// f32\[tokens, stride\]
    pub binding: Binding,
    /// Floats between tokens.
    pub stride: u32,
    /// Where in a token's row it begins, in floats.
    pub at: u32,
}

/// What the experts are bound to.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// The state buffer: done, and how many of the tokens are there.
    pub state: Binding,
    /// A token's input; for [`Step::Down`] one of each of its picks, one after another. In multiples of 4 floats.
    pub x: Place,
    /// RMS norm of x: weights f32\[cols\] and epsilon. For [`Step::Gated`].
    pub norm: Option<(Binding, f32)>,
    /// Who takes what.
    pub picks: Picks,
    /// f32\[experts of the layer, rows\], of gate and then of up: added to the dot products.
    pub bias: Option<(Binding, u32)>,
    /// A token's output: of each of its picks, one after another, or the residual stream.
    pub y: Place,
    /// The most tokens of a pass.
    pub tokens: u32,
}

/// Which half of a feed-forward.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// `y[t, s] = gated(G[e] · norm(x[t]), U[e] · norm(x[t]))` for each pick s, e being its expert.
    Gated(Activation),
    /// `y[t] += scale · Σ_s weight[t, s] · (D[e] · x[t, s])`
    Down {
        /// 1 for none.
        scale: f32,
    },
}

/// One run of experts. A layer whose experts are in several runs takes a dispatch of each: a run leaves the picks of other
/// experts alone. In slices of tokens.
///
/// # Errors
/// `internal` where matrices and bindings do not fit together, `unsupported-quant` for a format without a decoder.
pub fn experts(tier: Tier, run: &Run, io: Io, step: Step) -> Result<Vec<Dispatch>> {
    let (kinds, scale, activation) = match step {
        Step::Gated(activation) => (2, 1.0, activation),
        Step::Down { scale } => (1, scale, Activation::Silu),
    };
    let (first, last) = match run.matrices.as_slice() {
        [only] if kinds == 1 => (only, only),
        [gate, up] if kinds == 2 => (gate, up),
        _ => return Err(err!(Internal, "experts: {} matrices for {step:?}", run.matrices.len())),
    };
    check(run, first, last, &io, step)?;
    let mut formats: Vec<Format> = vec![first.format];
    if last.format != first.format {
        formats.push(last.format);
    }
    let decoders = Decoders::of(&formats, tier.packed_dot)?;
    let base = Variant::new(if tier.cpu { ROWS } else { WORKGROUP }, &[state::STATE])
        .constant("GATED", kinds - 1)
        .constant("NORM", u32::from(io.norm.is_some()))
        .constant("BIAS", u32::from(io.bias.is_some()))
        .with_quants(&decoders)
        .with(activation.part())
        .with(CORE)
        .with(if decoders.packed { DOT_I8 } else { DOT_F32 });
    let (mut variant, rows_each) = if tier.cpu {
        let x = match (tier.subgroups, decoders.packed) {
            (true, true) => X_QUAD_I8,
            (true, false) => X_QUAD,
            (false, _) => X_EACH,
        };
        let mut variant = base.with(x).constant("WG", CPU_WG);
        variant.subgroups = tier.subgroups;
        (variant, CPU_WG * 4 / kinds)
    } else {
        let shared_out = if kinds == 2 { first.cols } else { first.cols.saturating_mul(io.picks.slots) };
        (base.with(X_EACH).with_reduce(tier, MatvecChoice::of(tier, shared_out).invocations), 4 / kinds)
    };
    let (norm, eps) = io.norm.unwrap_or((io.x.binding, 0.0));
    let (bias, bias_experts) = io.bias.unwrap_or((io.x.binding, 0));
    let mut params = vec![
        first.cols / 32,
        first.rows,
        io.tokens,
        0,
        io.x.stride / 4,
        io.x.at / 4,
        io.y.stride,
        io.y.at,
        io.picks.row,
        io.picks.first,
        io.picks.slots,
        run.first,
        run.experts,
        0,
        eps.to_bits(),
        scale.to_bits(),
    ];
    for (i, m) in [first, last].into_iter().enumerate() {
        let up = kinds == 2 && i == 1;
        let format = formats.iter().position(|f| *f == m.format).unwrap_or_default() as u32;
        params.extend([m.base, m.row_vec4, format, if up { bias_experts * m.rows } else { 0 }]);
    }
    let weights = Binding::read(first.buffer, 0, run.end()? * 16);
    let (tokens, slots) = (u64::from(io.tokens), u64::from(io.picks.slots));
    let mut bindings = vec![io.state, io.x.binding, norm, weights, io.y.binding, io.picks.binding, bias];
    bind_codebooks(&mut variant, &mut bindings, &run.matrices)?;
    let whole = Dispatch {
        variant,
        params,
        bindings,
        workgroups: [first.rows.div_ceil(rows_each), io.tokens, if kinds == 2 { io.picks.slots } else { 1 }],
        cost: Cost { fixed: tokens * slots * u64::from(first.rows) * u64::from(first.cols) * u64::from(kinds), per_key: 0 },
        continues: false,
    };
    Ok(sliced(tier, whole, FIRST, 0))
}

impl Run {
    /// Where the last expert's last row ends, in vec4. Error: `internal` beyond what a shader can index.
    pub(super) fn end(&self) -> Result<u64> {
        let end = |m: &Matrix| u64::from(m.base) + u64::from(self.experts) * u64::from(m.rows) * u64::from(m.row_vec4);
        let end = self.matrices.iter().map(end).max().unwrap_or(0);
        if end > u64::from(u32::MAX) {
            return Err(err!(Internal, "experts: {} of {:?} are too many", self.experts, self.matrices));
        }
        Ok(end)
    }
}

/// Shaders index by u32, and read nothing beyond what is bound.
fn check(run: &Run, first: &Matrix, last: &Matrix, io: &Io, step: Step) -> Result<()> {
    let gated = matches!(step, Step::Gated(_));
    let (cols, rows, slots) = (u64::from(first.cols), u64::from(first.rows), u64::from(io.picks.slots));
    let holds = |place: &Place, floats: u64| {
        let row = u64::from(place.at) + floats;
        let whole = u64::from(io.tokens) * u64::from(place.stride);
        row <= u64::from(place.stride) && place.binding.bytes >= whole * 4 && whole <= u64::from(u32::MAX)
    };
    let kinds = if gated { 2 } else { 1 };
    let fits = first.cols.is_multiple_of(32)
        && first.cols > 0
        && first.rows > 0
        && (first.cols, first.rows, first.buffer) == (last.cols, last.rows, last.buffer)
        && run.experts > 0
        && io.x.stride.is_multiple_of(4)
        && io.x.at.is_multiple_of(4)
        && holds(&io.x, if gated { cols } else { cols * slots })
        && holds(&io.y, if gated { rows * slots } else { rows })
        && io.picks.slots > 0
        && u64::from(io.picks.first) + slots <= io.picks.row.into()
        && io.picks.binding.bytes >= u64::from(io.tokens) * u64::from(io.picks.row) * 8
        && io.norm.is_none_or(|(weights, _)| gated && weights.bytes >= cols * 4)
        && io.bias.is_none_or(|(bias, experts)| {
            bias.bytes >= u64::from(experts) * rows * kinds * 4
                && u64::from(run.first) + u64::from(run.experts) <= experts.into()
                && u64::from(experts) * rows * kinds <= u64::from(u32::MAX)
        })
        && (1..=MAX_WORKGROUPS).contains(&io.tokens)
        && slots <= MAX_WORKGROUPS.into()
        && rows <= MAX_WORKGROUPS.into();
    if !fits {
        return Err(err!(Internal, "experts: {run:?} do not fit {io:?}, {step:?}"));
    }
    Ok(())
}
