//! Attention of one new token: norm and rotation of q and k, the append to the KV pool, softmax and the sum of values.

use super::attention::{AttentionBuffers, AttentionShape, reads, writes};
use super::{Dispatch, Source};
use crate::source;
use crate::tensor::Tier;

const WORKGROUP: Source = source!("attention_decode");
const CPU: Source = source!("attention_decode_cpu");

/// `att` of the token at `state`'s position; appends its key and value to the pool. One dispatch.
pub fn attention_decode(tier: Tier, shape: &AttentionShape, buffers: &AttentionBuffers) -> Dispatch {
    let b = buffers;
    let mut bindings = vec![reads(b.state), reads(b.qkv), writes(b.kv), reads(b.blocks), writes(b.att)];
    bindings.extend(b.rope_and_norm());
    // Up to four heads to a workgroup, shared out evenly: a group of 6 becomes 3 and 3.
    // On CPU adapters fewer of large heads: each output lies in the invocation, and lavapipe compiles 4 x 256 of it for 7 s.
    let group = shape.group();
    let most = if tier.cpu { (512 / shape.head_dim).clamp(1, 4) } else { 4 };
    let chunks = group.div_ceil(most);
    let heads = group.div_ceil(chunks);
    let variant = shape.variant(if tier.cpu { CPU } else { WORKGROUP }, true).constant("HEADS", heads);
    let variant = if tier.cpu { variant.constant("WG", 8) } else { variant.with_reduce(tier, 128) };
    let workgroups = [shape.n_kv_heads * chunks, 1, 1];
    Dispatch { variant, params: shape.params(), bindings, workgroups, cost: shape.cost(1) }
}
