//! What the two halves of GPU sampling share: buffers, sizes, and the pair of dispatches.
//!
//! A token costs two dispatches. [`sample_candidates`](super::sample_candidates) applies bias and penalties and reduces
//! the vocabulary to a record and up to 64 candidates for each block; [`sample_draw`](super::sample_draw) merges them,
//! draws, and writes the next pass's token and state, so that the next pass can follow in the same submit.

use super::{Binding, BufferId, BufferSpec, Dispatch, Source, state};
use crate::error::Result;
use crate::sample::{GPU_CANDIDATES, RING_LEN};
use crate::source;
use crate::tensor::Tier;

pub(super) const SAMPLE: Source = source!("parts/sample");
pub(super) const SELECT: Source = source!("parts/sample_select");
/// Invocations of a workgroup of the variants with barriers; the radix select has a bin for each.
pub(super) const WORKGROUP: u32 = 256;
/// Tokens of a block there: four for each invocation.
const BLOCK_LEN: u32 = 4 * WORKGROUP;
/// On a CPU adapter: enough strips for every core, few enough for one invocation to merge.
const STRIPS: u32 = 64;
/// Words of a block's record.
const BLOCK_WORDS: u64 = 8;
/// Ids are exact in f32 and fit three bytes.
const MAX_VOCAB: u32 = 0xff_ffff;

/// The buffers of sampling. All start zeroed; the CPU writes `state`, and where the options ask for them `bias`,
/// `counts` and `ring`, when a request starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleBuffers {
    /// The state: [`state::STATE_BYTES`].
    pub state: BufferId,
    /// f32\[n_vocab\]: of the last position. Intact afterwards.
    pub logits: BufferId,
    /// u32: the tokens of the next pass, of which the first is written.
    pub ids: BufferId,
    /// f32\[n_vocab\]: [`state::dense_bias`].
    pub bias: BufferId,
    /// u32\[n_vocab\]: [`state::counts`].
    pub counts: BufferId,
    /// u32\[RING_LEN\]: [`state::ring`].
    pub ring: BufferId,
    /// A record for each block.
    pub blocks: BufferId,
    /// (key, id)\[n_blocks, 64\]
    pub candidates: BufferId,
}

impl SampleBuffers {
    /// What `bias`, `counts`, `ring`, `blocks` and `candidates` must be, in this order.
    pub fn specs(tier: Tier, n_vocab: u32) -> [BufferSpec; 5] {
        let (n_blocks, _) = blocks(tier, n_vocab);
        let spec = |label: &str, words: u64| BufferSpec { label: label.to_owned(), bytes: words * 4 };
        [
            spec("logit bias", n_vocab.into()),
            spec("token counts", n_vocab.into()),
            spec("token ring", RING_LEN.into()),
            spec("sample blocks", u64::from(n_blocks) * BLOCK_WORDS),
            spec("sample candidates", u64::from(n_blocks) * u64::from(GPU_CANDIDATES) * 2),
        ]
    }
}

/// How many blocks the vocabulary makes, and the tokens of each.
pub(super) fn blocks(tier: Tier, n_vocab: u32) -> (u32, u32) {
    let len = if tier.cpu { n_vocab.div_ceil(STRIPS).next_multiple_of(32).max(BLOCK_LEN) } else { BLOCK_LEN };
    (n_vocab.div_ceil(len).max(1), len)
}

/// The uniform of both kernels. Error: `unsupported-architecture` for a vocabulary beyond 2^24.
pub(super) fn params(tier: Tier, n_vocab: u32) -> Result<Vec<u32>> {
    if n_vocab == 0 || n_vocab > MAX_VOCAB {
        return Err(crate::err!(
            UnsupportedArchitecture,
            "sampling: expected a vocabulary of 1 to {MAX_VOCAB} tokens, found {n_vocab}"
        ));
    }
    let (n_blocks, len) = blocks(tier, n_vocab);
    Ok(vec![n_vocab, n_blocks, len, 0])
}

/// The bytes of a record or candidate buffer, and of a vector over the vocabulary.
pub(super) fn bytes(tier: Tier, n_vocab: u32) -> (u64, u64, u64) {
    let n_blocks = u64::from(blocks(tier, n_vocab).0);
    (n_blocks * BLOCK_WORDS * 4, n_blocks * u64::from(GPU_CANDIDATES) * 8, u64::from(n_vocab) * 4)
}

/// The state, as forward kernels bind it.
pub fn state_read(buffer: BufferId) -> Binding {
    Binding::read(buffer, 0, state::STATE_BYTES)
}

/// Both halves: after them `ids[0]` and the state are ready for the next pass, or the state says why not.
pub fn sample(tier: Tier, n_vocab: u32, buffers: &SampleBuffers) -> Result<[Dispatch; 2]> {
    Ok([
        super::sample_candidates::sample_candidates(tier, n_vocab, buffers)?,
        super::sample_draw::sample_draw(tier, n_vocab, buffers)?,
    ])
}
