//! Encoders, whose tokens see all others: BERT (learned positions, biases, GELU) and Nomic's (rope in halves, a SiLU gate). Both add
//! the type of the text to its embedding and norm it, norm the stream after each half by LayerNorm, and end there.

use super::architecture::HalfNorms;
use super::{Architecture, Facts};
use crate::error::Result;
use crate::kernels::attention::Rope;
use crate::kernels::norm::NormKind;
use crate::kernels::parts::Activation;

pub(super) fn bert(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = nomic_bert(facts)?;
    (a.rope, a.rot_dim) = (Rope::None, 0);
    a.learned_positions = true;
    (a.gated, a.activation) = (false, Activation::Gelu);
    Ok(a)
}

pub(super) fn nomic_bert(facts: &Facts<'_>) -> Result<Architecture> {
    let after = |name| HalfNorms { before: None, added: None, after: Some(name) };
    Ok(Architecture {
        causal: facts.bool("attention.causal")?.unwrap_or(false),
        rope: Rope::Neox,
        token_types: facts.has("token_types.weight"),
        embedding_norm: Some("token_embd_norm"),
        attention_norms: after("attn_output_norm"),
        ffn_norms: after("layer_output_norm"),
        output_norm: None,
        ..facts.block(NormKind::Layer)?
    })
}
