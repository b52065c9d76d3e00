//! The first half of sampling, over the whole vocabulary: `shaders/sample_candidates.wgsl` (a workgroup per 1024 logits)
//! and `shaders/sample_candidates_strip.wgsl` (an invocation per strip, for CPU adapters).

use super::sample::{SAMPLE, SELECT, SampleBuffers, WORKGROUP, blocks, bytes, params, state_read};
use super::{Binding, Cost, Dispatch, Source, Variant, state};
use crate::error::Result;
use crate::source;
use crate::tensor::Tier;

const SCORES: Source = source!("parts/sample_scores");
const WORKGROUPS: Source = source!("sample_candidates");
const STRIP: Source = source!("sample_candidates_strip");
/// Invocations of a workgroup on CPU adapters: a SIMD group of lavapipe, two of SwiftShader.
const STRIP_WORKGROUP: u32 = 8;

/// Logits f32\[n_vocab\] to a record and candidates for each block. Error: `unsupported-architecture` for a vocabulary
/// beyond 2^24.
pub fn sample_candidates(tier: Tier, n_vocab: u32, buffers: &SampleBuffers) -> Result<Dispatch> {
    let (n_blocks, _) = blocks(tier, n_vocab);
    let shared = [state::STATE, SAMPLE, SCORES];
    let (variant, workgroups) = if tier.cpu {
        (Variant::new(STRIP, &shared).set("WG", STRIP_WORKGROUP), n_blocks.div_ceil(STRIP_WORKGROUP))
    } else {
        (Variant::new(WORKGROUPS, &shared).with_reduce(tier, WORKGROUP).with(SELECT), n_blocks)
    };
    let (block_bytes, candidate_bytes, vocab_bytes) = bytes(tier, n_vocab);
    Ok(Dispatch {
        variant,
        params: params(tier, n_vocab)?,
        bindings: vec![
            state_read(buffers.state),
            Binding::read(buffers.logits, 0, vocab_bytes),
            Binding::read(buffers.bias, 0, vocab_bytes),
            Binding::read(buffers.counts, 0, vocab_bytes),
            Binding::read_write(buffers.blocks, 0, block_bytes),
            Binding::read_write(buffers.candidates, 0, candidate_bytes),
        ],
        workgroups: [workgroups, 1, 1],
        cost: Cost { fixed: n_vocab.into(), per_key: 0 },
        continues: false,
    })
}
