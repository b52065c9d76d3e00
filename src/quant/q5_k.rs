//! Q5_K: Q4_K with a fifth bit: blocks of 256 weights, the header of Q4_K, 32 bytes of high bits (bit g of byte i belongs to weight i
//! of group g), 128 bytes of low bits as in Q4_K; w = d * scale * q - dmin * minimum.
//!
//! On the GPU a block stays 176 bytes, which is eleven `vec4<u32>`: the header unchanged, a word of high bits for each group (in
//! the order of `bits::spread_bits`), one vector of low bits for each group.

use super::GROUP;
use super::bits::{sixteen, spread_bits};
use super::q4_k::{GROUPS, HEAD, repack_pairs, scales};

/// Weights in a block.
const BLOCK: usize = 256;
/// Bytes of a block's high bits.
const HIGH: usize = BLOCK / 8;
/// Where the low bits begin.
const LOW_BITS: usize = HEAD + HIGH;
const BYTES: usize = LOW_BITS + BLOCK / 2;

/// Bit 0 of every byte.
const ONES: u128 = 0x0101_0101_0101_0101_0101_0101_0101_0101;

pub fn gpu_bytes(groups: usize) -> usize {
    groups / GROUPS * BYTES
}

pub fn repack(_groups: usize, src: &[u8], dst: &mut [u8]) {
    for (src, dst) in src.chunks_exact(BYTES).zip(dst.chunks_exact_mut(BYTES)) {
        dst[..HEAD].copy_from_slice(&src[..HEAD]);
        let (first, second) = (sixteen(src, HEAD), sixteen(src, HEAD + 16));
        for g in 0..GROUPS {
            let bits = spread_bits((first >> g) & ONES, (second >> g) & ONES);
            dst[HEAD + 4 * g..HEAD + 4 * g + 4].copy_from_slice(&bits.to_le_bytes());
        }
        repack_pairs(&src[LOW_BITS..], &mut dst[LOW_BITS..]);
    }
}

pub fn decode(src: &[u8], out: &mut [f32]) {
    for (block, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(BLOCK)) {
        for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
            let (d, m) = scales(block, g);
            let low = &block[LOW_BITS + GROUP * (g / 2)..][..GROUP];
            for (i, out) in out.iter_mut().enumerate() {
                let q = ((low[i] >> (4 * (g % 2))) & 15) | (((block[HEAD + i] >> g) & 1) << 4);
                *out = d * f32::from(q) - m;
            }
        }
    }
}

#[cfg(feature = "reference")]
pub fn decode_gpu(_groups: usize, src: &[u8], out: &mut [f32]) {
    for (block, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(BLOCK)) {
        for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
            let (d, m) = scales(block, g);
            let high = super::bits::word(block, HEAD + 4 * g);
            super::bits::affine(&super::bits::quants(sixteen(block, LOW_BITS + 16 * g), high), d, -m, out);
        }
    }
}
