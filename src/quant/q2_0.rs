//! Q2_0: blocks of 64 weights, d (f16) and sixteen bytes of bit pairs, four weights a byte in order; w = d * (q - 1).
//!
//! On the GPU: quants (8 bytes a group, in the order of `bits::spread_pairs`) | d (f16 a block of two groups).

#[cfg(feature = "reference")]
use super::GROUP;
use super::bits::{half, pad16, spread_pairs, word};

/// Weights in a block.
const BLOCK: usize = 64;
const BYTES: usize = 2 + BLOCK / 4;

pub fn gpu_bytes(groups: usize) -> usize {
    groups * 8 + pad16(groups)
}

/// Sixteen weights of a block, one a byte: `i` (0..4) says which sixteen.
fn quants(block: &[u8], i: usize) -> u128 {
    let packed = word(block, 2 + 4 * i);
    (0..16).fold(0, |out, k| out | (u128::from((packed >> (2 * k)) & 3) << (8 * k)))
}

pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
    let (packed, d) = dst.split_at_mut(groups * 8);
    d.fill(0);
    for (b, block) in src.chunks_exact(BYTES).enumerate() {
        for g in 0..2 {
            packed[8 * (2 * b + g)..][..8].copy_from_slice(&spread_pairs(quants(block, 2 * g), quants(block, 2 * g + 1)));
        }
        d[2 * b..2 * (b + 1)].copy_from_slice(&block[..2]);
    }
}

pub fn decode(src: &[u8], out: &mut [f32]) {
    for (block, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(BLOCK)) {
        let d = half(block, 0);
        for (i, out) in out.chunks_exact_mut(16).enumerate() {
            for (out, q) in out.iter_mut().zip(quants(block, i).to_le_bytes()) {
                *out = d * (f32::from(q) - 1.0);
            }
        }
    }
}

#[cfg(feature = "reference")]
pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
    let (packed, scales) = src.split_at(groups * 8);
    for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
        let d = half(scales, 2 * (g / 2));
        super::bits::affine(&super::bits::pairs(packed, 8 * g), d, -d, out);
    }
}
