//! The end of [`attention_decode`](super::attention_decode::attention_decode) over more than one split.

use super::attention::{AttentionBuffers, AttentionShape, Splits, reads, writes};
use super::{Cost, Dispatch, Source};
use crate::error::Result;
use crate::source;

const KERNEL: Source = source!("attention_reduce");
/// Invocations of a workgroup, each with four numbers of the output.
const WG: u32 = 32;

/// `att` from what the splits left in `parts`. Error: as of decode.
pub fn attention_reduce(shape: &AttentionShape, buffers: &AttentionBuffers, splits: Splits) -> Result<Dispatch> {
    let b = buffers;
    let numbers = u64::from(shape.n_heads) * u64::from(shape.head_dim);
    let mut bindings = vec![reads(b.state), reads(b.parts), writes(b.att)];
    let variant = shape.link_sinks(shape.sized(KERNEL).constant("WG", WG), &mut bindings, b.sinks, true)?;
    Ok(Dispatch {
        variant,
        params: shape.params(splits),
        bindings,
        workgroups: [(shape.n_heads * shape.head_dim / 4).div_ceil(WG), 1, 1],
        cost: Cost { fixed: numbers * u64::from(splits.count), per_key: 0 },
        continues: false,
    })
}
