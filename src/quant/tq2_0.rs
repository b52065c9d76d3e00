//! TQ2_0: blocks of 256 weights: 64 bytes of bit pairs in the order of Q2_K, d (f16); w = d * (q - 1).
//!
//! On the GPU: quants (8 bytes a group, in the order of `bits::spread_pairs`) | d (f16 a block).

use super::GROUP;
use super::bits::{block_pairs, half, pad16, spread_pairs};

/// Weights in a block.
const BLOCK: usize = 256;
/// Groups in a block.
const GROUPS: usize = BLOCK / GROUP;
const D_AT: usize = BLOCK / 4;
const BYTES: usize = D_AT + 2;

pub fn gpu_bytes(groups: usize) -> usize {
    groups * 8 + pad16(groups / GROUPS * 2)
}

pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
    let (quants, d) = dst.split_at_mut(groups * 8);
    d.fill(0);
    for (b, block) in src.chunks_exact(BYTES).enumerate() {
        for g in 0..GROUPS {
            let [first, second] = [0, 1].map(|h| block_pairs(block, g, h));
            quants[8 * (b * GROUPS + g)..][..8].copy_from_slice(&spread_pairs(first, second));
        }
        d[2 * b..2 * (b + 1)].copy_from_slice(&block[D_AT..]);
    }
}

pub fn decode(src: &[u8], out: &mut [f32]) {
    for (block, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(BLOCK)) {
        let d = half(block, D_AT);
        for (i, out) in out.chunks_exact_mut(16).enumerate() {
            for (out, q) in out.iter_mut().zip(block_pairs(block, i / 2, i % 2).to_le_bytes()) {
                *out = d * (f32::from(q) - 1.0);
            }
        }
    }
}

#[cfg(feature = "reference")]
pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
    let (quants, scales) = src.split_at(groups * 8);
    for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
        let d = half(scales, 2 * (g / GROUPS));
        super::bits::affine(&super::bits::pairs(quants, 8 * g), d, -d, out);
    }
}
