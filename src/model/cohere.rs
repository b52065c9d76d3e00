//! Command R (`command-r`) and Command R7B (`cohere2`): LayerNorm without biases, a parallel residual with one norm, SwiGLU, scaled
//! logits. Cohere 2 has windows, in whose layers alone rope turns.

use super::architecture::HalfNorms;
use super::{Architecture, Facts};
use crate::error::Result;
use crate::kernels::norm::NormKind;

pub(super) fn command_r(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = facts.block(NormKind::Layer)?;
    a.parallel = true;
    a.ffn_norms = HalfNorms::before("attn_norm");
    a.logit_scale = facts.f32("logit_scale")?.unwrap_or(a.logit_scale);
    Ok(a)
}

pub(super) fn cohere2(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = command_r(facts)?;
    facts.windows(&mut a, 4096, 4)?;
    a.layers.iter_mut().for_each(|layer| layer.rotated = layer.window > 0);
    Ok(a)
}
