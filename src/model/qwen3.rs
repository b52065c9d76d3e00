//! Qwen 3 (dense): RMS norm of each head of q and k before rope, heads wider than the residual stream divided by their
//! number, SwiGLU; rope turns the two halves of a head.

use super::{Architecture, Facts};
use crate::error::Result;
use crate::kernels::attention::Rope;

pub(super) fn read(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = facts.common()?;
    a.rope = Rope::Neox;
    a.qk_norm = true;
    Ok(a)
}
