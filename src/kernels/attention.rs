//! What the attention kernels share: the shape of a layer's attention, the buffers it works on, and the KV pool's sizes.
//!
//! Decode takes one dispatch, [`attention_decode`](super::attention_decode::attention_decode), and with more than one split of
//! the keys a second, [`attention_reduce`](super::attention_reduce::attention_reduce). Prefill takes two, since
//! workgroups of one dispatch have no order among them: [`kv_append`](super::kv_append::kv_append) and then
//! [`attention_prefill`](super::attention_prefill::attention_prefill).

use super::{Access, Binding, Cost, Source, Variant};
use crate::error::Result;
use crate::tensor::Tier;
use crate::{err, source};

pub(super) const ATTENTION: Source = source!("parts/attention");
const QK_NORM: Source = source!("parts/qk_norm");
const ROPE_NONE: Source = source!("parts/rope_none");
const ROPE_INTERLEAVED: Source = source!("parts/rope_interleaved");
const ROPE_NEOX: Source = source!("parts/rope_neox");
const ROPE_NEOX_ANY: Source = source!("parts/rope_neox_any");
const SINKS: Source = source!("parts/sinks");
const SINKS_NONE: Source = source!("parts/sinks_none");
const KV_F32: Source = source!("parts/kv_f32");
const KV_F16: Source = source!("parts/kv_f16");

/// Positions in a block of the KV pool (`KV_BLOCK` in `shaders/parts/attention.wgsl`).
pub const KV_BLOCK: u32 = 32;

/// The largest head that the kernels hold in workgroup memory (Gemma's).
pub const MAX_HEAD_DIM: u32 = 256;

/// Which numbers of a head rotary embedding turns together (GGUF: implied by the architecture).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rope {
    /// No rotation.
    None,
    /// Pairs (2i, 2i + 1): Llama as GGUF stores it.
    Interleaved,
    /// Pairs (i, i + rot_dim / 2): Qwen, Gemma, Phi, GPT-NeoX.
    Neox,
}

/// How the KV cache stores numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvType {
    /// 4 bytes.
    F32,
    /// 2 bytes, clamped to ±65504. Computed with in f32.
    #[default]
    F16,
}

impl KvType {
    /// Bytes of one number.
    pub fn bytes(self) -> u64 {
        match self {
            KvType::F32 => 4,
            KvType::F16 => 2,
        }
    }
}

/// One layer's attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionShape {
    /// Query heads; a multiple of `n_kv_heads`.
    pub n_heads: u32,
    /// Key/value heads.
    pub n_kv_heads: u32,
    /// Numbers in a head: a multiple of 8, at most [`MAX_HEAD_DIM`]. The same for keys and values.
    pub head_dim: u32,
    /// Of q·k; usually 1 / sqrt(head_dim).
    pub scale: f32,
    /// Which pairs are rotated.
    pub rope: Rope,
    /// The first `rot_dim` numbers of a head are rotated (GGUF: `rope.dimension_count`): even, at most `head_dim`.
    pub rot_dim: u32,
    /// 0: none; else a query at position p sees the keys at (p - window, p].
    pub window: u32,
    /// 0: none; else scores become softcap * tanh(score / softcap) (Gemma 2).
    pub softcap: f32,
    /// RMS norm of each head of q and k, with weights, before the rotation (Qwen 3, Gemma 3): its epsilon.
    pub qk_norm_eps: Option<f32>,
    /// Each head has a learned logit that takes part in its softmax and has no value (gpt-oss).
    pub sinks: bool,
    /// A query sees no later keys. If not, queries of a prefill pass see all keys of the pass (BERT), which then has to hold the
    /// whole text, and no window.
    pub causal: bool,
    /// How the cache stores keys and values.
    pub kv: KvType,
}

impl AttentionShape {
    /// Whether the kernels can compute this shape. Error: `unsupported-architecture`, naming the number.
    pub fn check(&self) -> Result<()> {
        let &Self { n_heads, n_kv_heads, head_dim, rot_dim, .. } = self;
        if n_kv_heads == 0 || n_heads == 0 || !n_heads.is_multiple_of(n_kv_heads) || n_heads > 1024 {
            return Err(err!(
                UnsupportedArchitecture,
                "attention: expected 1 to 1024 query heads, a multiple of the key/value heads; found {n_heads} and {n_kv_heads}"
            ));
        }
        if head_dim == 0 || !head_dim.is_multiple_of(8) || head_dim > MAX_HEAD_DIM {
            return Err(err!(
                UnsupportedArchitecture,
                "attention: expected heads of a multiple of 8 up to {MAX_HEAD_DIM}, found {head_dim}"
            ));
        }
        if !self.causal && self.window != 0 {
            return Err(err!(UnsupportedArchitecture, "attention: expected no window where queries see later keys"));
        }
        if self.rope != Rope::None && (rot_dim == 0 || rot_dim % 2 != 0 || rot_dim > head_dim) {
            return Err(err!(
                UnsupportedArchitecture,
                "attention: expected an even number of rotated dimensions up to {head_dim}, found {rot_dim}"
            ));
        }
        Ok(())
    }

    /// Query heads that share one key/value head.
    pub fn group(&self) -> u32 {
        self.n_heads / self.n_kv_heads.max(1)
    }

    /// Floats of one token in `qkv`: (n_heads + 2 * n_kv_heads) * head_dim.
    pub fn qkv_len(&self) -> u64 {
        (u64::from(self.n_heads) + 2 * u64::from(self.n_kv_heads)) * u64::from(self.head_dim)
    }

    /// Bytes of one block of a layer's KV pool: keys and values of [`KV_BLOCK`] positions.
    pub fn kv_block_bytes(&self) -> u64 {
        2 * u64::from(self.n_kv_heads) * u64::from(KV_BLOCK) * u64::from(self.head_dim) * self.kv.bytes()
    }

    /// The work of scores and values for `tokens` tokens. A windowed layer's does not grow with the position: what it
    /// can cost at most.
    pub(super) fn cost(&self, tokens: u32) -> Cost {
        let per_key = 2 * u64::from(self.n_heads) * u64::from(self.head_dim) * u64::from(tokens);
        match self.window {
            0 => Cost { fixed: 0, per_key },
            window => Cost { fixed: per_key * (u64::from(window) + u64::from(tokens)), per_key: 0 },
        }
    }

    /// The words of `Params` in `shaders/parts/attention.wgsl`; `splits` is decode's.
    pub(super) fn params(&self, splits: Splits) -> Vec<u32> {
        let eps = self.qk_norm_eps.unwrap_or(0.0);
        let words = [self.scale.to_bits(), self.softcap.to_bits(), eps.to_bits(), self.window, self.head_dim / 4];
        [&words[..], &[splits.span, splits.count, 0]].concat()
    }

    /// Bytes of what the splits of a token's heads leave to be merged: each head's output, its maximum and its total.
    pub fn parts_bytes(&self, splits: Splits) -> u64 {
        match splits.count {
            1 => 0,
            count => u64::from(self.n_heads) * u64::from(count) * (u64::from(self.head_dim) + 4) * 4,
        }
    }

    /// A variant of `kernel` with the shape's constants.
    pub(super) fn sized(&self, kernel: Source) -> Variant {
        Variant::new(kernel, &[ATTENTION])
            .constant("N_HEADS", self.n_heads)
            .constant("N_KV_HEADS", self.n_kv_heads)
            .constant("HEAD_DIM", self.head_dim)
            .constant("CAUSAL", self.causal.into())
    }

    /// A variant of `kernel` with the shape's constants, the pool's element type and, where q and k are made, RoPE.
    pub(super) fn variant(&self, kernel: Source, makes_qk: bool) -> Variant {
        let kv = match self.kv {
            KvType::F32 => KV_F32,
            KvType::F16 => KV_F16,
        };
        let variant = self.sized(kernel).with(kv);
        if !makes_qk {
            return variant;
        }
        let rope = match self.rope {
            Rope::None => ROPE_NONE,
            Rope::Interleaved => ROPE_INTERLEAVED,
            Rope::Neox if self.rot_dim.is_multiple_of(8) => ROPE_NEOX,
            Rope::Neox => ROPE_NEOX_ANY,
        };
        variant
            .constant("ROT_DIM", if self.rope == Rope::None { 0 } else { self.rot_dim })
            .constant("QK_NORM", self.qk_norm_eps.is_some().into())
            .with(QK_NORM)
            .with(rope)
    }
}

/// How decode shares a layer's keys out: split s takes the keys from `s * span` on, counted from the first block in sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Splits {
    /// Splits of a head's keys; 1: the result needs no merging.
    pub count: u32,
    /// Keys of a split, a multiple of [`KV_BLOCK`].
    pub span: u32,
}

impl Splits {
    /// All keys in one.
    pub const ONE: Splits = Splits { count: 1, span: u32::MAX };
}

/// By which rule [`Splits`] are chosen: a GPU wants two to four workgroups a core, but a split costs a dispatch that merges, and
/// each workgroup norms and rotates the queries again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitRule {
    /// Up to so many keys stay in one split; also where the buckets of decode begin.
    pub whole: u32,
    /// The least span.
    pub least: u32,
    /// Workgroups to aim for.
    pub workgroups: u32,
}

impl SplitRule {
    /// The rule of a device. A CPU adapter needs but a few workgroups a core, so that none waits for another's last one:
    /// the three of SmolLM2 keep two cores busy for three quarters of the time. Splits cost it 6 to 14 % more work.
    pub fn of(tier: Tier) -> Self {
        match tier.cpu {
            true => Self { whole: 1024, least: 256, workgroups: 16 },
            false => Self { whole: 512, least: 256, workgroups: 96 },
        }
    }

    /// The splits of a layer whose heads take `workgroups` workgroups, for sequences of up to `positions` tokens.
    pub fn splits(self, shape: &AttentionShape, workgroups: u32, positions: u32) -> Splits {
        let seen = if shape.window == 0 { positions } else { positions.min(shape.window) };
        if seen <= self.whole {
            return Splits::ONE;
        }
        let most = (self.workgroups / workgroups.max(1)).max(1);
        let span = seen.div_ceil(most).max(self.least).next_multiple_of(KV_BLOCK);
        // A window begins anywhere in its first block.
        let reach = if shape.window == 0 { seen } else { seen + KV_BLOCK - 1 };
        match reach.div_ceil(span) {
            1 => Splits::ONE,
            count => Splits { count, span },
        }
    }
}

/// The buffers of one layer's attention. The kernels set the access themselves. T: tokens of the pass, 1 in decode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionBuffers {
    /// u32: done, pos, n_tokens, … (`shaders/parts/state.wgsl`).
    pub state: Binding,
    /// f32 (T, q | k | v).
    pub qkv: Binding,
    /// f32 (q | k, head_dim): the norm weights of q and, right behind them, of k. Read only with `qk_norm_eps`.
    pub qk_norm: Option<Binding>,
    /// `vec2<f32>` (context, rot_dim / 2): cos and sin. Not read with [`Rope::None`].
    pub rope: Option<Binding>,
    /// The layer's pool, f32 or f16: (physical block, K | V, n_kv_heads, [`KV_BLOCK`], head_dim).
    pub kv: Binding,
    /// u32: the sequence's physical block of each logical block (position / [`KV_BLOCK`]).
    pub blocks: Binding,
    /// f32 (n_heads): read only with the shape's `sinks`.
    pub sinks: Option<Binding>,
    /// f32 (T, n_heads, head_dim): the result.
    pub att: Binding,
    /// f32 (n_heads, splits, head_dim + 4): what decode's splits leave, [`AttentionShape::parts_bytes`]; used with more than one.
    pub parts: Binding,
}

impl AttentionBuffers {
    /// The bindings of `parts/rope_*` and `parts/qk_norm`: where a model lacks one, the state stands in and is not read.
    pub(super) fn rope_and_norm(&self) -> [Binding; 2] {
        [reads(self.rope.unwrap_or(self.state)), reads(self.qk_norm.unwrap_or(self.state))]
    }
}

impl AttentionShape {
    /// The part that a kernel divides by the softmax's total with, and the binding that it needs behind `bindings`. `whole`: whether
    /// this kernel does divide. Error: `internal` for a shape with sinks that has no buffer of them.
    pub(super) fn link_sinks(
        &self,
        variant: Variant,
        bindings: &mut Vec<Binding>,
        sinks: Option<Binding>,
        whole: bool,
    ) -> Result<Variant> {
        if !self.sinks || !whole {
            return Ok(variant.with(SINKS_NONE));
        }
        let fits = |b: &Binding| b.bytes >= u64::from(self.n_heads) * 4;
        let sinks = sinks.filter(fits).ok_or_else(|| err!(Internal, "attention: {} heads lack sinks", self.n_heads))?;
        bindings.push(reads(sinks));
        Ok(variant.constant("SINKS", bindings.len() as u32).with(SINKS))
    }
}

pub(super) fn reads(binding: Binding) -> Binding {
    Binding { access: Access::Read, ..binding }
}

pub(super) fn writes(binding: Binding) -> Binding {
    Binding { access: Access::ReadWrite, ..binding }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: AttentionShape = AttentionShape {
        n_heads: 9,
        n_kv_heads: 3,
        head_dim: 64,
        scale: 0.125,
        rope: Rope::Interleaved,
        rot_dim: 64,
        window: 0,
        softcap: 0.0,
        qk_norm_eps: None,
        sinks: false,
        causal: true,
        kv: KvType::F16,
    };

    #[test]
    fn sizes_of_smollm2() {
        assert_eq!((SHAPE.group(), SHAPE.qkv_len(), SHAPE.kv_block_bytes()), (3, 960, 2 * 3 * 32 * 64 * 2));
        assert_eq!(SHAPE.check(), Ok(()));
    }

    #[test]
    fn shapes_that_the_kernels_lack_are_named() {
        let wrong = [
            AttentionShape { n_kv_heads: 0, ..SHAPE },
            AttentionShape { n_kv_heads: 2, ..SHAPE },
            AttentionShape { head_dim: 0, ..SHAPE },
            AttentionShape { head_dim: 60, ..SHAPE },
            AttentionShape { head_dim: 264, ..SHAPE },
            AttentionShape { rot_dim: 66, ..SHAPE },
            AttentionShape { rot_dim: 7, ..SHAPE },
            AttentionShape { causal: false, window: 8, ..SHAPE },
        ];
        for shape in wrong {
            let code = shape.check().expect_err("a shape that cannot be computed").code;
            assert_eq!(code, crate::error::Code::UnsupportedArchitecture, "{shape:?}");
        }
        assert_eq!(AttentionShape { rope: Rope::None, rot_dim: 0, ..SHAPE }.check(), Ok(()));
    }
}
