//! The KV cache as the CPU sees it: a pool of fixed-size blocks for each group of layers, and a sequence's block tables.
//!
//! Nothing is ever moved or reallocated. A windowed group gives blocks that no query can see any more back to its pool;
//! the tables' entries for them keep their last value, which no kernel reads.

use crate::err;
use crate::error::Result;
use crate::kernels::attention::KV_BLOCK;
use crate::model::{Group, SPARE_BLOCKS};

/// One group's pool and its table for the one sequence.
struct Pool {
    window: u32,
    /// Physical blocks that nobody holds.
    free: Vec<u32>,
    /// The physical block of each logical one; `None` where it is not held.
    table: Vec<Option<u32>>,
    /// Logical blocks before this one have been given back.
    first: usize,
}

/// The block tables of one sequence.
pub struct KvCache {
    pools: Vec<Pool>,
    context_length: u32,
}

impl KvCache {
    /// An empty cache for these groups.
    pub fn new(groups: &[Group], context_length: u32) -> Self {
        let blocks = context_length.div_ceil(KV_BLOCK) as usize;
        let pool =
            |g: &Group| Pool { window: g.window, free: (0..g.pool_blocks).rev().collect(), table: vec![None; blocks], first: 0 };
        Self { pools: groups.iter().map(pool).collect(), context_length }
    }

    /// Positions that fit.
    pub fn context_length(&self) -> u32 {
        self.context_length
    }

    /// Makes sure that positions `start..end` have blocks, giving back those that a query at `start` or later cannot see.
    /// Gives the groups whose table changed, with the table's words.
    ///
    /// # Errors
    /// `context-overflow` beyond the context, `internal` where a pool is exhausted, which its size rules out.
    pub fn reserve(&mut self, start: u32, end: u32) -> Result<Vec<(usize, Vec<u32>)>> {
        if end > self.context_length {
            return Err(err!(ContextOverflow, "position {end} does not fit a context of {} tokens", self.context_length));
        }
        let mut changed = Vec::new();
        for (index, pool) in self.pools.iter_mut().enumerate() {
            if pool.reserve(start, end)? {
                changed.push((index, pool.table.iter().map(|b| b.unwrap_or(0)).collect()));
            }
        }
        Ok(changed)
    }

    /// The longest prefix, at most `len` positions, whose keys and values are still held where a query at its end looks.
    pub fn rewindable(&self, len: u32) -> u32 {
        let held = |p: &Pool| p.window == 0 || p.first == 0 || (len + 1).saturating_sub(p.window) >= p.first as u32 * KV_BLOCK;
        if self.pools.iter().all(held) { len } else { 0 }
    }

    /// Forgets positions from `len` on; their blocks go back to the pools. 0 empties the cache.
    pub fn truncate(&mut self, len: u32) {
        let keep = len.div_ceil(KV_BLOCK) as usize;
        for pool in &mut self.pools {
            for slot in pool.table.iter_mut().skip(keep) {
                pool.free.extend(slot.take());
            }
            if len == 0 {
                pool.first = 0;
            }
        }
    }
}

impl Pool {
    fn reserve(&mut self, start: u32, end: u32) -> Result<bool> {
        if self.window > 0 {
            // A few blocks stay, so that an answer can be taken back and another given.
            let visible = ((start + 1).saturating_sub(self.window) / KV_BLOCK).saturating_sub(SPARE_BLOCKS) as usize;
            for slot in self.table.iter_mut().take(visible).skip(self.first) {
                self.free.extend(slot.take());
            }
            self.first = self.first.max(visible);
        }
        let mut changed = false;
        for slot in self.table.iter_mut().take(end.div_ceil(KV_BLOCK) as usize).skip(self.first) {
            if slot.is_none() {
                *slot = Some(self.free.pop().ok_or_else(|| err!(Internal, "a KV pool of window {} is exhausted", self.window))?);
                changed = true;
            }
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::BufferId;
    use crate::model::Slot;

    fn cache() -> KvCache {
        let group = |window, pool_blocks| Group { window, pool_blocks, table: Slot { id: BufferId(0), bytes: 0 } };
        KvCache::new(&[group(0, 16), group(64, 4 + SPARE_BLOCKS)], 512)
    }

    #[test]
    fn a_window_gives_old_blocks_back_and_never_runs_out() {
        let mut kv = cache();
        for start in (0..512).step_by(32) {
            kv.reserve(start, start + 32).unwrap();
            let held: Vec<u32> = kv.pools[1].table.iter().flatten().copied().collect();
            assert!(held.len() <= 4 + SPARE_BLOCKS as usize, "{held:?}");
            let mut unique = held.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), held.len(), "a block is held twice");
        }
        assert_eq!(kv.pools[0].free.len(), 0);
        assert_eq!(kv.reserve(512, 513).unwrap_err().code, crate::error::Code::ContextOverflow);
        kv.truncate(0);
        assert_eq!((kv.pools[0].free.len(), kv.pools[1].free.len()), (16, 12));
    }

    #[test]
    fn a_prefix_is_kept_only_where_its_window_is_still_held() {
        let mut kv = cache();
        kv.reserve(0, 40).unwrap();
        assert_eq!(kv.rewindable(7), 7);
        for start in (0..512).step_by(32) {
            kv.reserve(start, start + 32).unwrap();
        }
        assert_eq!(kv.rewindable(500), 500);
        assert_eq!(kv.rewindable(300), 300, "the spare blocks");
        assert_eq!(kv.rewindable(100), 0, "keys 37.. are gone");
    }
}
