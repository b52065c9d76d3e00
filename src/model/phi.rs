//! Phi 2 (LayerNorm, biases, a parallel residual with one norm, a feed-forward without a gate, rope of a part of each head)
//! and Phi 3, 3.5 and 4-mini (RMS norm, SwiGLU, q, k and v in one tensor and gate and up in another, longrope).

use super::architecture::HalfNorms;
use super::{Architecture, Facts};
use crate::error::Result;
use crate::kernels::attention::Rope;
use crate::kernels::norm::NormKind;
use crate::kernels::parts::Activation;

pub(super) fn phi2(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = facts.block(NormKind::Layer)?;
    a.rope = Rope::Neox;
    a.parallel = true;
    a.ffn_norms = HalfNorms::before("attn_norm");
    (a.gated, a.activation) = (false, Activation::GeluTanh);
    Ok(a)
}

pub(super) fn phi3(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = facts.common()?;
    a.rope = Rope::Neox;
    facts.windows(&mut a, 0, 0)?;
    Ok(a)
}
