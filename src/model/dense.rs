//! The feed-forward half of a block where every token passes the same matrices.

use super::Architecture;
use super::builder::Builder;
use super::forward::Pass;
use super::layer::Linear;
use crate::error::Result;
use crate::kernels::Binding;
use crate::kernels::matvec::Epilogue;
use crate::kernels::tuning::Role;

/// A layer's feed-forward.
#[derive(Debug, Clone)]
pub(super) struct Dense {
    norm: Binding,
    post_norm: Option<Binding>,
    pub gate_up: Linear,
    pub down: Linear,
}

impl Dense {
    pub fn read(b: &mut Builder<'_>, a: &Architecture, index: u32) -> Result<Self> {
        let name = |part: &str| format!("blk.{index}.{part}");
        let gate_up = [(name("ffn_gate.weight"), a.n_ff), (name("ffn_up.weight"), a.n_ff)];
        Ok(Self {
            norm: b.vector(&name(a.ffn_norm), a.n_embd)?,
            post_norm: a.post_norms.then(|| b.vector(&name("post_ffw_norm.weight"), a.n_embd)).transpose()?,
            gate_up: b.linear(name("gate and up"), a.n_embd, &gate_up)?,
            down: b.linear(name("ffn_down"), a.n_ff, &[(name("ffn_down.weight"), a.n_embd)])?,
        })
    }

    pub fn inner(&self, p: &mut Pass<'_>) -> Result<()> {
        let gated = Epilogue::Gated(p.plan.architecture.activation);
        p.normed(Role::GateUp, &self.gate_up, self.norm, p.plan.ids.gated, gated)
    }

    pub fn outer(&self, p: &mut Pass<'_>) -> Result<()> {
        p.add(Role::Down, &self.down, p.plan.ids.gated, self.post_norm)
    }
}
