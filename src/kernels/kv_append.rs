//! Prefill's first half of attention: norm and rotation of q and k for a chunk, and the append to the KV pool.

use super::attention::{AttentionBuffers, AttentionShape, Splits, reads, writes};
use super::{Cost, Dispatch, Source};
use crate::source;
use crate::tensor::Tier;

const KV_APPEND: Source = source!("kv_append");
const LANES_ONE: Source = source!("parts/lanes_one");
const LANES_WORKGROUP: Source = source!("parts/lanes_workgroup");

/// Turns q in place and appends k and v, for up to `tokens` tokens from `state`'s position on. `att` is not touched.
pub fn kv_append(tier: Tier, shape: &AttentionShape, buffers: &AttentionBuffers, tokens: u32) -> Dispatch {
    let b = buffers;
    let mut bindings = vec![reads(b.state), writes(b.qkv), writes(b.kv), reads(b.blocks)];
    bindings.extend(b.rope_and_norm());
    let variant = shape.variant(KV_APPEND, true);
    let heads = shape.n_heads + 2 * shape.n_kv_heads;
    let (variant, items) = if tier.cpu {
        (variant.constant("WG", 8).with(LANES_ONE), 8)
    } else {
        // A lane for each vec4 of the head.
        let lanes = (shape.head_dim / 4).next_power_of_two().max(32);
        (variant.with_reduce(tier, lanes).with(LANES_WORKGROUP), 1)
    };
    let workgroups = [heads.div_ceil(items), tokens, 1];
    let cost = Cost { fixed: u64::from(tokens) * shape.qkv_len(), per_key: 0 };
    Dispatch { variant, params: shape.params(Splits::ONE), bindings, workgroups, cost, continues: false }
}
