//! What one decoder block needs to know, and how to ask metadata for it.

use super::recurrence::Recurrence;
use crate::err;
use crate::error::Result;
use crate::gguf::{Header, Value};
use crate::kernels::attention::{AttentionShape, KvType, Rope};
use crate::kernels::parts::Activation;

/// Bounds on hyperparameters: far above every model in use, far below what could overflow a u32 product or ask for
/// absurd memory before the weights themselves (whose sizes the file bounds) are looked at.
mod limit {
    pub const LAYERS: u32 = 512;
    pub const WIDTH: u32 = 1 << 17;
    pub const HEADS: u32 = 1 << 10;
    pub const VOCABULARY: u32 = 1 << 22;
    pub const CONTEXT: u32 = 1 << 24;
}

/// How the positions of a layer are turned into angles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RopeFrequencies {
    /// rope_theta.
    pub theta: f64,
    /// Linear scaling: positions are divided by this; 1 for none.
    pub linear_factor: f64,
    /// Whether the factors of tensor `rope_freqs.weight` divide the frequencies (Llama 3).
    pub factors: bool,
}

/// A decoder-only transformer, as data. Names as in GGUF; sizes in elements.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// `general.architecture`
    pub name: String,
    /// Blocks.
    pub n_layers: u32,
    /// Width of the residual stream.
    pub n_embd: u32,
    /// Query heads.
    pub n_heads: u32,
    /// Key and value heads; divides `n_heads`.
    pub n_kv_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Width of the feed-forward.
    pub n_ff: u32,
    /// Tokens in the vocabulary: rows of the embedding.
    pub n_vocab: u32,
    /// What the model was trained for.
    pub context_length: u32,
    /// Epsilon of every RMS norm.
    pub norm_eps: f32,
    /// Kind of rotary embedding.
    pub rope: Rope,
    /// Elements of a head that are rotated.
    pub rot_dim: u32,
    /// Frequencies of the layers without a window.
    pub rope_global: RopeFrequencies,
    /// Frequencies of the layers with a window.
    pub rope_window: RopeFrequencies,
    /// A windowed layer's query sees this many keys, itself included; 0: no layer has a window.
    pub window: u32,
    /// Every how many layers one has no window (Gemma 3: 6, the last of each six).
    pub window_pattern: u32,
    /// Activation of the gated feed-forward.
    pub activation: Activation,
    /// What the embedding is multiplied with.
    pub embedding_scale: f32,
    /// What q·k is multiplied with.
    pub attention_scale: f32,
    /// Soft-cap of the logits; 0 for none.
    pub logit_softcap: f32,
    /// RMS norm of each head's q and k before rope.
    pub qk_norm: bool,
    /// RMS norms after attention and feed-forward, before they are added to the residual stream.
    pub post_norms: bool,
    /// The head is the embedding.
    pub tied: bool,
    /// Layers that have something else in place of attention.
    pub recurrence: Option<Recurrence>,
    /// The q matrix holds for each head its rows and then those of a gate: what the head gives is multiplied with its sigmoid.
    pub attention_gate: bool,
    /// The tensor of the norm before a feed-forward, without the layer's prefix.
    pub ffn_norm: &'static str,
    /// The tensor of the norm before the head.
    pub output_norm: &'static str,
}

impl Architecture {
    /// The window of a layer in keys; 0 for none.
    pub fn window_of(&self, layer: u32) -> u32 {
        if self.window > 0 && !(layer + 1).is_multiple_of(self.window_pattern.max(1)) { self.window } else { 0 }
    }

    /// The attention of a layer.
    pub fn attention(&self, layer: u32, kv: KvType) -> AttentionShape {
        AttentionShape {
            n_heads: self.n_heads,
            n_kv_heads: self.n_kv_heads,
            head_dim: self.head_dim,
            scale: self.attention_scale,
            rope: self.rope,
            rot_dim: self.rot_dim,
            window: self.window_of(layer),
            softcap: 0.0,
            qk_norm_eps: self.qk_norm.then_some(self.norm_eps),
            sinks: false,
            causal: true,
            kv,
        }
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
        bounded("attention.head_count_kv", self.n_kv_heads, limit::HEADS)?;
        bounded("vocabulary size", self.n_vocab, limit::VOCABULARY)?;
        bounded("context_length", self.context_length, limit::CONTEXT)?;
        let unsupported = |what: String| Err(err!(UnsupportedArchitecture, "{}: {what}", self.name));
        self.attention(0, KvType::F32).check()?;
        if let Some(recurrence) = &self.recurrence {
            recurrence.check(self)?;
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
        for (what, value) in [
            ("layer_norm_rms_epsilon", self.norm_eps),
            ("attention scale", self.attention_scale),
            ("embedding scale", self.embedding_scale),
            ("final_logit_softcapping", self.logit_softcap),
        ] {
            if !value.is_finite() || value < 0.0 {
                return Err(err!(BadFile, "{} {what}: expected a positive number, found {value}", self.name));
            }
        }
        for rope in [self.rope_global, self.rope_window] {
            if !(rope.theta.is_finite() && rope.theta > 0.0 && rope.linear_factor.is_finite() && rope.linear_factor > 0.0) {
                return Err(err!(
                    BadFile,
                    "{} rope: expected a positive base and factor, found {} and {}",
                    self.name,
                    rope.theta,
                    rope.linear_factor
                ));
            }
        }
        Ok(())
    }
}

/// A header, asked in the words of one architecture.
pub struct Facts<'a> {
    /// The header.
    pub header: &'a Header,
    /// `general.architecture`, the prefix of the keys.
    pub name: &'a str,
}

impl<'a> Facts<'a> {
    pub(super) fn new(header: &'a Header, name: &'a str) -> Self {
        Self { header, name }
    }

    /// `NAME.key` as an unsigned integer that fits 32 bits.
    pub fn u32(&self, key: &str) -> Result<Option<u32>> {
        let key = format!("{}.{key}", self.name);
        let narrow = |v: u64| u32::try_from(v).map_err(|_| err!(BadFile, "metadata {key}: expected at most 32 bits, found {v}"));
        self.header.metadata.uint(&key)?.map(narrow).transpose()
    }

    /// `NAME.key`, which must be there.
    pub fn need_u32(&self, key: &str) -> Result<u32> {
        self.u32(key)?.ok_or_else(|| err!(BadFile, "metadata {}.{key} is missing", self.name))
    }

    /// `NAME.key` as a number.
    pub fn f64(&self, key: &str) -> Result<Option<f64>> {
        self.header.metadata.float(&format!("{}.{key}", self.name))
    }

    /// `NAME.key` as a string.
    pub fn string(&self, key: &str) -> Result<Option<&'a str>> {
        self.header.metadata.string(&format!("{}.{key}", self.name))
    }

    /// Whether the file has this tensor.
    pub fn has(&self, tensor: &str) -> bool {
        self.header.tensor(tensor).is_some()
    }

    /// What every family of this block has: sizes, norms, plain rope, SiLU. Families change what differs.
    pub fn common(&self) -> Result<Architecture> {
        self.refuse(&[
            "expert_count",
            "attention.causal",
            "attention.scale",
            "logit_scale",
            "residual_scale",
            "embedding_scale",
        ])?;
        let n_heads = self.need_u32("attention.head_count")?;
        let n_embd = self.need_u32("embedding_length")?;
        let head_dim = match self.u32("attention.key_length")? {
            Some(length) => length,
            None => n_embd / n_heads.max(1),
        };
        if self.u32("attention.value_length")?.is_some_and(|v| v != head_dim) {
            return Err(err!(UnsupportedArchitecture, "{}: keys and values of different lengths", self.name));
        }
        let embedding =
            self.header.tensor("token_embd.weight").ok_or_else(|| err!(BadFile, "tensor token_embd.weight is missing"))?;
        let rope = RopeFrequencies {
            theta: self.f64("rope.freq_base")?.unwrap_or(10_000.0),
            linear_factor: self.linear_factor()?,
            factors: self.has("rope_freqs.weight"),
        };
        Ok(Architecture {
            name: self.name.to_owned(),
            n_layers: self.need_u32("block_count")?,
            n_embd,
            n_heads,
            n_kv_heads: self.kv_heads(n_heads)?,
            head_dim,
            n_ff: self.need_u32("feed_forward_length")?,
            n_vocab: u32::try_from(embedding.rows()).unwrap_or(u32::MAX),
            context_length: self.u32("context_length")?.unwrap_or(2048),
            norm_eps: self
                .f64("attention.layer_norm_rms_epsilon")?
                .ok_or_else(|| err!(BadFile, "metadata {}.attention.layer_norm_rms_epsilon is missing", self.name))?
                as f32,
            rope: Rope::Interleaved,
            rot_dim: self.u32("rope.dimension_count")?.unwrap_or(head_dim),
            rope_global: rope,
            rope_window: rope,
            window: 0,
            window_pattern: 1,
            activation: Activation::Silu,
            embedding_scale: 1.0,
            attention_scale: 1.0 / (head_dim as f32).sqrt(),
            logit_softcap: 0.0,
            qk_norm: false,
            post_norms: false,
            tied: !self.has("output.weight"),
            recurrence: None,
            attention_gate: false,
            ffn_norm: "ffn_norm.weight",
            output_norm: "output_norm.weight",
        })
    }

    /// The factor of linear rope scaling, 1 without. A factor without a type means linear, as in older files, which call it
    /// `scale_linear`. Other kinds are not supported.
    fn linear_factor(&self) -> Result<f64> {
        match self.string("rope.scaling.type")? {
            Some("none") => Ok(1.0),
            None | Some("linear") => match self.f64("rope.scaling.factor")? {
                Some(factor) => Ok(factor),
                None => Ok(self.f64("rope.scale_linear")?.unwrap_or(1.0)),
            },
            Some(kind) => Err(err!(UnsupportedArchitecture, "{}: rope scaling {kind:?} is not supported", self.name)),
        }
    }

    /// Refuses a file that says something which this block would leave out, and with it change what the model answers.
    pub fn refuse(&self, keys: &[&str]) -> Result<()> {
        for key in keys {
            let key = format!("{}.{key}", self.name);
            match self.header.metadata.get(&key) {
                None | Some(Value::U32(0) | Value::F32(0.0) | Value::Bool(true)) => {}
                Some(value) => return Err(err!(UnsupportedArchitecture, "{key} = {value:?} is not supported")),
            }
        }
        Ok(())
    }
}
