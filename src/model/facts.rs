//! A header, asked in the words of one architecture.

use std::cell::RefCell;

use super::architecture::{Architecture, HalfNorms, LayerFacts, Pooling, QkNorm, limit};
use super::moe::Experts;
use super::rope::{Factors, RopeFrequencies, Yarn};
use crate::err;
use crate::error::Result;
use crate::gguf::{Array, Header, Value};
use crate::kernels::attention::Rope;
use crate::kernels::norm::{Norm, NormKind};
use crate::kernels::parts::Activation;
use crate::kernels::route::Gating;

/// Keys that change what a model answers. A family that does not ask for one would leave it out, so a file that has it is refused.
const MEANINGFUL: [&str; 11] = [
    "expert_count",
    "attention.scale",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "logit_scale",
    "residual_scale",
    "embedding_scale",
    "use_parallel_residual",
    "rope.scaling.yarn_log_multiplier",
];

/// A header, asked in the words of one architecture. It remembers what it was asked.
pub struct Facts<'a> {
    /// The header.
    pub header: &'a Header,
    /// `general.architecture`, the prefix of the keys.
    pub name: &'a str,
    asked: RefCell<Vec<String>>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(header: &'a Header, name: &'a str) -> Self {
        Self { header, name, asked: RefCell::default() }
    }

    /// The whole key, which counts as asked for.
    fn key(&self, key: &str) -> String {
        self.asked.borrow_mut().push(key.to_owned());
        format!("{}.{key}", self.name)
    }

    /// `NAME.key` as an unsigned integer that fits 32 bits.
    pub fn u32(&self, key: &str) -> Result<Option<u32>> {
        let key = self.key(key);
        self.header.metadata.uint(&key)?.map(|v| narrow(&key, v)).transpose()
    }

    /// `NAME.key`, which must be there.
    pub fn need_u32(&self, key: &str) -> Result<u32> {
        self.u32(key)?.ok_or_else(|| self.missing(key))
    }

    /// `NAME.key` as a finite number.
    pub fn f64(&self, key: &str) -> Result<Option<f64>> {
        let key = self.key(key);
        match self.header.metadata.float(&key)? {
            Some(v) if !v.is_finite() => Err(err!(BadFile, "metadata {key}: expected a finite number, found {v}")),
            number => Ok(number),
        }
    }

    /// `NAME.key` as a number that f32 can hold.
    pub fn f32(&self, key: &str) -> Result<Option<f32>> {
        let narrow = |v: f64| match (v as f32).is_finite() {
            true => Ok(v as f32),
            false => Err(err!(BadFile, "metadata {}.{key}: expected a number of 32 bits, found {v}", self.name)),
        };
        self.f64(key)?.map(narrow).transpose()
    }

    /// `NAME.key` as a string.
    pub fn string(&self, key: &str) -> Result<Option<&'a str>> {
        self.header.metadata.string(&self.key(key))
    }

    /// `NAME.key` as a boolean.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        self.header.metadata.bool(&self.key(key))
    }

    /// `NAME.key` for each of `n_layers` layers: one number for all, or an array (of numbers, or of booleans as 0 and 1).
    pub fn per_layer(&self, key: &str, n_layers: u32) -> Result<Option<Vec<u32>>> {
        let key = self.key(key);
        let Some(Value::Array(array)) = self.header.metadata.get(&key) else {
            let one = self.header.metadata.uint(&key)?.map(|v| narrow(&key, v)).transpose()?;
            return Ok(one.map(|v| vec![v; n_layers as usize]));
        };
        let values = integers(array).ok_or_else(|| err!(BadFile, "metadata {key}: expected an array of unsigned integers"))?;
        // Blocks that are left out may have numbers, too.
        let all = n_layers as usize + self.ahead()? as usize;
        if values.len() != n_layers as usize && values.len() != all {
            return Err(err!(BadFile, "metadata {key}: expected a number for each of {n_layers} layers, found {}", values.len()));
        }
        values.into_iter().take(n_layers as usize).map(|v| narrow(&key, v)).collect::<Result<Vec<_>>>().map(Some)
    }

    /// `NAME.key` where the block has one number for all layers: as a number, or as an array of equal ones.
    pub fn uniform(&self, key: &str, n_layers: u32) -> Result<Option<u32>> {
        let Some(values) = self.per_layer(key, n_layers)? else { return Ok(None) };
        let first = values.first().copied();
        match values.iter().all(|v| Some(*v) == first) {
            true => Ok(first),
            false => Err(err!(UnsupportedArchitecture, "{}: layers of different {key} are not supported", self.name)),
        }
    }

    /// The blocks at the end that only guess further tokens.
    fn ahead(&self) -> Result<u32> {
        Ok(self.u32("nextn_predict_layers")?.unwrap_or(0))
    }

    /// Whether the file has this tensor.
    pub fn has(&self, tensor: &str) -> bool {
        self.header.tensor(tensor).is_some()
    }

    fn missing(&self, key: &str) -> crate::error::Error {
        err!(BadFile, "metadata {}.{key} is missing", self.name)
    }

    /// What every family of RMS norms has; see [`Self::block`].
    pub fn common(&self) -> Result<Architecture> {
        self.block(NormKind::Rms)
    }

    /// What every family of this block has: sizes, norms before both halves, rope in pairs with its scaling, a SiLU gate. Families
    /// change what differs.
    pub fn block(&self, kind: NormKind) -> Result<Architecture> {
        let blocks = self.need_u32("block_count")?;
        if blocks == 0 || blocks > limit::LAYERS {
            return Err(err!(BadFile, "{} block_count: expected 1 to {}, found {blocks}", self.name, limit::LAYERS));
        }
        let ahead = self.ahead()?;
        if ahead >= blocks {
            return Err(err!(BadFile, "{} nextn_predict_layers: expected fewer than {blocks}, found {ahead}", self.name));
        }
        let n_layers = blocks - ahead;
        let uniform = |key: &str| self.uniform(key, n_layers);
        let n_heads = uniform("attention.head_count")?.ok_or_else(|| self.missing("attention.head_count"))?;
        let n_embd = self.need_u32("embedding_length")?;
        let head_dim = match self.u32("attention.key_length")? {
            Some(length) => length,
            None => n_embd / n_heads.max(1),
        };
        if self.u32("attention.value_length")?.is_some_and(|v| v != head_dim) {
            return Err(err!(UnsupportedArchitecture, "{}: keys and values of different lengths", self.name));
        }
        let kv_heads = self.per_layer("attention.head_count_kv", n_layers)?.unwrap_or_else(|| vec![n_heads; n_layers as usize]);
        let context_length = self.u32("context_length")?.unwrap_or(2048);
        let rope = self.rope(context_length)?;
        let eps = match kind {
            NormKind::Rms => "attention.layer_norm_rms_epsilon",
            NormKind::Layer => "attention.layer_norm_epsilon",
        };
        Ok(Architecture {
            name: self.name.to_owned(),
            n_layers,
            ahead,
            layers: kv_heads.into_iter().map(|n_kv_heads| LayerFacts { n_kv_heads, window: 0, rotated: true }).collect(),
            n_embd,
            n_heads,
            head_dim,
            // A file of experts alone need not have it.
            n_ff: match uniform("feed_forward_length")? {
                Some(n_ff) => n_ff,
                None => self.u32("expert_feed_forward_length")?.ok_or_else(|| self.missing("feed_forward_length"))?,
            },
            n_vocab: self.vocabulary()?,
            context_length,
            norm: Norm { kind, eps: self.f32(eps)?.ok_or_else(|| self.missing(eps))? },
            rope: Rope::Interleaved,
            rot_dim: self.u32("rope.dimension_count")?.unwrap_or(head_dim),
            rope_global: rope,
            rope_window: rope,
            learned_positions: false,
            token_types: false,
            embedding_norm: None,
            activation: Activation::Silu,
            gated: true,
            experts: None,
            parallel: false,
            embedding_scale: 1.0,
            attention_scale: 1.0 / (head_dim as f32).sqrt(),
            attention_softcap: 0.0,
            residual_scale: 1.0,
            logit_scale: 1.0,
            logit_softcap: 0.0,
            qk_norm: QkNorm::None,
            attention_norms: HalfNorms::before("attn_norm"),
            ffn_norms: HalfNorms::before("ffn_norm"),
            output_norm: Some("output_norm"),
            tied: !self.has("output.weight"),
            causal: self.bool("attention.causal")?.unwrap_or(true),
            pooling: self.pooling()?,
            recurrence: None,
            attention_gate: false,
        })
    }

    /// GGUF's numbers: 0 none, 1 mean, 2 cls, 3 last, 4 a score of two texts.
    fn pooling(&self) -> Result<Option<Pooling>> {
        match self.u32("pooling_type")? {
            None | Some(0) => Ok(None),
            Some(1) => Ok(Some(Pooling::Mean)),
            Some(2) => Ok(Some(Pooling::Cls)),
            Some(3) => Ok(Some(Pooling::Last)),
            Some(kind) => {
                Err(err!(UnsupportedArchitecture, "{}: pooling of type {kind} (4 scores two texts) is not supported", self.name))
            }
        }
    }

    /// The mixture of experts, where the file has one; what it does not say: the width of their feed-forward, and whether a token's
    /// weights are made to add up to 1.
    pub fn experts(&self, n_ff: u32, normed: bool) -> Result<Option<Experts>> {
        let count = self.u32("expert_count")?.unwrap_or(0);
        if count == 0 {
            return Ok(None);
        }
        if self.u32("expert_group_count")?.is_some_and(|groups| groups > 1) {
            return Err(err!(UnsupportedArchitecture, "{}: experts in groups are not supported", self.name));
        }
        // 3: a softmax over the picked, which is one over all whose picked add up to 1.
        let (gating, normed) = match self.u32("expert_gating_func")?.unwrap_or(0) {
            0 | 1 => (Gating::Softmax, normed),
            2 => (Gating::Sigmoid, normed),
            3 => (Gating::Softmax, true),
            kind => return Err(err!(UnsupportedArchitecture, "{}.expert_gating_func = {kind} is not supported", self.name)),
        };
        Ok(Some(Experts {
            count,
            used: self.need_u32("expert_used_count")?,
            n_ff: self.u32("expert_feed_forward_length")?.unwrap_or(n_ff),
            n_ff_shared: self.u32("expert_shared_feed_forward_length")?.filter(|width| *width > 0).unwrap_or(n_ff),
            gating,
            normed: self.bool("expert_weights_norm")?.unwrap_or(normed),
            // 0 says that there is none.
            scale: self.f32("expert_weights_scale")?.filter(|scale| *scale != 0.0).unwrap_or(1.0),
        }))
    }

    /// Rows of the embedding, which what the file says must not contradict.
    fn vocabulary(&self) -> Result<u32> {
        let embedding =
            self.header.tensor("token_embd.weight").ok_or_else(|| err!(BadFile, "tensor token_embd.weight is missing"))?;
        let rows = embedding.rows();
        match self.u32("vocab_size")? {
            Some(said) if u64::from(said) != rows => {
                Err(err!(BadFile, "metadata {}.vocab_size: expected the embedding's {rows} rows, found {said}", self.name))
            }
            _ => Ok(u32::try_from(rows).unwrap_or(u32::MAX)),
        }
    }

    /// Windows of `attention.sliding_window` keys (or `default`) in all layers but the last of each `every`; 0: in all. A file may
    /// name another period, or the layers.
    pub fn windows(&self, a: &mut Architecture, default: u32, every: u32) -> Result<()> {
        // A window as wide as the context sees all, too, but its layers may have another rope.
        let window = self.u32("attention.sliding_window")?.unwrap_or(default).min(a.context_length);
        let pattern = "attention.sliding_window_pattern";
        let named = matches!(self.header.metadata.get(&self.key(pattern)), Some(Value::Array(_)));
        let flags = if named { self.per_layer(pattern, a.n_layers)? } else { None };
        let every = if named { every } else { self.u32(pattern)?.unwrap_or(every) };
        for (i, layer) in a.layers.iter_mut().enumerate() {
            let windowed = match &flags {
                Some(flags) => flags[i] != 0,
                None => every == 0 || !(i as u32 + 1).is_multiple_of(every),
            };
            layer.window = if windowed { window } else { 0 };
        }
        Ok(())
    }

    /// How positions become angles. A factor without a type means linear, as in older files, which call it `scale_linear`.
    fn rope(&self, context_length: u32) -> Result<RopeFrequencies> {
        let scaling = |key: &str| self.f64(&format!("rope.scaling.{key}"));
        let factor = match scaling("factor")? {
            Some(factor) => factor,
            None => self.f64("rope.scale_linear")?.unwrap_or(1.0),
        };
        let original = self.u32("rope.scaling.original_context_length")?.unwrap_or(context_length);
        let mut rope = RopeFrequencies {
            theta: self.f64("rope.freq_base")?.unwrap_or(10_000.0),
            linear_factor: factor,
            yarn: None,
            magnitude: scaling("attn_factor")?.unwrap_or(1.0),
            factors: Factors::None,
        };
        match self.string("rope.scaling.type")? {
            None | Some("linear" | "longrope") => {}
            Some("none") => rope.linear_factor = 1.0,
            Some("yarn") => {
                let mix = scaling("yarn_ext_factor")?.filter(|mix| *mix >= 0.0).unwrap_or(1.0);
                let softer = if mix > 0.0 { 1.0 + 0.1 * factor.max(1.0).ln() } else { 1.0 };
                rope.magnitude *= scaling("yarn_attn_factor")?.unwrap_or(1.0) * softer;
                rope.yarn = Some(Yarn {
                    original,
                    mix,
                    beta_fast: scaling("yarn_beta_fast")?.unwrap_or(32.0),
                    beta_slow: scaling("yarn_beta_slow")?.unwrap_or(1.0),
                });
            }
            Some(kind) => {
                return Err(err!(UnsupportedArchitecture, "{}: rope scaling {kind:?} is not supported", self.name));
            }
        }
        let by_context = ["rope_factors_short.weight", "rope_factors_long.weight"].map(|tensor| self.has(tensor));
        if by_context == [true; 2] {
            rope.factors = Factors::ByContext { original };
        } else if self.has("rope_freqs.weight") {
            rope.factors = Factors::Always;
        }
        Ok(rope)
    }

    /// Refuses a file that says something which its family did not ask for, and with it changes what the model answers.
    pub(super) fn refuse_unasked(&self) -> Result<()> {
        for key in MEANINGFUL {
            if self.asked.borrow().iter().any(|asked| asked == key) {
                continue;
            }
            match self.header.metadata.get(&format!("{}.{key}", self.name)) {
                None | Some(Value::U32(0) | Value::F32(0.0) | Value::Bool(false)) => {}
                Some(value) => return Err(err!(UnsupportedArchitecture, "{}.{key} = {value:?} is not supported", self.name)),
            }
        }
        Ok(())
    }
}

fn narrow(key: &str, value: u64) -> Result<u32> {
    u32::try_from(value).map_err(|_| err!(BadFile, "metadata {key}: expected at most 32 bits, found {value}"))
}

/// The numbers of an array, if all are unsigned integers or booleans.
fn integers(array: &Array) -> Option<Vec<u64>> {
    match array {
        Array::U8(v) => Some(v.iter().map(|v| u64::from(*v)).collect()),
        Array::U16(v) => Some(v.iter().map(|v| u64::from(*v)).collect()),
        Array::U32(v) => Some(v.iter().map(|v| u64::from(*v)).collect()),
        Array::U64(v) => Some(v.clone()),
        Array::Bool(v) => Some(v.iter().map(|v| u64::from(*v)).collect()),
        Array::I8(v) => v.iter().map(|v| u64::try_from(*v).ok()).collect(),
        Array::I16(v) => v.iter().map(|v| u64::try_from(*v).ok()).collect(),
        Array::I32(v) => v.iter().map(|v| u64::try_from(*v).ok()).collect(),
        Array::I64(v) => v.iter().map(|v| u64::try_from(*v).ok()).collect(),
        Array::F32(_) | Array::F64(_) | Array::String(_) => None,
    }
}
