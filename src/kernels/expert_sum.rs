//! What a token's experts gave, each by its weight, onto the residual stream: `shaders/expert_sum.wgsl`.

use super::experts::Picks;
use super::{Binding, Cost, Dispatch, MAX_WORKGROUPS, Source, Variant, state};
use crate::err;
use crate::error::Result;
use crate::source;

const EXPERT_SUM: Source = source!("expert_sum");
/// Invocations of a workgroup, four columns each.
const WG: u32 = 64;

/// What the sum is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// The state buffer: done, and how many of the tokens are there.
    pub state: Binding,
    /// The weights.
    pub picks: Picks,
    /// f32\[tokens, slots, cols\]
    pub given: Binding,
    /// f32\[tokens, cols\]
    pub x: Binding,
    /// The most tokens of a pass.
    pub tokens: u32,
    /// Columns, a multiple of 4.
    pub cols: u32,
}

/// `x[t, :] += scale · Σ_s weight[t, s] · given[t, s, :]`
///
/// # Errors
/// `internal` where bindings are too small.
pub fn expert_sum(io: Io, scale: f32) -> Result<Dispatch> {
    let Picks { binding, row, first, slots } = io.picks;
    let floats = u64::from(io.tokens) * u64::from(io.cols);
    let fits = io.cols.is_multiple_of(4)
        && io.cols > 0
        && (1..=MAX_WORKGROUPS).contains(&io.tokens)
        && io.x.bytes >= floats * 4
        && io.given.bytes >= floats * u64::from(slots) * 4
        && floats * u64::from(slots) <= u64::from(u32::MAX)
        && first + slots <= row
        && binding.bytes >= u64::from(io.tokens) * u64::from(row) * 8;
    if !fits {
        return Err(err!(Internal, "expert_sum: {io:?} does not fit together"));
    }
    let vec4s = io.cols / 4;
    Ok(Dispatch {
        variant: Variant::new(EXPERT_SUM, &[state::STATE]).constant("WG", WG),
        params: vec![vec4s, io.tokens, row, first, slots, scale.to_bits()],
        bindings: vec![io.state, binding, io.given, io.x],
        workgroups: [vec4s.div_ceil(WG), io.tokens, 1],
        cost: Cost { fixed: floats * u64::from(slots), per_key: 0 },
        continues: false,
    })
}
