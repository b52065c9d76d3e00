//! GPT-NeoX and Pythia (biases, a parallel residual with two norms), Falcon (one norm, or two of other names) and StableLM
//! (SwiGLU, one half after the other): LayerNorm, rope in halves, of a part of each head.

use super::architecture::HalfNorms;
use super::{Architecture, Facts};
use crate::error::Result;
use crate::kernels::attention::Rope;
use crate::kernels::norm::NormKind;
use crate::kernels::parts::Activation;

pub(super) fn gptneox(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = facts.block(NormKind::Layer)?;
    a.rope = Rope::Neox;
    (a.gated, a.activation) = (false, Activation::Gelu);
    a.parallel = facts.bool("use_parallel_residual")?.unwrap_or(true);
    Ok(a)
}

pub(super) fn falcon(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = gptneox(facts)?;
    a.parallel = true;
    a.ffn_norms = HalfNorms::before("attn_norm");
    if facts.has("blk.0.attn_norm_2.weight") {
        a.attention_norms = HalfNorms::before("attn_norm_2");
    }
    Ok(a)
}

pub(super) fn stablelm(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = facts.block(NormKind::Layer)?;
    a.rope = Rope::Neox;
    a.parallel = facts.bool("use_parallel_residual")?.unwrap_or(false);
    if a.parallel {
        a.ffn_norms = a.attention_norms;
    }
    Ok(a)
}
