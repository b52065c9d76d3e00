//! Qwen 3.5 (dense) and what it shares with Qwen3-Next: gated delta nets in three of four layers; in the fourth attention
//! with a gate, norms of q and k, and a part of each head rotated. Norm weights are stored as 1 + w, `ssm_a` as -exp(A_log).

use super::architecture::{HalfNorms, QkNorm};
use super::recurrence::Recurrence;
use super::{Architecture, Facts};
use crate::error::Result;
use crate::kernels::attention::Rope;

/// Qwen 3.5: its file has the value heads of one key head lie `group_count` apart.
pub(super) fn qwen35(facts: &Facts<'_>) -> Result<Architecture> {
    hybrid(facts, false)
}

/// Qwen 3.5 with experts in every layer.
pub(super) fn qwen35moe(facts: &Facts<'_>) -> Result<Architecture> {
    let a = qwen35(facts)?;
    Ok(Architecture { experts: facts.experts(a.n_ff, true)?, ..a })
}

/// Qwen3-Next: experts in every layer, and the value heads of one key head side by side.
pub(super) fn qwen3next(facts: &Facts<'_>) -> Result<Architecture> {
    let a = hybrid(facts, true)?;
    Ok(Architecture { experts: facts.experts(a.n_ff, true)?, ..a })
}

fn hybrid(facts: &Facts<'_>, grouped: bool) -> Result<Architecture> {
    let mut a = facts.common()?;
    let layers = facts.recurrent_layers(a.n_layers)?;
    a.recurrence = Some(Recurrence { mixer: facts.delta_net(grouped, a.norm.eps)?, layers });
    a.rope = Rope::Neox;
    a.qk_norm = QkNorm::Heads;
    a.attention_gate = true;
    a.ffn_norms = HalfNorms::before("post_attention_norm");
    Ok(a)
}
