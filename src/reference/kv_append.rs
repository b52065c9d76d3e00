//! The twin of `kv_append`.

use super::Memory;
use super::attention::{Pool, QkTables, Setup};
use crate::error::Result;
use crate::kernels::Dispatch;

/// Turns q in place, stores k and v of every token of the pass.
pub fn kv_append(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let setup = Setup::new(d, m)?;
    let state = m.binding(d, 1)?;
    if state[0] != 0 {
        return Ok(());
    }
    let (start, n_tokens) = (state[1] as usize, (state[2]).min(d.workgroups[1]) as usize);
    let qkv = m.floats(d, 2)?;
    let mut pool = Pool { words: m.binding(d, 3)?.to_vec(), blocks: m.binding(d, 4)?.to_vec() };
    let tables = QkTables { rope: m.floats(d, 5)?, norm: m.floats(d, 6)? };
    for (token, numbers) in qkv.chunks_exact(setup.token_len()).take(n_tokens).enumerate() {
        let pos = start + token;
        let heads: Vec<&[f32]> = numbers.chunks_exact(setup.head_dim).collect();
        for (head, q) in heads[..setup.n_heads].iter().enumerate() {
            let q = setup.made(q, false, &tables, pos);
            let at = token * setup.token_len() + head * setup.head_dim;
            for (slot, x) in m.binding_mut(d, 2)?[at..].iter_mut().zip(q) {
                *slot = (x as f32).to_bits();
            }
        }
        for kv_head in 0..setup.n_kv_heads {
            let k = setup.made(heads[setup.n_heads + kv_head], true, &tables, pos);
            setup.store(&mut pool, pos, kv_head, false, &k);
            let v: Vec<f64> = heads[setup.n_heads + setup.n_kv_heads + kv_head].iter().map(|x| f64::from(*x)).collect();
            setup.store(&mut pool, pos, kv_head, true, &v);
        }
    }
    m.binding_mut(d, 3)?.copy_from_slice(&pool.words);
    Ok(())
}

/// Over the shapes of many models, in odd sizes.
///
/// # Errors
/// `internal` where a kernel cannot be built.
pub fn cases(tier: crate::tensor::Tier) -> Result<Vec<super::case::Case>> {
    super::attention_cases::append(tier)
}
