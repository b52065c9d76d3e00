//! Gemma 3 (text): scaled embedding, q/k-norm, norms before and after each half, GeGLU, five windowed layers to one
//! without, each kind with its own rope base. Norm weights are stored as 1 + w.

use super::{Architecture, Facts};
use crate::error::Result;
use crate::kernels::attention::Rope;
use crate::kernels::parts::Activation;

/// Layers of the 27B model, the one whose attention scale is (n_embd / n_heads)^-1/2 instead of head_dim^-1/2.
const LAYERS_27B: u32 = 62;

pub(super) fn read(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = facts.common()?;
    a.rope = Rope::Neox;
    a.window = facts.u32("attention.sliding_window")?.unwrap_or(0).min(a.context_length); // a wider one sees all, too
    a.window_pattern = 6;
    // Windowed layers keep the base of 10,000 and are never scaled.
    a.rope_window.theta = facts.f64("rope.freq_base_swa")?.unwrap_or(10_000.0);
    a.rope_window.linear_factor = 1.0;
    a.activation = Activation::GeluTanh;
    a.embedding_scale = (a.n_embd as f32).sqrt();
    if a.n_layers == LAYERS_27B {
        a.attention_scale = 1.0 / (a.n_embd as f32 / a.n_heads.max(1) as f32).sqrt();
    }
    a.logit_softcap = facts.f64("final_logit_softcapping")?.unwrap_or(0.0) as f32;
    a.qk_norm = true;
    a.post_norms = true;
    Ok(a)
}
