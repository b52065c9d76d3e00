//! Attention of one new token: norm and rotation of q and k, the append to the KV pool, softmax and the sum of values.

use super::attention::{AttentionBuffers, AttentionShape, SplitRule, Splits, reads, writes};
use super::attention_reduce::attention_reduce;
use super::{Dispatch, Source};
use crate::error::Result;
use crate::source;
use crate::tensor::Tier;

const WORKGROUP: Source = source!("attention_decode");
const CPU: Source = source!("attention_decode_cpu");

/// Up to four heads to a workgroup, shared out evenly: a group of 6 becomes 3 and 3.
/// On CPU adapters fewer of large heads: each output lies in the invocation, and lavapipe compiles 4 x 256 of it for 7 s.
/// Gives the workgroups of a kv head.
fn chunks(tier: Tier, shape: &AttentionShape) -> u32 {
    let most = if tier.cpu { (512 / shape.head_dim).clamp(1, 4) } else { 4 };
    shape.group().div_ceil(most)
}

/// The splits of a layer's keys for sequences of up to `positions` tokens.
pub fn splits(tier: Tier, shape: &AttentionShape, rule: SplitRule, positions: u32) -> Splits {
    rule.splits(shape, shape.n_kv_heads * chunks(tier, shape), positions)
}

/// `att` of the token at `state`'s position; appends its key and value to the pool. One dispatch, and with more than one split
/// another that merges them. Error: `internal` for a shape with sinks that has no buffer of them.
pub fn attention_decode(tier: Tier, shape: &AttentionShape, buffers: &AttentionBuffers, splits: Splits) -> Result<Vec<Dispatch>> {
    let b = buffers;
    let out = if splits.count > 1 { b.parts } else { b.att };
    let mut bindings = vec![reads(b.state), reads(b.qkv), writes(b.kv), reads(b.blocks), writes(out)];
    bindings.extend(b.rope_and_norm());
    let chunks = chunks(tier, shape);
    let variant = shape
        .variant(if tier.cpu { CPU } else { WORKGROUP }, true)
        .constant("HEADS", shape.group().div_ceil(chunks))
        .constant("PARTIAL", u32::from(splits.count > 1));
    let variant = if tier.cpu { variant.constant("WG", 8) } else { variant.with_reduce(tier, 128) };
    let variant = shape.link_sinks(variant, &mut bindings, b.sinks, splits.count == 1)?;
    let workgroups = [shape.n_kv_heads * chunks, splits.count, 1];
    let mut dispatches =
        vec![Dispatch { variant, params: shape.params(splits), bindings, workgroups, cost: shape.cost(1), continues: false }];
    if splits.count > 1 {
        dispatches.push(attention_reduce(shape, b, splits)?);
    }
    Ok(dispatches)
}
