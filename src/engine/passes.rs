//! What is played: the recordings of a plan, and the same made ready for a device.

use super::cancel::{Cancel, check_cancel};
use crate::err;
use crate::error::Result;
use crate::gpu::{Buffers, Gpu, Prepared};
use crate::kernels::{Recording, matmul};
use crate::model::Plan;

/// The recordings of a model, ready to be played.
pub(super) struct Passes {
    /// One token, by the most positions of the sequence with it, ascending.
    decode: Vec<(u32, Prepared)>,
    /// Prefill passes by the most tokens they take, ascending.
    pub prefill: Vec<(u32, Prepared)>,
    /// The last token's logits.
    pub head: Prepared,
    /// The normed vectors of a pass's tokens, for embeddings.
    pub final_norm: Prepared,
    /// A token from the logits.
    pub sample: Prepared,
}

impl Passes {
    /// The pass over one token of a sequence that with it has `positions` tokens.
    pub(super) fn decode(&self, positions: u32) -> Result<&Prepared> {
        let fits = self.decode.iter().find(|pass| pass.0 >= positions);
        fits.map(|pass| &pass.1).ok_or_else(|| err!(Internal, "no decode pass takes {positions} positions"))
    }
}

/// The recordings of a plan, from which [`Passes`] are made. Each is there once, and only what is played is compiled.
pub(super) struct Recordings {
    decode: Vec<(u32, Recording)>,
    prefill: Vec<(u32, Recording)>,
    head: Recording,
    final_norm: Recording,
    sample: Recording,
}

impl Recordings {
    /// Records what is played of a plan. A model that does not generate has nothing of what only generations play.
    pub fn new(plan: &Plan) -> Result<Self> {
        let buckets = matmul::buckets(plan.options.tier, plan.options.max_prefill).into_iter();
        let generates = plan.architecture.causal;
        let ends = if generates { plan.decode_buckets() } else { Vec::new() };
        Ok(Self {
            decode: ends.into_iter().map(|n| Ok((n, plan.decode(n)?))).collect::<Result<_>>()?,
            prefill: buckets.map(|tokens| Ok((tokens, plan.prefill(tokens)?))).collect::<Result<_>>()?,
            head: if generates { plan.head()? } else { Recording::default() },
            final_norm: plan.final_norm()?,
            sample: if generates { plan.sample()? } else { Recording::default() },
        })
    }

    /// Each of them.
    pub fn all(&self) -> impl Iterator<Item = &Recording> {
        let by_size = self.decode.iter().chain(&self.prefill).map(|(_, recording)| recording);
        by_size.chain([&self.head, &self.final_norm, &self.sample])
    }

    /// Binds their buffers.
    pub async fn prepare(&self, gpu: &Gpu, buffers: &Buffers, cancel: &dyn Cancel) -> Result<Passes> {
        let mut by_size = Vec::new();
        for (most, recording) in self.decode.iter().chain(&self.prefill) {
            check_cancel(cancel)?;
            by_size.push((*most, gpu.prepare(recording, buffers).await?));
        }
        let prefill = by_size.split_off(self.decode.len());
        Ok(Passes {
            decode: by_size,
            prefill,
            head: gpu.prepare(&self.head, buffers).await?,
            final_norm: gpu.prepare(&self.final_norm, buffers).await?,
            sample: gpu.prepare(&self.sample, buffers).await?,
        })
    }
}
