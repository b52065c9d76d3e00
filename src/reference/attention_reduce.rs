//! The twin of `attention_reduce`. Its cases are those of `attention_decode` with more than one split.

use super::Memory;
use super::attention::Setup;
use crate::error::Result;
use crate::kernels::Dispatch;

/// Merges the splits that the position reaches.
pub fn attention_reduce(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let setup = Setup::new(d, m)?;
    let state = m.binding(d, 1)?;
    if state[0] != 0 {
        return Ok(());
    }
    let live = setup.split_keys(state[1] as usize).len();
    let parts = m.floats(d, 2)?;
    let record = setup.head_dim + 4;
    let mut att = Vec::new();
    for (head, of_head) in parts.chunks_exact(setup.splits * record).take(setup.n_heads).enumerate() {
        let splits: Vec<&[f32]> = of_head.chunks_exact(record).take(live).collect();
        let top = splits.iter().map(|s| s[setup.head_dim]).fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f64> = splits.iter().map(|s| f64::from(s[setup.head_dim] - top).exp()).collect();
        let sum = |i: usize| splits.iter().zip(&weights).map(|(s, w)| f64::from(s[i]) * w).sum::<f64>();
        let total = setup.with_sink(sum(setup.head_dim + 1), top.into(), head);
        att.extend((0..setup.head_dim).map(|i| ((sum(i) / total) as f32).to_bits()));
    }
    m.binding_mut(d, 3)?[..att.len()].copy_from_slice(&att);
    Ok(())
}
