//! OLMo 2: RMS norms of what each half adds and none before it, norms of q and k over all heads, SwiGLU, rope in halves.
//! OLMoE: norms before each half, and experts with the weights of a softmax over all.

use super::architecture::{HalfNorms, QkNorm};
use super::{Architecture, Facts};
use crate::error::Result;
use crate::kernels::attention::Rope;

pub(super) fn olmo2(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = facts.common()?;
    let added = |name| HalfNorms { before: None, added: Some(name), after: None };
    a.rope = Rope::Neox;
    a.qk_norm = QkNorm::Whole;
    a.attention_norms = added("post_attention_norm");
    a.ffn_norms = added("post_ffw_norm");
    Ok(a)
}

pub(super) fn olmoe(facts: &Facts<'_>) -> Result<Architecture> {
    let a = facts.common()?;
    Ok(Architecture { rope: Rope::Neox, qk_norm: QkNorm::Whole, experts: facts.experts(a.n_ff, false)?, ..a })
}
