//! The twin of `expert_sum`. Its cases are those of `gathered`.

use super::Memory;
use crate::err;
use crate::error::Result;
use crate::kernels::Dispatch;
use crate::kernels::state::{DONE, N_TOKENS};

/// `x[t, :] += scale · Σ_s weight[t, s] · given[t, s, :]`, sums in f64.
pub fn expert_sum(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let state = m.binding(d, 1)?;
    let &[vec4s, tokens, row, first, slots, scale] = d.params.as_slice() else {
        return Err(err!(Internal, "expert_sum: {} params", d.params.len()));
    };
    if state[DONE] != 0 {
        return Ok(());
    }
    let tokens = state[N_TOKENS].min(tokens) as usize;
    let (cols, slots, row, first) = (vec4s as usize * 4, slots as usize, row as usize, first as usize);
    let scale = f64::from(f32::from_bits(scale));
    let (picks, given) = (m.floats(d, 2)?, m.floats(d, 3)?);
    for (i, x) in m.binding_mut(d, 4)?.iter_mut().take(tokens * cols).enumerate() {
        let (t, k) = (i / cols, i % cols);
        let part = |s: usize| f64::from(picks[2 * (t * row + first + s) + 1]) * f64::from(given[(t * slots + s) * cols + k]);
        *x = ((f64::from(f32::from_bits(*x)) + scale * (0..slots).map(part).sum::<f64>()) as f32).to_bits();
    }
    Ok(())
}
