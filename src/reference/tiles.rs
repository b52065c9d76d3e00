//! The twin of `tiles`. Its cases are those of `gathered`.

use super::Memory;
use crate::err;
use crate::error::Result;
use crate::kernels::Dispatch;
use crate::kernels::state::{DONE, N_TOKENS};

/// The picks of a pass by expert, in the order of tokens, and the tiles that they make.
pub fn tiles(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let state = m.binding(d, 1)?;
    let &[experts, tokens, row, first, slots, tile, sorted_at, _] = d.params.as_slice() else {
        return Err(err!(Internal, "tiles: {} params", d.params.len()));
    };
    if state[DONE] != 0 {
        return Ok(());
    }
    let tokens = state[N_TOKENS].min(tokens);
    let picks = m.floats(d, 2)?;
    let expert = |pick: u32| picks[(2 * (pick / slots * row + first + pick % slots)) as usize] as u32;
    let list = m.binding_mut(d, 3)?;
    let (mut place, mut tiles) = (0u32, 0usize);
    for e in 0..experts {
        let of: Vec<u32> = (0..tokens * slots).filter(|pick| expert(*pick) == e).collect();
        for part in of.chunks(tile as usize) {
            tiles += 1;
            list[4 * tiles..4 * tiles + 3].copy_from_slice(&[e, place, place + part.len() as u32]);
            let at = (sorted_at + place) as usize;
            list[at..at + part.len()].copy_from_slice(part);
            place += part.len() as u32;
        }
    }
    list[0] = tiles as u32;
    Ok(())
}
