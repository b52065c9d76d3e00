//! A gated short convolution in place of attention: B, C and x of the normed stream, `C · conv(B · x)`, and the output matrix.

use super::Architecture;
use super::builder::{Builder, Rows};
use super::forward::Pass;
use super::layer::{Linear, Norms};
use super::plan::Slot;
use crate::error::Result;
use crate::kernels::Binding;
use crate::kernels::matvec::Epilogue;
use crate::kernels::short_conv::{self, short_conv};
use crate::kernels::tuning::Role;

/// A layer's convolution.
#[derive(Debug, Clone)]
pub(super) struct ShortConv {
    shape: short_conv::ShortConv,
    pub norms: Norms,
    pub in_proj: Linear,
    weights: Binding,
    past: Slot,
    pub out: Linear,
}

impl ShortConv {
    pub fn read(b: &mut Builder<'_>, a: &Architecture, index: u32, shape: short_conv::ShortConv) -> Result<Self> {
        let name = |part: &str| format!("blk.{index}.{part}");
        let in_proj = [Rows::all(name("shortconv.in_proj.weight"), 3 * shape.channels)];
        Ok(Self {
            shape,
            norms: b.norms(a, &a.attention_norms, index)?,
            in_proj: b.linear(name("in_proj"), a.n_embd, &in_proj)?,
            weights: b.table(&name("shortconv.conv.weight"), &[shape.taps, shape.channels])?,
            past: b.slot(name("past of the convolution"), shape.past_len() * 4)?,
            out: b.linear(name("out_proj"), shape.channels, &[Rows::all(name("shortconv.out_proj.weight"), a.n_embd)])?,
        })
    }

    /// B, C and x.
    pub fn project(&self, p: &mut Pass<'_>) -> Result<()> {
        p.normed(Role::Qkv, &self.in_proj, &self.norms, p.plan.ids.qkv, Epilogue::STORE)
    }

    pub fn inner(&self, p: &mut Pass<'_>) -> Result<()> {
        self.project(p)?;
        let ids = &p.plan.ids;
        let io = short_conv::Io {
            state: ids.state.read(),
            rows: ids.qkv.read(),
            stride: 3 * self.shape.channels,
            weights: self.weights,
            past: self.past.write(),
            out: ids.att.write(),
            tokens: p.tokens,
        };
        p.recording.push(short_conv(p.plan.options.tier, self.shape, io)?);
        Ok(())
    }

    pub fn outer(&self, p: &mut Pass<'_>) -> Result<()> {
        p.add(Role::Out, &self.out, p.plan.ids.att, &self.norms)
    }
}
