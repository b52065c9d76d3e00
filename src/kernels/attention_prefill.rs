//! Attention of a chunk of tokens over the KV pool, after [`kv_append`](super::kv_append::kv_append).

use super::attention::{AttentionBuffers, AttentionShape, KV_BLOCK, Splits, reads, writes};
use super::{Dispatch, MAX_WORKGROUPS, Source, sliced};
use crate::err;
use crate::error::Result;
use crate::source;
use crate::tensor::Tier;

const WORKGROUP: Source = source!("attention_prefill");
const CPU: Source = source!("attention_prefill_cpu");

/// Queries of a workgroup, in both kernels: of one head.
pub const QUERIES: u32 = 32;
/// Where the params hold the first workgroup of a slice.
pub const FIRST: usize = 7;

/// `att` of up to `tokens` tokens from `state`'s position on. `rope` and `qk_norm` are not touched. In slices of heads and
/// queries, for a context as long as the block table. Error: `internal` for more workgroups than a dispatch may have,
/// or missing sinks.
pub fn attention_prefill(tier: Tier, shape: &AttentionShape, buffers: &AttentionBuffers, tokens: u32) -> Result<Vec<Dispatch>> {
    let b = buffers;
    let variant = if tier.cpu { shape.variant(CPU, false).constant("WG", QUERIES / 4) } else { shape.variant(WORKGROUP, false) };
    let mut bindings = vec![reads(b.state), reads(b.qkv), reads(b.kv), reads(b.blocks), writes(b.att)];
    let variant = shape.link_sinks(variant, &mut bindings, b.sinks, true)?;
    let workgroups = u64::from(shape.n_heads) * u64::from(tokens.div_ceil(QUERIES));
    if workgroups > u64::from(MAX_WORKGROUPS) {
        return Err(err!(
            Internal,
            "attention_prefill: {} heads and {tokens} tokens make {workgroups} workgroups",
            shape.n_heads
        ));
    }
    let context = u32::try_from(b.blocks.bytes / 4).unwrap_or(u32::MAX).saturating_mul(KV_BLOCK);
    let whole = Dispatch {
        variant,
        params: shape.params(Splits::ONE),
        bindings,
        workgroups: [1, workgroups as u32, 1],
        cost: shape.cost(tokens),
        continues: false,
    };
    Ok(sliced(tier, whole, FIRST, context))
}
