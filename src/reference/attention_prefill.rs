//! The twin of `attention_prefill` (and of its CPU variant).

use super::Memory;
use super::attention::{Pool, Setup};
use crate::error::Result;
use crate::kernels::Dispatch;
use crate::kernels::attention_prefill::{FIRST, QUERIES};

/// Attends for every token of the pass.
pub fn attention_prefill(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let setup = Setup::new(d, m)?;
    let state = m.binding(d, 1)?;
    if state[0] != 0 {
        return Ok(());
    }
    let (start, n_tokens) = (state[1] as usize, state[2] as usize);
    let qkv = m.floats(d, 2)?;
    let pool = Pool { words: m.binding(d, 3)?.to_vec(), blocks: m.binding(d, 4)?.to_vec() };
    for workgroup in d.params[FIRST]..d.params[FIRST] + d.workgroups[1] {
        let (head, tile) = (workgroup as usize % setup.n_heads, workgroup as usize / setup.n_heads);
        let first = tile * QUERIES as usize;
        for token in first..(first + QUERIES as usize).min(n_tokens) {
            let at = token * setup.token_len() + head * setup.head_dim;
            let q: Vec<f64> = qkv[at..at + setup.head_dim].iter().map(|x| f64::from(*x)).collect();
            let att = setup.attend(&q, head, start + token, start + n_tokens, &pool);
            let at = (token * setup.n_heads + head) * setup.head_dim;
            for (slot, x) in m.binding_mut(d, 5)?[at..].iter_mut().zip(att) {
                *slot = (x as f32).to_bits();
            }
        }
    }
    Ok(())
}

/// Over the shapes of many models, in odd sizes.
///
/// # Errors
/// `internal` where a kernel cannot be built.
pub fn cases(tier: crate::tensor::Tier) -> Result<Vec<super::case::Case>> {
    super::attention_cases::prefill(tier)
}
