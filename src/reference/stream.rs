//! The twin of `stream`.

use super::Memory;
use super::case::{Case, Noise};
use crate::error::Result;
use crate::kernels::stream::{block_bytes, stream as build, sums_bytes};
use crate::kernels::{Binding, Dispatch, Recording};
use crate::tensor::Tier;

/// `sums[t]` = the exclusive or of what invocation t reads.
pub fn stream(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let number = |name: &str| d.variant.consts.iter().find(|c| c.0 == name).map_or(1, |c| c.1 as usize);
    let (wg, loads) = (number("WG"), number("LOADS"));
    let data = m.binding(d, 1)?.to_vec();
    let sums = m.binding_mut(d, 2)?;
    sums[..data.len() / 4 / loads].fill(0);
    for (at, vector) in data.chunks_exact(4).enumerate() {
        let (workgroup, lane) = (at / (wg * loads), at % wg);
        sums[workgroup * wg + lane] ^= vector.iter().fold(0, |a, b| a ^ b);
    }
    Ok(())
}

/// One workgroup and three, equal bit for bit.
pub fn cases(tier: Tier) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for blocks in [1u64, 3] {
        let bytes = blocks * block_bytes(tier);
        let mut noise = Noise(blocks);
        let mut memory = Memory::default();
        let data = memory.push((0..bytes / 4).map(|_| noise.bits() as u32).collect());
        let sums = memory.push(vec![0; sums_bytes(tier, bytes) as usize / 4]);
        let sums_binding = Binding::read_write(sums, 0, sums_bytes(tier, bytes));
        let dispatches = vec![build(tier, Binding::read(data, 0, bytes), sums_binding)?];
        let outputs = vec![(sums, 0.0)];
        cases.push(Case { name: format!("stream {bytes} bytes"), recording: Recording { dispatches }, memory, outputs });
    }
    Ok(cases)
}
