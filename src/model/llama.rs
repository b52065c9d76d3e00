//! Llama 1 to 3.x, Mistral, SmolLM 1 and 2, TinyLlama: RMS norm, interleaved rope (the file's q and k rows are permuted
//! for it), SwiGLU; Mixtral: the same, with experts. SmolLM 3: the same, with layers that turn nothing.

use super::{Architecture, Facts};
use crate::error::Result;

/// SmolLM 3: the last of so many layers has no rope. Files do not say it.
const NOPE_EVERY: usize = 4;

pub(super) fn llama(facts: &Facts<'_>) -> Result<Architecture> {
    let a = facts.common()?;
    Ok(Architecture { experts: facts.experts(a.n_ff, true)?, ..a })
}

pub(super) fn smollm3(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = facts.common()?;
    a.layers.iter_mut().skip(NOPE_EVERY - 1).step_by(NOPE_EVERY).for_each(|layer| layer.rotated = false);
    Ok(a)
}
