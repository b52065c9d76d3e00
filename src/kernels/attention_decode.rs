//! Attention of one new token: norm and rotation of q and k, the append to the KV pool, softmax and the sum of values.

use super::attention::{AttentionBuffers, AttentionShape, reads, writes};
use super::{Dispatch, Source};
use crate::source;
use crate::tensor::Tier;

const CPU: Source = source!("attention_decode_cpu");

/// `att` of the token at `state`'s position; appends its key and value to the pool. One dispatch.
pub fn attention_decode(tier: Tier, shape: &AttentionShape, buffers: &AttentionBuffers) -> Dispatch {
    let b = buffers;
    let mut bindings = vec![reads(b.state), reads(b.qkv), writes(b.kv), reads(b.blocks), writes(b.att)];
    bindings.extend(b.rope_and_norm());
    let _ = tier;
    let slice = 2; // in vec4, of the output of one invocation
    let group = shape.group();
    let fits = |heads: &u32| group.is_multiple_of(*heads) && heads * (shape.head_dim / 4 / slice) <= 128;
    let heads = (1..=group).rev().find(fits).unwrap_or(1);
    Dispatch {
        variant: shape.variant(CPU, true).constant("HEADS", heads).constant("SLICE4", slice),
        params: shape.params(),
        bindings,
        workgroups: [shape.n_heads / heads, 1, 1],
    }
}
