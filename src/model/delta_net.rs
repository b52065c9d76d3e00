//! A gated delta net in place of attention: q, k, v, a gate and two numbers for each head of the normed stream, a convolution
//! over q, k and v, the delta rule with the norm and the gate of each head, and the output matrix.

use super::Architecture;
use super::builder::{Builder, Rows};
use super::forward::Pass;
use super::layer::{Linear, Norms};
use super::plan::Slot;
use crate::error::Result;
use crate::kernels::Binding;
use crate::kernels::delta_net::{self, delta_net};
use crate::kernels::matvec::Epilogue;
use crate::kernels::short_conv::{self, short_conv};
use crate::kernels::tuning::Role;

/// A layer's delta net.
#[derive(Debug, Clone)]
pub(super) struct DeltaNet {
    net: delta_net::DeltaNet,
    conv: short_conv::ShortConv,
    pub norms: Norms,
    pub in_proj: Linear,
    conv_weights: Binding,
    past: Slot,
    of_heads: Binding,
    memory: Slot,
    pub out: Linear,
}

impl DeltaNet {
    pub fn read(
        b: &mut Builder<'_>,
        a: &Architecture,
        index: u32,
        net: delta_net::DeltaNet,
        conv: short_conv::ShortConv,
    ) -> Result<Self> {
        let name = |part: &str| format!("blk.{index}.{part}");
        let of_heads = b.vector(&name("ssm_a"), net.value_heads)?;
        b.append(&name("ssm_dt.bias"), net.value_heads)?;
        b.append(&name("ssm_norm.weight"), net.value_width)?;
        let in_proj = [
            vec![Rows::all(name("attn_qkv.weight"), net.channels())],
            vec![Rows::all(name("attn_gate.weight"), net.values())],
            numbers_of_heads(b, &name, &net),
        ];
        Ok(Self {
            net,
            conv,
            norms: b.norms(a, &a.attention_norms, index)?,
            in_proj: Linear { exact: true, ..b.rows(name("in_proj"), a.n_embd, &in_proj)? },
            conv_weights: b.table(&name("ssm_conv1d.weight"), &[conv.taps, conv.channels])?,
            past: b.slot(name("past of the convolution"), conv.past_len() * 4)?,
            of_heads: Binding { bytes: net.of_heads_len() * 4, ..of_heads },
            memory: b.slot(name("memory"), net.memory_len() * 4)?,
            out: b.linear(name("ssm_out"), net.values(), &[Rows::all(name("ssm_out.weight"), a.n_embd)])?,
        })
    }

    /// q, k, v, z, b and alpha.
    pub fn project(&self, p: &mut Pass<'_>) -> Result<()> {
        p.normed(Role::Qkv, &self.in_proj, &self.norms, p.plan.ids.qkv, Epilogue::STORE)
    }

    pub fn inner(&self, p: &mut Pass<'_>) -> Result<()> {
        self.project(p)?;
        let (tier, ids, tokens) = (p.plan.options.tier, &p.plan.ids, p.tokens);
        let io = short_conv::Io {
            state: ids.state.read(),
            rows: ids.qkv.read(),
            stride: self.net.projected(),
            weights: self.conv_weights,
            past: self.past.write(),
            out: ids.conv.write(),
            tokens,
        };
        p.recording.push(short_conv(tier, self.conv, io)?);
        let io = delta_net::Io {
            state: ids.state.read(),
            qkv: ids.conv.read(),
            rows: ids.qkv.read(),
            of_heads: self.of_heads,
            memory: self.memory.write(),
            out: ids.att.write(),
            tokens,
        };
        p.recording.extend(delta_net(tier, &self.net, io)?);
        Ok(())
    }

    pub fn outer(&self, p: &mut Pass<'_>) -> Result<()> {
        p.add(Role::Out, &self.out, p.plan.ids.att, &self.norms)
    }
}

/// The rows that make b and alpha of all value heads, b's first: two matrices (Qwen 3.5), or one that has for each key head
/// the b of its value heads and then their alpha (Qwen3-Next).
fn numbers_of_heads(b: &Builder<'_>, name: &impl Fn(&str) -> String, net: &delta_net::DeltaNet) -> Vec<Rows> {
    let heads = net.value_heads;
    let both = name("ssm_ba.weight");
    if b.header.tensor(&both).is_none() {
        return ["ssm_beta.weight", "ssm_alpha.weight"].map(|part| Rows::all(name(part), heads)).into();
    }
    let each = heads / net.key_heads;
    let run =
        |half: u32, key_head: u32| Rows { name: both.clone(), of: 2 * heads, first: (2 * key_head + half) * each, rows: each };
    (0..2).flat_map(|half| (0..net.key_heads).map(move |key_head| (half, key_head))).map(|(half, head)| run(half, head)).collect()
}
