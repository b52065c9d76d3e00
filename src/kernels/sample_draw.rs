//! The second half of sampling: `shaders/sample_draw.wgsl` (one workgroup) and `shaders/sample_draw_single.wgsl` (one
//! invocation, for CPU adapters) merge the blocks, draw, and advance the state.

use super::sample::{SAMPLE, SELECT, SampleBuffers, WORKGROUP, bytes, params};
use super::{Binding, Cost, Dispatch, Source, Variant, state};
use crate::error::Result;
use crate::sample::RING_LEN;
use crate::source;
use crate::tensor::Tier;

const FINISH: Source = source!("parts/sample_finish");
const WORKGROUPS: Source = source!("sample_draw");
const SINGLE: Source = source!("sample_draw_single");

/// Records and candidates to the next token, in `ids[0]` and the state. Error: `unsupported-architecture` for a
/// vocabulary beyond 2^24.
pub fn sample_draw(tier: Tier, n_vocab: u32, buffers: &SampleBuffers) -> Result<Dispatch> {
    let shared = [state::STATE, SAMPLE, FINISH];
    let variant = if tier.cpu {
        Variant::new(SINGLE, &shared)
    } else {
        Variant::new(WORKGROUPS, &shared).with_reduce(tier, WORKGROUP).with(SELECT)
    };
    let (block_bytes, candidate_bytes, vocab_bytes) = bytes(tier, n_vocab);
    Ok(Dispatch {
        variant,
        params: params(tier, n_vocab)?,
        bindings: vec![
            Binding::read_write(buffers.state, 0, state::STATE_BYTES),
            Binding::read(buffers.blocks, 0, block_bytes),
            Binding::read(buffers.candidates, 0, candidate_bytes),
            Binding::read(buffers.logits, 0, vocab_bytes),
            Binding::read_write(buffers.ids, 0, 4),
            Binding::read_write(buffers.counts, 0, vocab_bytes),
            Binding::read_write(buffers.ring, 0, u64::from(RING_LEN) * 4),
        ],
        workgroups: [1, 1, 1],
        cost: Cost { fixed: candidate_bytes / 8, per_key: 0 },
        continues: false,
    })
}
