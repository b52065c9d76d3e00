//! Gemma 1, 2 and 3 (text): scaled embedding, GeGLU; from 2 on norms before and after each half, and windowed layers; 2 has
//! soft-caps, 3 q/k-norm and a rope base for each kind of layer. Norm weights are stored as 1 + w.

use super::architecture::{HalfNorms, QkNorm};
use super::rope::Factors;
use super::{Architecture, Facts};
use crate::error::Result;
use crate::kernels::attention::Rope;
use crate::kernels::parts::Activation;

pub(super) fn gemma(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = facts.common()?;
    a.rope = Rope::Neox;
    a.activation = Activation::GeluTanh;
    a.embedding_scale = (a.n_embd as f32).sqrt();
    Ok(a)
}

pub(super) fn gemma2(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = with_added_norms(facts, 46)?;
    facts.windows(&mut a, 4096, 2)?;
    a.attention_softcap = facts.f32("attn_logit_softcapping")?.unwrap_or(50.0);
    a.logit_softcap = facts.f32("final_logit_softcapping")?.unwrap_or(30.0);
    Ok(a)
}

pub(super) fn gemma3(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = with_added_norms(facts, 62)?;
    facts.windows(&mut a, 0, 6)?;
    // Windowed layers keep the base of 10,000 and are never scaled.
    a.rope_window.theta = facts.f64("rope.freq_base_swa")?.unwrap_or(10_000.0);
    a.rope_window.linear_factor = 1.0;
    a.rope_window.yarn = None;
    a.rope_window.factors = Factors::None;
    a.logit_softcap = facts.f32("final_logit_softcapping")?.unwrap_or(0.0);
    a.qk_norm = QkNorm::Heads;
    Ok(a)
}

/// What 2 and 3 share. The 27B models, known by their layers, scale attention by (n_embd / n_heads)^-1/2 instead of head_dim^-1/2.
fn with_added_norms(facts: &Facts<'_>, layers_27b: u32) -> Result<Architecture> {
    let mut a = gemma(facts)?;
    if a.n_layers == layers_27b {
        a.attention_scale = 1.0 / (a.n_embd as f32 / a.n_heads.max(1) as f32).sqrt();
    }
    a.attention_norms = HalfNorms { added: Some("post_attention_norm"), ..a.attention_norms };
    a.ffn_norms = HalfNorms { added: Some("post_ffw_norm"), ..a.ffn_norms };
    Ok(a)
}
