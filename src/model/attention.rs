//! The attention half of a block: q, k and v of the normed stream, attention over the KV cache, and the output matrix.

use super::Architecture;
use super::builder::Builder;
use super::forward::{Pass, STORE};
use super::layer::Linear;
use super::plan::{Group, Plan, Slot};
use crate::error::Result;
use crate::kernels::Binding;
use crate::kernels::attention::{AttentionBuffers, AttentionShape};
use crate::kernels::attention_decode::{attention_decode, splits};
use crate::kernels::attention_prefill::attention_prefill;
use crate::kernels::kv_append::kv_append;
use crate::kernels::tuning::Role;

/// A layer's attention.
#[derive(Debug, Clone)]
pub(super) struct Attention {
    norm: Binding,
    pub post_norm: Option<Binding>,
    qk_norm: Option<Binding>,
    pub qkv: Linear,
    pub out: Linear,
    kv: Slot,
    /// Which block table.
    group: usize,
    /// Which layer.
    index: u32,
}

impl Attention {
    pub fn read(b: &mut Builder<'_>, a: &Architecture, index: u32, groups: &[Group]) -> Result<Self> {
        let name = |part: &str| format!("blk.{index}.{part}");
        let heads = a.n_heads * a.head_dim;
        let kv_heads = a.n_kv_heads * a.head_dim;
        let group = groups.iter().position(|g| g.window == a.window_of(index)).unwrap_or_default();
        let qk_norm = match a.qk_norm {
            false => None,
            true => {
                let q = b.vector(&name("attn_q_norm.weight"), a.head_dim)?;
                b.append(&name("attn_k_norm.weight"), a.head_dim)?;
                Some(Binding { bytes: q.bytes * 2, ..q })
            }
        };
        let qkv = [("attn_q.weight", heads), ("attn_k.weight", kv_heads), ("attn_v.weight", kv_heads)];
        let qkv: Vec<_> = qkv.iter().map(|(part, rows)| (name(part), *rows)).collect();
        let pool_bytes = u64::from(groups[group].pool_blocks) * a.attention(index, b.options.kv).kv_block_bytes();
        Ok(Self {
            norm: b.vector(&name("attn_norm.weight"), a.n_embd)?,
            post_norm: a.post_norms.then(|| b.vector(&name("post_attention_norm.weight"), a.n_embd)).transpose()?,
            qk_norm,
            qkv: b.linear(name("qkv"), a.n_embd, &qkv)?,
            out: b.linear(name("attn_output"), heads, &[(name("attn_output.weight"), a.n_embd)])?,
            kv: b.slot(name("KV cache"), pool_bytes)?,
            group,
            index,
        })
    }

    /// q, k and v.
    pub fn project(&self, p: &mut Pass<'_>) -> Result<()> {
        p.normed(Role::Qkv, &self.qkv, self.norm, p.plan.ids.qkv, STORE)
    }

    pub fn inner(&self, p: &mut Pass<'_>) -> Result<()> {
        self.project(p)?;
        let options = &p.plan.options;
        let (shape, buffers) = (self.shape(p.plan), self.buffers(p.plan));
        match p.positions {
            Some(positions) => {
                let splits = splits(options.tier, &shape, options.split_rule, positions);
                p.recording.dispatches.extend(attention_decode(options.tier, &shape, &buffers, splits)?);
            }
            None => {
                p.recording.push(kv_append(options.tier, &shape, &buffers, p.tokens));
                p.recording.extend(attention_prefill(options.tier, &shape, &buffers, p.tokens)?);
            }
        }
        Ok(())
    }

    pub fn outer(&self, p: &mut Pass<'_>) -> Result<()> {
        p.add(Role::Out, &self.out, p.plan.ids.att, self.post_norm)
    }

    fn shape(&self, plan: &Plan) -> AttentionShape {
        plan.architecture.attention(self.index, plan.options.kv)
    }

    fn buffers(&self, plan: &Plan) -> AttentionBuffers {
        let group = &plan.groups[self.group];
        let rope = if group.window > 0 { plan.ids.rope_window } else { plan.ids.rope_global };
        AttentionBuffers {
            state: plan.ids.state.read(),
            qkv: plan.ids.qkv.write(),
            qk_norm: self.qk_norm,
            rope: Some(rope.read()),
            kv: self.kv.write(),
            blocks: group.table.read(),
            sinks: None,
            att: plan.ids.att.write(),
            parts: plan.ids.parts.write(),
        }
    }
}
