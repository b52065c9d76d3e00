//! Norms of a pass's tokens: `shaders/norm.wgsl` (a workgroup a token) and `shaders/norm_rows.wgsl` (an invocation a
//! token, for CPU adapters). Decode needs no RMS norm before a matrix: `matvec` norms its input itself.

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

/// Which norm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norm {
    /// Its formula.
    pub kind: NormKind,
    /// What keeps its divisor from 0.
    pub eps: f32,
}

/// The formula of a norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormKind {
    /// `a · w / sqrt(mean(a²) + eps)` (Zhang and Sennrich 2019, arXiv 1910.07467)
    Rms,
    /// `(a - m) · w / sqrt(mean((a - m)²) + eps)`, m being a's mean (Ba and others 2016, arXiv 1607.06450)
    Layer,
}

/// What becomes of the normed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Into {
    /// `out = normed`
    Store,
    /// `out += normed`: onto the residual stream (Gemma's norms after a block).
    Add,
    /// `out = norm(out)`: `a` is out's buffer and not read for itself.
    InPlace,
}

/// What a norm is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// The state buffer: done, and how many of the tokens are there.
    pub state: Binding,
    /// f32\[tokens, cols\]; see [`Into::InPlace`]
    pub a: Binding,
    /// f32\[cols\]
    pub weights: Binding,
    /// f32\[cols\], added at the end; in the buffer of the weights.
    pub bias: Option<Binding>,
    /// f32: the row of token t starts at `t · stride + offset`. Another buffer than a, unless in place.
    pub out: Binding,
    /// In floats, a multiple of 4.
    pub offset: u32,
    /// In floats, a multiple of 4, at least `cols`.
    pub stride: u32,
    /// The most tokens of a pass.
    pub tokens: u32,
    /// Floats in a row, a multiple of 4.
    pub cols: u32,
}

impl Io {
    fn fits(&self, into: Into) -> bool {
        let (row, tokens) = (u64::from(self.cols), u64::from(self.tokens));
        let end = u64::from(self.offset) + tokens.saturating_sub(1) * u64::from(self.stride) + row;
        let small = std::iter::once(&self.weights).chain(&self.bias);
        let in_place = into == Into::InPlace;
        [self.cols, self.offset, self.stride].iter().all(|n| n.is_multiple_of(4))
            && self.cols > 0
            && self.stride >= self.cols
            && self.tokens <= MAX_WORKGROUPS
            && in_place == (self.a.buffer == self.out.buffer)
            && (in_place || self.a.bytes >= tokens * row * 4)
            && self.out.bytes >= end * 4
            && end <= u64::from(u32::MAX)
            && small.into_iter().all(|b| b.bytes >= row * 4 && b.offset.is_multiple_of(16))
    }
}

/// Norms `tokens` rows of `cols` numbers, with weights and, where there is one, a bias.
///
/// # Errors
/// `internal` where bindings are too small or do not fit together.
pub fn norm(tier: Tier, io: Io, norm: Norm, into: Into) -> Result<Dispatch> {
    if !io.fits(into) {
        return Err(err!(Internal, "norm: {} tokens of {} do not fit {io:?}, {into:?}", io.tokens, io.cols));
    }
    let (small, [w_at, b_at]) = io.weights.covering(io.bias.unwrap_or(io.weights))?;
    let mode = match into {
        Into::Store => 0,
        Into::Add => 1,
        Into::InPlace => 2,
    };
    let vec4s = io.cols / 4;
    let base = Variant::new(if tier.cpu { ROWS } else { WORKGROUP }, &[state::STATE, CORE])
        .constant("LAYER", u32::from(norm.kind == NormKind::Layer))
        .constant("BIAS", u32::from(io.bias.is_some()))
        .constant("INTO", mode);
    let (variant, workgroups) = if tier.cpu {
        (base.constant("WG", CPU_WG), io.tokens.div_ceil(CPU_WG))
    } else {
        (base.with_reduce(tier, vec4s.next_power_of_two().clamp(32, 256)), io.tokens)
    };
    let a = if into == Into::InPlace { small } else { io.a };
    Ok(Dispatch {
        variant,
        params: vec![vec4s, io.tokens, norm.eps.to_bits(), io.offset / 4, io.stride / 4, w_at / 4, b_at / 4],
        bindings: vec![io.state, a, small, io.out],
        workgroups: [workgroups, 1, 1],
        cost: Cost { fixed: u64::from(io.tokens) * u64::from(io.cols), per_key: 0 },
        continues: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::BufferId;

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let at = |id, offset, floats: u64| Binding::read(BufferId(id), offset, floats * 4);
        let (state, a, out) = (at(0, 0, 64), at(1, 0, 3 * 64), at(2, 0, 8 + 2 * 96 + 64));
        let (weights, bias) = (at(3, 512, 64), Some(at(3, 256, 64)));
        let io = Io { state, a, weights, bias, out, offset: 8, stride: 96, tokens: 3, cols: 64 };
        let made = |io, into| norm(Tier::BASE, io, Norm { kind: NormKind::Layer, eps: 1e-5 }, into);
        let store = made(io, Into::Store).unwrap();
        assert_eq!((store.bindings[2], &store.params[3..]), (at(3, 256, 128), [2, 24, 16, 0].as_slice()));
        assert!(made(Io { a: out, ..io }, Into::InPlace).is_ok());
        let refused = |io, into| made(io, into).is_err();
        assert!(refused(io, Into::InPlace), "in place, from another buffer");
        assert!(refused(Io { a: out, ..io }, Into::Add), "read and written at once");
        assert!(refused(Io { offset: 12, ..io }, Into::Store), "out is too short");
        assert!(refused(Io { offset: 6, ..io }, Into::Store), "no whole vec4");
        assert!(refused(Io { stride: 60, ..io }, Into::Store), "rows lie over one another");
        assert!(refused(Io { tokens: 4, stride: 64, ..io }, Into::Store), "a is too short");
        assert!(refused(Io { bias: Some(at(4, 256, 64)), ..io }, Into::Store), "the bias lies in another buffer");
        assert!(refused(Io { bias: Some(at(3, 256, 63)), ..io }, Into::Store), "the bias is too short");
    }
}
