//! The twin of `attention_prefill` (and of its CPU variant).

use super::Memory;
use super::attention::{Pool, Setup};
use crate::error::Result;
use crate::kernels::Dispatch;

/// Attends for every token of the pass.
pub fn attention_prefill(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let setup = Setup::new(d)?;
    let state = m.binding(d, 1)?;
    if state[0] != 0 {
        return Ok(());
    }
    let (start, n_tokens) = (state[1] as usize, state[2] as usize);
    let qkv = m.floats(d, 2)?;
    let pool = Pool { words: m.binding(d, 3)?.to_vec(), blocks: m.binding(d, 4)?.to_vec() };
    let mut att = Vec::new();
    for (token, numbers) in qkv.chunks_exact(setup.token_len()).take(n_tokens).enumerate() {
        for (head, q) in numbers.chunks_exact(setup.head_dim).take(setup.n_heads).enumerate() {
            let q: Vec<f64> = q.iter().map(|x| f64::from(*x)).collect();
            att.extend(setup.attend(&q, head, start + token, &pool).iter().map(|x| (*x as f32).to_bits()));
        }
    }
    m.binding_mut(d, 5)?[..att.len()].copy_from_slice(&att);
    Ok(())
}

/// Over the shapes of many models, in odd sizes.
pub fn cases(tier: crate::tensor::Tier) -> Vec<super::case::Case> {
    super::attention_cases::prefill(tier)
}
