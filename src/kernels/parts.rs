//! The parts that kernels share, and the choice among those of one kind.

use super::{Part, Source, Variant};
use crate::error::Result;
use crate::source;
use crate::tensor::{Format, Tier};

/// `W32` and the `weights` conventions.
pub const WEIGHTS: Source = source!("parts/weights");
/// Reductions by a tree in workgroup memory.
pub const REDUCE_WORKGROUP: Source = source!("parts/reduce_workgroup");
/// Reductions by subgroup operations.
pub const REDUCE_SUBGROUP: Source = source!("parts/reduce_subgroup");
/// The matrices of one dispatch of matvec or matmul.
pub const SEGMENTS: Source = source!("parts/segments");
const FORMATS: [Source; 3] = [source!("parts/formats_1"), source!("parts/formats_2"), source!("parts/formats_3")];
/// `activate`: SiLU.
pub const ACT_SILU: Source = source!("parts/act_silu");
/// `activate`: GELU's tanh approximation.
pub const ACT_GELU_TANH: Source = source!("parts/act_gelu_tanh");

/// The activation of a gated feed-forward block: `out = act(gate) * up`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x * sigmoid(x)` (Llama, Qwen).
    Silu,
    /// GELU's tanh approximation (Gemma).
    GeluTanh,
}

impl Activation {
    /// The part that declares `fn activate(x: f32) -> f32`.
    pub fn part(self) -> Source {
        match self {
            Activation::Silu => ACT_SILU,
            Activation::GeluTanh => ACT_GELU_TANH,
        }
    }
}

impl Variant {
    /// Links the reductions of this tier, for workgroups of `workgroup_size` (a power of two).
    pub fn with_reduce(mut self, tier: Tier, workgroup_size: u32) -> Self {
        self.subgroups = tier.subgroups;
        let part = if tier.subgroups { REDUCE_SUBGROUP } else { REDUCE_WORKGROUP };
        self.constant("WG", workgroup_size).with(part)
    }

    /// Links the decoders of one to three weight formats as `qa_`, `qb_` and `qc_`, and `load_w(f, row, g, n)`, which
    /// chooses among them by `f`, the format's place in `decoders`.
    pub fn with_quants(mut self, decoders: &[Source]) -> Self {
        self.parts.push(WEIGHTS.into());
        for (&source, prefix) in decoders.iter().zip([None, Some("qb_"), Some("qc_")]) {
            self.parts.push(Part { source, prefix });
        }
        let choice = FORMATS[decoders.len().clamp(1, FORMATS.len()) - 1];
        self.parts.push(choice.into());
        self
    }
}

/// The decoder of a weight format. Error: `unsupported-quant`.
pub fn decoder(format: Format) -> Result<Source> {
    let quant = crate::quant::supported(format)?;
    Ok(Source { name: quant.part, text: quant.shader })
}
