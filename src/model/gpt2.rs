//! GPT-2 (learned positions, q, k and v in one tensor) and StarCoder 2 (rope, fewer heads of keys and values): LayerNorm, biases,
//! a feed-forward without a gate.

use super::{Architecture, Facts};
use crate::error::Result;
use crate::kernels::attention::Rope;
use crate::kernels::norm::NormKind;
use crate::kernels::parts::Activation;

pub(super) fn gpt2(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = starcoder2(facts)?;
    (a.rope, a.rot_dim) = (Rope::None, 0);
    a.learned_positions = true;
    Ok(a)
}

pub(super) fn starcoder2(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = facts.block(NormKind::Layer)?;
    a.rope = Rope::Neox;
    (a.gated, a.activation) = (false, Activation::GeluTanh);
    Ok(a)
}
