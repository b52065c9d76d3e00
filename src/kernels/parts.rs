//! The parts that kernels share, and the choice among those of one kind.

use super::{Part, Source, Variant};
use crate::source;
use crate::tensor::Tier;

/// `W32` and the `weights` conventions.
pub const WEIGHTS: Source = source!("parts/weights");
/// Reductions by a tree in workgroup memory.
pub const REDUCE_WORKGROUP: Source = source!("parts/reduce_workgroup");
/// Reductions by subgroup operations.
pub const REDUCE_SUBGROUP: Source = source!("parts/reduce_subgroup");

impl Variant {
    /// Links the reductions of this tier, for workgroups of `workgroup_size` (a power of two).
    pub fn with_reduce(mut self, tier: Tier, workgroup_size: u32) -> Self {
        self.subgroups = tier.subgroups;
        let part = if tier.subgroups { REDUCE_SUBGROUP } else { REDUCE_WORKGROUP };
        self.constant("WG", workgroup_size).with(part)
    }

    /// Links the decoders of up to three weight formats as `qa_`, `qb_` and `qc_`.
    pub fn with_quants(mut self, formats: &[Source]) -> Self {
        self.parts.push(WEIGHTS.into());
        for (&source, prefix) in formats.iter().zip([None, Some("qb_"), Some("qc_")]) {
            self.parts.push(Part { source, prefix });
        }
        self
    }
}
