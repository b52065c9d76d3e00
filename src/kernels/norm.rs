//! RMS norm of a pass's tokens: `shaders/norm.wgsl` (a workgroup a token) and `shaders/norm_rows.wgsl` (an invocation a
//! token, for CPU adapters). Decode needs it for norms after a block only: `matvec` norms its input itself.

use super::{Binding, Cost, Dispatch, MAX_WORKGROUPS, Source, Variant, state};
use crate::err;
use crate::error::Result;
use crate::source;
use crate::tensor::Tier;

const CORE: Source = source!("parts/norm_core");
const WORKGROUP: Source = source!("norm");
const ROWS: Source = source!("norm_rows");
/// Tokens of a workgroup of `norm_rows`.
const CPU_WG: u32 = 8;

/// What becomes of the normed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Into {
    /// `out = normed`
    Store,
    /// `out += normed`: onto the residual stream (Gemma's norms after a block).
    Add,
}

/// What a norm is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// The state buffer: done, and how many of the tokens are there.
    pub state: Binding,
    /// f32\[tokens, cols\]
    pub a: Binding,
    /// f32\[cols\]
    pub weights: Binding,
    /// f32\[tokens, cols\]; another buffer than a
    pub out: Binding,
    /// The most tokens of a pass.
    pub tokens: u32,
    /// Floats in a row, a multiple of 4.
    pub cols: u32,
}

/// `out[t, :] = a[t, :] · w / sqrt(mean(a[t, :]²) + eps)` (Zhang and Sennrich 2019, arXiv 1910.07467), or `+=`.
///
/// # Errors
/// `internal` where bindings are too small or a and out are one buffer.
pub fn norm(tier: Tier, io: Io, eps: f32, into: Into) -> Result<Dispatch> {
    let (row, floats) = (u64::from(io.cols), u64::from(io.tokens) * u64::from(io.cols));
    let fits = io.a.bytes >= floats * 4 && io.out.bytes >= floats * 4 && io.weights.bytes >= row * 4;
    if !fits || !io.cols.is_multiple_of(4) || io.cols == 0 || io.tokens > MAX_WORKGROUPS || io.a.buffer == io.out.buffer {
        return Err(err!(Internal, "norm: {} tokens of {} do not fit {io:?}", io.tokens, io.cols));
    }
    let vec4s = io.cols / 4;
    let base = Variant::new(if tier.cpu { ROWS } else { WORKGROUP }, &[state::STATE, CORE])
        .constant("ADD", u32::from(into == Into::Add));
    let (variant, workgroups) = if tier.cpu {
        (base.constant("WG", CPU_WG), io.tokens.div_ceil(CPU_WG))
    } else {
        (base.with_reduce(tier, vec4s.next_power_of_two().clamp(32, 256)), io.tokens)
    };
    Ok(Dispatch {
        variant,
        params: vec![vec4s, io.tokens, eps.to_bits()],
        bindings: vec![io.state, io.a, io.weights, io.out],
        workgroups: [workgroups, 1, 1],
        cost: Cost { fixed: floats, per_key: 0 },
        continues: false,
    })
}
