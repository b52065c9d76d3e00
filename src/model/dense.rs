//! The feed-forward half of a block where every token passes the same matrices.

use super::Architecture;
use super::builder::{Builder, Rows};
use super::forward::Pass;
use super::layer::{Linear, Norms};
use crate::error::Result;
use crate::kernels::matvec::Epilogue;
use crate::kernels::tuning::Role;

/// A layer's feed-forward.
#[derive(Debug, Clone)]
pub(super) struct Dense {
    norms: Norms,
    /// Gate and up; up alone without a gate.
    pub gate_up: Linear,
    pub down: Linear,
}

impl Dense {
    pub fn read(b: &mut Builder<'_>, a: &Architecture, index: u32) -> Result<Self> {
        let name = |part: &str| format!("blk.{index}.{part}.weight");
        let (gate, up) = (name("ffn_gate"), name("ffn_up"));
        let gate_up = if !a.gated {
            vec![Rows::all(up, a.n_ff)]
        } else if b.has(&gate) {
            vec![Rows::all(gate, a.n_ff), Rows::all(up, a.n_ff)]
        } else {
            // Both in one tensor (Phi 3).
            let half = |first| Rows { name: up.clone(), of: 2 * a.n_ff, first, rows: a.n_ff };
            vec![half(0), half(a.n_ff)]
        };
        Ok(Self {
            norms: b.norms(a, &a.ffn_norms, index)?,
            gate_up: b.linear(format!("blk.{index}.gate and up"), a.n_embd, &gate_up)?,
            down: b.linear(format!("blk.{index}.ffn_down"), a.n_ff, &[Rows::all(name("ffn_down"), a.n_embd)])?,
        })
    }

    pub fn inner(&self, p: &mut Pass<'_>) -> Result<()> {
        let a = &p.plan.architecture;
        let epilogue = if a.gated { Epilogue::Gated(a.activation) } else { Epilogue::Activated(a.activation) };
        p.normed(Role::GateUp, &self.gate_up, &self.norms, p.plan.ids.gated, epilogue)
    }

    pub fn outer(&self, p: &mut Pass<'_>) -> Result<()> {
        p.add(Role::Down, &self.down, p.plan.ids.gated, &self.norms)
    }
}
