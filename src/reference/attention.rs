//! What the twins of the attention kernels share: the shape read back from a dispatch, the pool, heads of q and k, and
//! the attention of one query.

use std::ops::Range;

use half::f16;

use super::Memory;
use crate::err;
use crate::error::Result;
use crate::kernels::Dispatch;
use crate::kernels::attention::KV_BLOCK;

/// A dispatch's constants and parameters.
pub(super) struct Setup {
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
    scale: f64,
    softcap: f64,
    eps: f64,
    window: usize,
    rot_dim: usize,
    neox: bool,
    qk_norm: bool,
    kv_f16: bool,
    causal: bool,
    /// Of each head, where the kernel takes them in.
    sinks: Vec<f32>,
    pub splits: usize,
    span: usize,
}

/// The softmax over some of the keys a query sees: the highest score, Σ exp(score - top), and the same sum of values.
pub(super) struct Part {
    pub top: f64,
    pub total: f64,
    pub out: Vec<f64>,
}

/// Rotation table and norm weights, where a kernel makes q and k.
pub(super) struct QkTables {
    pub rope: Vec<f32>,
    pub norm: Vec<f32>,
}

/// A layer's pool and the sequence's blocks.
pub(super) struct Pool {
    pub words: Vec<u32>,
    pub blocks: Vec<u32>,
}

impl Setup {
    pub fn new(dispatch: &Dispatch, memory: &Memory) -> Result<Self> {
        let variant = &dispatch.variant;
        let find = |name: &str| variant.consts.iter().find(|c| c.0 == name).map(|c| c.1 as usize);
        let constant = |name: &str| find(name).ok_or_else(|| err!(Internal, "attention: no constant {name}"));
        let &[scale, softcap, eps, window, _, span, splits, _] = dispatch.params.as_slice() else {
            return Err(err!(Internal, "attention: expected 8 words of parameters, found {}", dispatch.params.len()));
        };
        let has = |name: &str| variant.parts.iter().any(|part| part.source.name == name);
        let float = |word: u32| f64::from(f32::from_bits(word));
        Ok(Self {
            n_heads: constant("N_HEADS")?,
            n_kv_heads: constant("N_KV_HEADS")?,
            head_dim: constant("HEAD_DIM")?,
            scale: float(scale),
            softcap: float(softcap),
            eps: float(eps),
            window: window as usize,
            rot_dim: find("ROT_DIM").unwrap_or(0),
            neox: has("parts/rope_neox") || has("parts/rope_neox_any"),
            qk_norm: find("QK_NORM") == Some(1),
            kv_f16: has("parts/kv_f16"),
            causal: constant("CAUSAL")? == 1,
            sinks: find("SINKS").map_or(Ok(Vec::new()), |binding| memory.floats(dispatch, binding))?,
            splits: splits as usize,
            span: span as usize,
        })
    }

    /// Floats of a token in `qkv`.
    pub fn token_len(&self) -> usize {
        (self.n_heads + 2 * self.n_kv_heads) * self.head_dim
    }

    /// As the pool stores it.
    pub fn rounded(&self, x: f64) -> f32 {
        if self.kv_f16 { f16::from_f64(x.clamp(-65504.0, 65504.0)).to_f32() } else { x as f32 }
    }

    /// A head of q or, with `is_k`, of k at position `pos`, normed and rotated.
    pub fn made(&self, head: &[f32], is_k: bool, tables: &QkTables, pos: usize) -> Vec<f64> {
        let mut x: Vec<f64> = head.iter().map(|v| f64::from(*v)).collect();
        if self.qk_norm {
            let mean = x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64;
            let weights = &tables.norm[if is_k { self.head_dim } else { 0 }..];
            for (v, w) in x.iter_mut().zip(weights) {
                *v = *v / (mean + self.eps).sqrt() * f64::from(*w);
            }
        }
        let half = self.rot_dim / 2;
        for pair in 0..half {
            let (i, j) = if self.neox { (pair, pair + half) } else { (2 * pair, 2 * pair + 1) };
            let at = 2 * (pos * half + pair);
            let (cos, sin) = (f64::from(tables.rope[at]), f64::from(tables.rope[at + 1]));
            (x[i], x[j]) = (x[i] * cos - x[j] * sin, x[i] * sin + x[j] * cos);
        }
        x
    }

    /// The index of a row's first number in the pool.
    fn row(&self, pool: &Pool, pos: usize, kv_head: usize, value: bool) -> usize {
        let block = KV_BLOCK as usize;
        let plane = 2 * pool.blocks[pos / block] as usize + usize::from(value);
        ((plane * self.n_kv_heads + kv_head) * block + pos % block) * self.head_dim
    }

    /// Stores a key or a value.
    pub fn store(&self, pool: &mut Pool, pos: usize, kv_head: usize, value: bool, numbers: &[f64]) {
        let row = self.row(pool, pos, kv_head, value);
        for (i, x) in (row..).zip(numbers) {
            let x = self.rounded(*x);
            if self.kv_f16 {
                let shift = 16 * (i % 2);
                pool.words[i / 2] = pool.words[i / 2] & !(0xffff << shift) | u32::from(f16::from_f32(x).to_bits()) << shift;
            } else {
                pool.words[i] = x.to_bits();
            }
        }
    }

    fn load(&self, pool: &Pool, pos: usize, kv_head: usize, value: bool) -> Vec<f64> {
        let row = self.row(pool, pos, kv_head, value);
        let number = |i: usize| match self.kv_f16 {
            true => f16::from_bits((pool.words[i / 2] >> (16 * (i % 2))) as u16).to_f64(),
            false => f64::from(f32::from_bits(pool.words[i])),
        };
        (row..row + self.head_dim).map(number).collect()
    }

    /// The first key that a query at `pos` sees.
    fn first_key(&self, pos: usize) -> usize {
        if self.window == 0 { 0 } else { (pos + 1).saturating_sub(self.window) }
    }

    /// The keys of each split that a query at `pos` reaches.
    pub fn split_keys(&self, pos: usize) -> Vec<Range<usize>> {
        let first = self.first_key(pos);
        let base = first - first % KV_BLOCK as usize;
        let starts = (base..=pos).step_by(self.span);
        starts.map(|start| start.max(first)..(start + self.span).min(pos + 1)).collect()
    }

    /// The attention of query head `head`, whose finished query is `q`, over `keys` in the pool.
    pub fn part(&self, q: &[f64], head: usize, keys: Range<usize>, pool: &Pool) -> Part {
        let kv_head = head / (self.n_heads / self.n_kv_heads);
        let score = |key: usize| {
            let k = self.load(pool, key, kv_head, false);
            let s = self.scale * q.iter().zip(&k).map(|(a, b)| a * b).sum::<f64>();
            if self.softcap == 0.0 { s } else { self.softcap * (s / self.softcap).tanh() }
        };
        let scores: Vec<f64> = keys.clone().map(score).collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut out = vec![0.0; self.head_dim];
        for (key, s) in keys.zip(&scores) {
            for (o, v) in out.iter_mut().zip(self.load(pool, key, kv_head, true)) {
                *o += (s - top).exp() * v;
            }
        }
        Part { top, total: scores.iter().map(|s| (s - top).exp()).sum(), out }
    }

    /// The total of head `head`'s softmax, relative to `top`, with its sink.
    pub fn with_sink(&self, total: f64, top: f64, head: usize) -> f64 {
        total + self.sinks.get(head).map_or(0.0, |sink| (f64::from(*sink) - top).exp())
    }

    /// The attention of query head `head` at `pos` over all keys that it sees, in a pass that ends before `end`.
    pub fn attend(&self, q: &[f64], head: usize, pos: usize, end: usize, pool: &Pool) -> Vec<f64> {
        let end = if self.causal { pos + 1 } else { end };
        let part = self.part(q, head, self.first_key(pos)..end, pool);
        let total = self.with_sink(part.total, part.top, head);
        part.out.iter().map(|o| o / total).collect()
    }
}
