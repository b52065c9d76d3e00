//! Causal attention of a chunk of tokens over the KV pool, after [`kv_append`](super::kv_append::kv_append).

use super::attention::{AttentionBuffers, AttentionShape, Splits, reads, writes};
use super::{Dispatch, Source};
use crate::source;
use crate::tensor::Tier;

const WORKGROUP: Source = source!("attention_prefill");
const CPU: Source = source!("attention_prefill_cpu");

/// `att` of up to `tokens` tokens from `state`'s position on. `rope` and `qk_norm` are not touched.
pub fn attention_prefill(tier: Tier, shape: &AttentionShape, buffers: &AttentionBuffers, tokens: u32) -> Dispatch {
    let b = buffers;
    let (variant, queries) =
        if tier.cpu { (shape.variant(CPU, false).constant("WG", 8), 8 * 4) } else { (shape.variant(WORKGROUP, false), 32) };
    Dispatch {
        variant,
        params: shape.params(Splits::ONE),
        bindings: vec![reads(b.state), reads(b.qkv), reads(b.kv), reads(b.blocks), writes(b.att)],
        workgroups: [shape.n_heads, tokens.div_ceil(queries), 1],
        cost: shape.cost(tokens),
    }
}
