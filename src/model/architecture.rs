//! What one decoder block needs to know, as data.

use super::moe::Experts;
use super::recurrence::Recurrence;
use super::rope::RopeFrequencies;
use crate::err;
use crate::error::Result;
use crate::kernels::attention::{AttentionShape, KV_BLOCK, KvType, Rope};
use crate::kernels::norm::Norm;
use crate::kernels::parts::Activation;

/// Bounds on hyperparameters: far above every model in use, far below what could overflow a u32 product or ask for
/// absurd memory before the weights themselves (whose sizes the file bounds) are looked at.
pub(super) mod limit {
    pub const LAYERS: u32 = 512;
    pub const WIDTH: u32 = 1 << 17;
    pub const HEADS: u32 = 1 << 10;
    pub const VOCABULARY: u32 = 1 << 22;
    pub const CONTEXT: u32 = 1 << 24;
    pub const TYPES: u32 = 1 << 10;
}

/// What differs from layer to layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerFacts {
    /// Key and value heads; divides `n_heads`. Of no meaning in a layer without attention.
    pub n_kv_heads: u32,
    /// A query sees this many keys, itself included; 0: all. Layers with a window have a rope of their own.
    pub window: u32,
    /// Whether rope turns q and k.
    pub rotated: bool,
}

/// The norms of one half of a block, by the names of their tensors in the layer, without `.weight`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HalfNorms {
    /// Of the residual stream, for what the half reads.
    pub before: Option<&'static str>,
    /// Of what the half adds to the stream (Gemma 2, OLMo 2).
    pub added: Option<&'static str>,
    /// Of the stream itself, when the half has been added (BERT).
    pub after: Option<&'static str>,
}

impl HalfNorms {
    /// One norm, before the half.
    pub const fn before(name: &'static str) -> Self {
        Self { before: Some(name), added: None, after: None }
    }
}

/// What is normed of q and k before rope, with the block's RMS epsilon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QkNorm {
    /// Nothing.
    None,
    /// Each head by itself, all with the same weights.
    Heads,
    /// All heads of q as one vector, and all of k.
    Whole,
}

/// Which tokens' vectors an embedding is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The mean of all.
    Mean,
    /// The first one's.
    Cls,
    /// The last one's.
    Last,
}

/// A transformer of one stack of blocks, as data. Names as in GGUF; sizes in elements.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// `general.architecture`
    pub name: String,
    /// Blocks.
    pub n_layers: u32,
    /// Blocks behind them that only guess further tokens (multi-token prediction): they are left out, and no answer changes.
    pub ahead: u32,
    /// Each block's own facts.
    pub layers: Vec<LayerFacts>,
    /// Width of the residual stream.
    pub n_embd: u32,
    /// Query heads.
    pub n_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Width of the feed-forward.
    pub n_ff: u32,
    /// Tokens in the vocabulary: rows of the embedding.
    pub n_vocab: u32,
    /// What the model was trained for.
    pub context_length: u32,
    /// Every norm's formula.
    pub norm: Norm,
    /// Kind of rotary embedding.
    pub rope: Rope,
    /// Elements of a head that are rotated.
    pub rot_dim: u32,
    /// Frequencies of the layers without a window.
    pub rope_global: RopeFrequencies,
    /// Frequencies of the layers with a window.
    pub rope_window: RopeFrequencies,
    /// Whether `position_embd.weight` has a row for each position, which is added to the token's.
    pub learned_positions: bool,
    /// Whether the first row of `token_types.weight` is added, too: every text is of the first type.
    pub token_types: bool,
    /// The tensor of a norm of the embedding, without `.weight`.
    pub embedding_norm: Option<&'static str>,
    /// Activation of the feed-forward.
    pub activation: Activation,
    /// Whether the feed-forward's activation is of a gate that multiplies another matrix's products.
    pub gated: bool,
    /// The experts of layers that have a router.
    pub experts: Option<Experts>,
    /// Whether both halves of a block read the same stream, before either is added (GPT-NeoX, Phi 2).
    pub parallel: bool,
    /// What the embedding is multiplied with.
    pub embedding_scale: f32,
    /// What q·k is multiplied with.
    pub attention_scale: f32,
    /// Soft-cap of q·k; 0 for none.
    pub attention_softcap: f32,
    /// What a half is multiplied with before it is added.
    pub residual_scale: f32,
    /// What the logits are multiplied with, before the soft-cap.
    pub logit_scale: f32,
    /// Soft-cap of the logits; 0 for none.
    pub logit_softcap: f32,
    /// Norms of q and k.
    pub qk_norm: QkNorm,
    /// Norms around attention.
    pub attention_norms: HalfNorms,
    /// Norms around the feed-forward.
    pub ffn_norms: HalfNorms,
    /// The tensor of the norm after the last block, without `.weight`.
    pub output_norm: Option<&'static str>,
    /// The head is the embedding.
    pub tied: bool,
    /// Whether a token sees only those before it. If not, a text is one pass, and the model embeds and does not generate.
    pub causal: bool,
    /// How embeddings are pooled, where the file says so.
    pub pooling: Option<Pooling>,
    /// Layers that have something else in place of attention.
    pub recurrence: Option<Recurrence>,
    /// The q matrix holds for each head its rows and then those of a gate: what the head gives is multiplied with its sigmoid.
    pub attention_gate: bool,
}

impl Architecture {
    /// The attention of a layer.
    pub fn attention(&self, layer: u32, kv: KvType) -> AttentionShape {
        let LayerFacts { n_kv_heads, window, rotated } = self.layers[layer as usize];
        AttentionShape {
            n_heads: self.n_heads,
            n_kv_heads,
            head_dim: self.head_dim,
            scale: self.attention_scale,
            rope: if rotated { self.rope } else { Rope::None },
            rot_dim: self.rot_dim,
            window,
            softcap: self.attention_softcap,
            qk_norm_eps: (self.qk_norm == QkNorm::Heads).then_some(self.norm.eps),
            sinks: false,
            causal: self.causal,
            kv,
        }
    }

    /// The attention of all layers that have it.
    pub(super) fn attentions(&self, kv: KvType) -> impl Iterator<Item = AttentionShape> {
        (0..self.n_layers).filter(|layer| self.recurrent(*layer).is_none()).map(move |layer| self.attention(layer, kv))
    }

    /// Bytes of keys and values that a position takes in all layers.
    pub fn kv_bytes_per_position(&self, kv: KvType) -> u64 {
        self.attentions(kv).map(|shape| shape.kv_block_bytes() / u64::from(KV_BLOCK)).sum()
    }

    /// Whether any layer has a window.
    pub(super) fn has_windows(&self) -> bool {
        self.layers.iter().any(|layer| layer.window > 0)
    }

    /// Checks what the block and its kernels rely on.
    pub(super) fn check(&self) -> Result<()> {
        let bounded = |what: &str, value: u32, max: u32| {
            if value == 0 || value > max {
                return Err(err!(BadFile, "{} {what}: expected 1 to {max}, found {value}", self.name));
            }
            Ok(())
        };
        bounded("block_count", self.n_layers, limit::LAYERS)?;
        bounded("embedding_length", self.n_embd, limit::WIDTH)?;
        bounded("feed_forward_length", self.n_ff, limit::WIDTH)?;
        bounded("attention.head_count", self.n_heads, limit::HEADS)?;
        bounded("attention.key_length", self.head_dim, limit::WIDTH)?;
        if self.rot_dim > self.head_dim {
            let (width, found) = (self.head_dim, self.rot_dim);
            return Err(err!(BadFile, "{} rope.dimension_count: expected at most a head's {width}, found {found}", self.name));
        }
        if let Some(recurrence) = &self.recurrence {
            recurrence.check(self)?;
        }
        for shape in self.attentions(KvType::F32) {
            bounded("attention.head_count_kv", shape.n_kv_heads, limit::HEADS)?;
        }
        bounded("vocabulary size", self.n_vocab, limit::VOCABULARY)?;
        bounded("context_length", self.context_length, limit::CONTEXT)?;
        let unsupported = |what: String| Err(err!(UnsupportedArchitecture, "{}: {what}", self.name));
        for shape in self.attentions(KvType::F32) {
            shape.check()?;
        }
        if self.recurrence.is_some() && !self.causal {
            return unsupported("recurrent layers where tokens see later ones".to_owned());
        }
        for (what, width) in [
            ("embedding_length", self.n_embd),
            ("feed_forward_length", self.n_ff),
            ("head_count × head_dim", self.n_heads * self.head_dim),
        ] {
            if !width.is_multiple_of(32) {
                return unsupported(format!("expected {what} to be a multiple of 32, found {width}"));
            }
        }
        for (what, value, zero) in [
            ("attention scale", self.attention_scale, false),
            ("residual_scale", self.residual_scale, false),
            ("embedding scale", self.embedding_scale, false),
            ("logit_scale", self.logit_scale, false),
            ("layer_norm_epsilon", self.norm.eps, true),
            ("attn_logit_softcapping", self.attention_softcap, true),
            ("final_logit_softcapping", self.logit_softcap, true),
        ] {
            if !value.is_finite() || value < 0.0 || (value == 0.0 && !zero) {
                return Err(err!(BadFile, "{} {what}: expected a positive number, found {value}", self.name));
            }
        }
        if let Some(experts) = &self.experts {
            experts.check(&self.name)?;
        }
        [self.rope_global, self.rope_window].iter().try_for_each(|rope| rope.check(&self.name))
    }
}
