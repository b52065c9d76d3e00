//! Noise or one value into a whole buffer: `shaders/fill.wgsl`.

use super::{Binding, Cost, Dispatch, MAX_WORKGROUPS, Source, Variant};
use crate::err;
use crate::error::Result;
use crate::source;

const FILL: Source = source!("fill");
/// Invocations of a workgroup, a vec4 each.
const WG: u32 = 64;
/// Workgroups in a row of the grid.
const ROW: u32 = 256;

/// Leaves of a random word what makes a small finite number of it, whether it is read as f32, as two f16 or as scales and
/// quants in any block format whose scales are f16: of an f16's exponent only bit 1 may be set, so that it stays below 2^-12.
/// Synthetic models have such formats; MXFP4's scales are exponents, which this leaves large.
pub const SMALL: u32 = 0x8bff_8bff;

/// What a buffer is filled with: `hash(j, seed) & mask | bits` as word j.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Other seeds, other noise.
    pub seed: u32,
    /// The bits that are noise.
    pub mask: u32,
    /// The bits that are set.
    pub bits: u32,
}

impl Pattern {
    /// Small finite weights in any format.
    pub fn noise(seed: u32) -> Self {
        Self { seed, mask: SMALL, bits: 0 }
    }

    /// One float everywhere.
    pub fn float(value: f32) -> Self {
        Self { seed: 0, mask: 0, bits: value.to_bits() }
    }
}

/// Fills `words`, u32\[bytes / 4\].
///
/// # Errors
/// `internal` where the bytes are no multiple of 16 or too many for a grid.
pub fn fill(words: Binding, pattern: Pattern) -> Result<Dispatch> {
    let vec4s = words.bytes / 16;
    let workgroups = vec4s.div_ceil(WG.into());
    let grid_x = workgroups.min(ROW.into());
    let rows = workgroups.div_ceil(grid_x.max(1));
    if !words.bytes.is_multiple_of(16) || vec4s == 0 || vec4s > u64::from(u32::MAX) / 4 || rows > MAX_WORKGROUPS.into() {
        return Err(err!(Internal, "fill: {} bytes", words.bytes));
    }
    let Pattern { seed, mask, bits } = pattern;
    Ok(Dispatch {
        variant: Variant::new(FILL, &[]).constant("WG", WG),
        params: vec![vec4s as u32, seed, mask, bits, grid_x as u32],
        bindings: vec![words],
        workgroups: [grid_x as u32, rows as u32, 1],
        cost: Cost { fixed: vec4s * 4, per_key: 0 },
        continues: false,
    })
}
