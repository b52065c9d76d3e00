//! Qwen 2 and 2.5 (biases of q, k and v) and Qwen 3 (RMS norm of each head of q and k before rope, heads wider than the
//! residual stream divided by their number): SwiGLU; rope turns the two halves of a head. Each dense, or with experts: of Qwen 2 with
//! the weights of a softmax over all and a shared one.

use super::architecture::QkNorm;
use super::{Architecture, Facts};
use crate::error::Result;
use crate::kernels::attention::Rope;

pub(super) fn qwen2(facts: &Facts<'_>) -> Result<Architecture> {
    Ok(Architecture { rope: Rope::Neox, ..facts.common()? })
}

pub(super) fn qwen3(facts: &Facts<'_>) -> Result<Architecture> {
    Ok(Architecture { qk_norm: QkNorm::Heads, ..qwen2(facts)? })
}

pub(super) fn qwen2moe(facts: &Facts<'_>) -> Result<Architecture> {
    let a = qwen2(facts)?;
    Ok(Architecture { experts: facts.experts(a.n_ff, false)?, ..a })
}

pub(super) fn qwen3moe(facts: &Facts<'_>) -> Result<Architecture> {
    let a = qwen3(facts)?;
    Ok(Architecture { experts: facts.experts(a.n_ff, true)?, ..a })
}
