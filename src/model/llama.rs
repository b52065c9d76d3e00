//! Llama 1 to 3.x, Mistral, SmolLM 1 and 2, TinyLlama: RMS norm, interleaved rope (the file's q and k rows are permuted
//! for it), SwiGLU.

use super::{Architecture, Facts};
use crate::error::Result;

pub(super) fn read(facts: &Facts<'_>) -> Result<Architecture> {
    facts.common()
}
