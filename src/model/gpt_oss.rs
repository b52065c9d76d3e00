//! gpt-oss: experts whose gates are bounded, biases everywhere, a learned share of attention for nothing at all (sinks), windows in
//! every other layer, rope in halves with YaRN.

use super::architecture::HalfNorms;
use super::{Architecture, Facts};
use crate::error::Result;
use crate::kernels::attention::Rope;
use crate::kernels::parts::Activation;

/// Keys that a windowed layer sees, where a file does not say it.
const WINDOW: u32 = 128;

pub(super) fn gpt_oss(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = facts.common()?;
    a.rope = Rope::Neox;
    facts.windows(&mut a, WINDOW, 2)?;
    a.activation = Activation::SwigluOai;
    a.ffn_norms = HalfNorms::before("post_attention_norm");
    a.experts = facts.experts(a.n_ff, true)?;
    Ok(a)
}
