//! The attention half of a block: q, k and v of the normed stream, attention over the KV cache, and the output matrix.

use super::Architecture;
use super::architecture::QkNorm;
use super::builder::{Builder, Rows};
use super::forward::Pass;
use super::layer::{Linear, NormWeights, Norms};
use super::plan::{Group, Plan, Slot};
use crate::error::Result;
use crate::kernels::Binding;
use crate::kernels::attention::{AttentionBuffers, AttentionShape};
use crate::kernels::attention_decode::{attention_decode, splits};
use crate::kernels::attention_prefill::attention_prefill;
use crate::kernels::gate::{self, gate};
use crate::kernels::kv_append::kv_append;
use crate::kernels::matvec::Epilogue;
use crate::kernels::parts::Activation;
use crate::kernels::tuning::Role;

/// A layer's attention.
#[derive(Debug, Clone)]
pub(super) struct Attention {
    pub norms: Norms,
    /// Of each head, which the attention kernels do: weights of q's norm and, right behind them, of k's.
    heads_norm: Option<Binding>,
    /// Of all heads together: where in a row of q, k and v each norm begins, its length and its weights.
    whole_norms: Vec<(u32, u32, NormWeights)>,
    /// A logit of each head for nothing at all.
    sinks: Option<Binding>,
    pub qkv: Linear,
    /// What each number that attention gives is gated with.
    pub gate: Option<Linear>,
    pub out: Linear,
    pub kv: Slot,
    /// Which block table.
    group: usize,
    /// Which layer.
    index: u32,
}

impl Attention {
    pub fn read(b: &mut Builder<'_>, a: &Architecture, index: u32, groups: &[Group]) -> Result<Self> {
        let name = |part: &str| format!("blk.{index}.{part}");
        let shape = a.attention(index, b.options.kv);
        let heads = a.n_heads * a.head_dim;
        let kv_heads = shape.n_kv_heads * a.head_dim;
        let group = groups.iter().position(|g| g.window == shape.window).unwrap_or_default();
        let (mut heads_norm, mut whole_norms) = (None, Vec::new());
        match a.qk_norm {
            QkNorm::None => {}
            QkNorm::Heads => {
                let q = b.vector(&name("attn_q_norm.weight"), a.head_dim)?;
                b.append(&name("attn_k_norm.weight"), a.head_dim)?;
                heads_norm = Some(Binding { bytes: q.bytes * 2, ..q });
            }
            QkNorm::Whole => {
                for (part, offset, len) in [("attn_q_norm", 0, heads), ("attn_k_norm", heads, kv_heads)] {
                    whole_norms.push((offset, len, b.norm(&name(part), a.norm.kind, len)?));
                }
            }
        }
        // With a gate the q matrix has for each head its rows and then the gate's.
        let half_of_heads = |half: u32| -> Vec<Rows> {
            let run = |head: u32| Rows {
                name: name("attn_q.weight"),
                of: 2 * heads,
                first: (2 * head + half) * a.head_dim,
                rows: a.head_dim,
            };
            (0..a.n_heads).map(run).collect()
        };
        let fused = name("attn_qkv.weight");
        let q = if a.attention_gate { half_of_heads(0) } else { vec![Rows::all(name("attn_q.weight"), heads)] };
        let [k, v] = ["attn_k.weight", "attn_v.weight"].map(|part| vec![Rows::all(name(part), kv_heads)]);
        let qkv = match b.has(&fused) {
            true => vec![vec![Rows::all(fused, heads + 2 * kv_heads)]],
            false => vec![q, k, v],
        };
        let gate = a.attention_gate.then(|| b.rows(name("attention's gate"), a.n_embd, &[half_of_heads(1)])).transpose()?;
        let sinks = name("attn_sinks.weight");
        let sinks = b.has(&sinks).then(|| b.vector(&sinks, a.n_heads)).transpose()?;
        let pool_bytes = u64::from(groups[group].pool_blocks) * shape.kv_block_bytes();
        Ok(Self {
            norms: b.norms(a, &a.attention_norms, index)?,
            heads_norm,
            whole_norms,
            sinks,
            qkv: b.rows(name("qkv"), a.n_embd, &qkv)?,
            gate,
            out: b.linear(name("attn_output"), heads, &[Rows::all(name("attn_output.weight"), a.n_embd)])?,
            kv: b.slot(name("KV cache"), pool_bytes)?,
            group,
            index,
        })
    }

    /// q, k and v.
    pub fn project(&self, p: &mut Pass<'_>) -> Result<()> {
        p.normed(Role::Qkv, &self.qkv, &self.norms, p.plan.ids.qkv, Epilogue::STORE)
    }

    pub fn inner(&self, p: &mut Pass<'_>) -> Result<()> {
        self.project(p)?;
        let row = self.qkv.matrices.iter().map(|m| m.rows).sum();
        for (offset, len, norm) in &self.whole_norms {
            p.norm_within(p.plan.ids.qkv, row, *offset, *len, norm)?;
        }
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
        self.gate.as_ref().map_or(Ok(()), |linear| self.gate(p, linear))
    }

    /// What attention gave, times the sigmoid of its gate.
    fn gate(&self, p: &mut Pass<'_>, linear: &Linear) -> Result<()> {
        p.normed(Role::Qkv, linear, &self.norms, p.plan.ids.gate, Epilogue::STORE)?;
        let (ids, cols) = (&p.plan.ids, self.out.matrices.first().map_or(0, |m| m.cols));
        let rows = |binding| gate::Rows { binding, offset: 0, stride: cols };
        let (value, out) = (None, rows(ids.att.write()));
        let io = gate::Io { state: ids.state.read(), gate: rows(ids.gate.read()), value, out, tokens: p.tokens, cols };
        p.recording.push(gate(Activation::Sigmoid, io)?);
        Ok(())
    }

    pub fn outer(&self, p: &mut Pass<'_>) -> Result<()> {
        p.add(Role::Out, &self.out, p.plan.ids.att, &self.norms)
    }

    fn shape(&self, plan: &Plan) -> AttentionShape {
        AttentionShape { sinks: self.sinks.is_some(), ..plan.architecture.attention(self.index, plan.options.kv) }
    }

    fn buffers(&self, plan: &Plan) -> AttentionBuffers {
        let group = &plan.groups[self.group];
        let rope = if group.window > 0 { plan.ids.rope_window } else { plan.ids.rope_global };
        AttentionBuffers {
            state: plan.ids.state.read(),
            qkv: plan.ids.qkv.write(),
            qk_norm: self.heads_norm,
            rope: Some(rope.read()),
            kv: self.kv.write(),
            blocks: group.table.read(),
            sinks: self.sinks,
            att: plan.ids.att.write(),
            parts: plan.ids.parts.write(),
        }
    }
}
