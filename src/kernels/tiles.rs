//! A pass's picks, sorted by expert and cut into tiles: `shaders/tiles.wgsl`.

use super::experts::Picks;
use super::route::MOST_EXPERTS;
use super::{Binding, Cost, Dispatch, Source, Variant, state};
use crate::err;
use crate::error::Result;
use crate::source;

const TILES: Source = source!("tiles");
/// Invocations of the only workgroup.
const WG: u32 = 128;

/// How a pass's picks are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiling {
    /// Experts of the layer.
    pub experts: u32,
    /// The most picks of a pass: tokens times slots.
    pub picks: u32,
    /// The most picks of a tile.
    pub tile: u32,
}

impl Tiling {
    /// The most tiles there can be: full ones, and one that is not full for each expert.
    pub fn tiles(&self) -> u32 {
        self.picks / self.tile + self.experts.min(self.picks)
    }

    /// Where in the list the sorted picks begin, in words.
    pub fn sorted_at(&self) -> u32 {
        4 * (self.tiles() + 1)
    }

    /// Bytes of the list.
    pub fn bytes(&self) -> u64 {
        4 * (u64::from(self.sorted_at()) + u64::from(self.picks))
    }
}

/// Sorts the picks of a pass of up to `tokens` tokens into `list`.
///
/// # Errors
/// `internal` where bindings are too small.
pub fn tiles(tiling: &Tiling, state: Binding, picks: &Picks, list: Binding, tokens: u32) -> Result<Dispatch> {
    let fits = (1..=MOST_EXPERTS).contains(&tiling.experts)
        && tiling.tile > 0
        && u64::from(tiling.picks) == u64::from(tokens) * u64::from(picks.slots)
        && list.bytes >= tiling.bytes()
        && picks.first + picks.slots <= picks.row
        && picks.binding.bytes >= u64::from(tokens) * u64::from(picks.row) * 8;
    if !fits {
        return Err(err!(Internal, "tiles: {tiling:?} does not fit {picks:?} of {tokens} tokens, {list:?}"));
    }
    let Picks { row, first, slots, .. } = *picks;
    Ok(Dispatch {
        variant: Variant::new(TILES, &[state::STATE]).constant("WG", WG),
        params: vec![tiling.experts, tokens, row, first, slots, tiling.tile, tiling.sorted_at(), 0],
        bindings: vec![state, picks.binding, list],
        workgroups: [1, 1, 1],
        cost: Cost { fixed: u64::from(tiling.experts) * u64::from(tiling.picks), per_key: 0 },
        continues: false,
    })
}
