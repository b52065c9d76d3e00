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
    let group = shape.group();
    let (variant, workgroups) = if tier.cpu {
        let slice = 2; // in vec4, of the output of one invocation
        let fits = |heads: &u32| group.is_multiple_of(*heads) && heads * (shape.head_dim / 4 / slice) <= 128;
        let heads = (1..=group).rev().find(fits).unwrap_or(1);
        let variant = shape.variant(CPU, true).constant("HEADS", heads).constant("SLICE4", slice);
        (variant, shape.n_heads / heads)
    } else {
        // Up to four heads to a workgroup, shared out evenly: a group of 6 becomes 3 and 3.
        let chunks = group.div_ceil(4);
        let variant = shape.variant(WORKGROUP, true).constant("HEADS", group.div_ceil(chunks)).with_reduce(tier, 128);
        (variant, shape.n_kv_heads * chunks)
    };
    Dispatch { variant, params: shape.params(), bindings, workgroups: [workgroups, 1, 1] }
}
