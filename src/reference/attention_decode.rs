//! The twin of `attention_decode` (and of its CPU variant).

use super::Memory;
use super::attention::{Pool, QkTables, Setup};
use crate::error::Result;
use crate::kernels::Dispatch;

/// Appends k and v of the token at `pos`, then attends.
pub fn attention_decode(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let setup = Setup::new(d, m)?;
    let state = m.binding(d, 1)?;
    if state[0] != 0 {
        return Ok(());
    }
    let pos = state[1] as usize;
    let qkv = m.floats(d, 2)?;
    let mut pool = Pool { words: m.binding(d, 3)?.to_vec(), blocks: m.binding(d, 4)?.to_vec() };
    let tables = QkTables { rope: m.floats(d, 6)?, norm: m.floats(d, 7)? };
    let heads: Vec<&[f32]> = qkv.chunks_exact(setup.head_dim).collect();
    for kv_head in 0..setup.n_kv_heads {
        let k = setup.made(heads[setup.n_heads + kv_head], true, &tables, pos);
        setup.store(&mut pool, pos, kv_head, false, &k);
        let v: Vec<f64> = heads[setup.n_heads + setup.n_kv_heads + kv_head].iter().map(|x| f64::from(*x)).collect();
        setup.store(&mut pool, pos, kv_head, true, &v);
    }
    let whole = !d.variant.consts.contains(&("PARTIAL", 1));
    let out = m.binding_mut(d, 5)?;
    let mut put = |at: usize, numbers: &[f64]| {
        out[at..at + numbers.len()].iter_mut().zip(numbers).for_each(|(o, x)| *o = (*x as f32).to_bits());
    };
    for (head, q) in heads[..setup.n_heads].iter().enumerate() {
        let q = setup.made(q, false, &tables, pos);
        if whole {
            put(head * setup.head_dim, &setup.attend(&q, head, pos, pos + 1, &pool));
            continue;
        }
        for (split, keys) in setup.split_keys(pos).into_iter().enumerate() {
            let part = setup.part(&q, head, keys, &pool);
            let at = (head * setup.splits + split) * (setup.head_dim + 4);
            put(at, &part.out);
            put(at + setup.head_dim, &[part.top, part.total, 0.0, 0.0]);
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
    super::attention_cases::decode(tier)
}
