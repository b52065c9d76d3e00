//! Llama 1 to 3.x, Mistral, SmolLM 1 and 2, TinyLlama: RMS norm, interleaved rope (the file's q and k rows are permuted
//! for it), SwiGLU.

use super::{Architecture, Facts};
use crate::error::Result;

pub(super) fn read(facts: &Facts<'_>) -> Result<Architecture> {
    // Biases and experts occur in a few files under this name.
    facts.refuse(&["attn_q.bias", "attn_output.bias", "ffn_down.bias", "ffn_gate_inp.weight", "attn_q_norm.weight"])?;
    facts.common()
}
