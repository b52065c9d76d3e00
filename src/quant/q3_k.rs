//! Q3_K: blocks of 256 weights: 32 bytes of third bits (bit g of byte i belongs to weight i of group g), 64 bytes of bit
//! pairs, twelve bytes with a six-bit scale for every sixteen weights, d (f16); w = d * (scale - 32) * (q - 4).
//!
//! On the GPU, for 110 bytes a block: low bits (8 bytes a group, in the order of `bits::spread_pairs`) | third bits (a u32
//! a group, in the order of `bits::spread_bits`) | scales (twelve bytes a block: for each group a byte with the low nibbles of
//! its two scales, then for each group four bits, the upper pairs of the two) | d (f16 a block).

use super::GROUP;
use super::bits::{block_pairs, half, pad16, sixteen, spread_bits, spread_pairs};

/// Weights in a block.
const BLOCK: usize = 256;
/// Groups in a block.
const GROUPS: usize = BLOCK / GROUP;
const PAIRS_AT: usize = BLOCK / 8;
const SCALES_AT: usize = PAIRS_AT + BLOCK / 4;
const D_AT: usize = SCALES_AT + 12;
const BYTES: usize = D_AT + 2;

/// The lowest bit of every byte.
const ONES: u128 = 0x0101_0101_0101_0101_0101_0101_0101_0101;

pub fn gpu_bytes(groups: usize) -> usize {
    groups * 12 + pad16(groups / GROUPS * 12) + pad16(groups / GROUPS * 2)
}

/// Where the streams of a row on the GPU start, after the low bits: third bits, scales, d.
const fn stream_starts(groups: usize) -> [usize; 3] {
    let scales_at = groups * 12;
    [groups * 8, scales_at, scales_at + pad16(groups / GROUPS * 12)]
}

/// The third bits of sixteen weights, one a byte: half `h` of group `g` of the block.
fn third(block: &[u8], g: usize, h: usize) -> u128 {
    (sixteen(block, 16 * h) >> g) & ONES
}

/// The six bits of scale `i` (0..16), from the file's twelve bytes: eight with the low nibbles of scales 0..8 and of 8..16,
/// four with the upper pairs of scales 0..4, 4..8, 8..12 and 12..16.
fn scale(packed: &[u8], i: usize) -> u8 {
    let low = (packed[i % 8] >> (4 * (i / 8))) & 15;
    let high = (packed[8 + i % 4] >> (2 * (i / 4))) & 3;
    low | (high << 4)
}

pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
    let [third_at, scales_at, d_at] = stream_starts(groups);
    dst[scales_at..].fill(0);
    for (b, block) in src.chunks_exact(BYTES).enumerate() {
        for g in 0..GROUPS {
            let at = b * GROUPS + g;
            let [first, second] = [0, 1].map(|h| block_pairs(&block[PAIRS_AT..], g, h));
            dst[8 * at..8 * at + 8].copy_from_slice(&spread_pairs(first, second));
            let bits = spread_bits(third(block, g, 0), third(block, g, 1));
            dst[third_at + 4 * at..][..4].copy_from_slice(&bits.to_le_bytes());
            let [first, second] = [0, 1].map(|h| scale(&block[SCALES_AT..], 2 * g + h));
            let scales = &mut dst[scales_at + 12 * b..][..12];
            scales[g] = (first & 15) | ((second & 15) << 4);
            scales[8 + g / 2] |= ((first >> 4) | ((second >> 4) << 2)) << (4 * (g % 2));
        }
        dst[d_at + 2 * b..][..2].copy_from_slice(&block[D_AT..]);
    }
}

pub fn decode(src: &[u8], out: &mut [f32]) {
    for (block, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(BLOCK)) {
        for (i, out) in out.chunks_exact_mut(16).enumerate() {
            let d = half(block, D_AT) * (f32::from(scale(&block[SCALES_AT..], i)) - 32.0);
            let (g, h) = (i / 2, i % 2);
            let quants = block_pairs(&block[PAIRS_AT..], g, h) | (third(block, g, h) << 2);
            for (out, q) in out.iter_mut().zip(quants.to_le_bytes()) {
                *out = d * (f32::from(q) - 4.0);
            }
        }
    }
}

#[cfg(feature = "reference")]
pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
    let [third_at, scales_at, d_at] = stream_starts(groups);
    for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
        let low = super::bits::pairs(src, 8 * g);
        let third = super::bits::quants(0, super::bits::word(src, third_at + 4 * g)); // 16 where set
        let (b, i) = (g / GROUPS, g % GROUPS);
        let scales = &src[scales_at + 12 * b..][..12];
        let (nibbles, pairs) = (scales[i], scales[8 + i / 2] >> (4 * (i % 2)));
        let scales = [(nibbles & 15) | ((pairs & 3) << 4), (nibbles >> 4) | ((pairs & 12) << 2)];
        for (h, (out, scale)) in out.chunks_exact_mut(16).zip(scales).enumerate() {
            let q: [u8; 16] = std::array::from_fn(|k| low[16 * h + k] | (third[16 * h + k] >> 2));
            let d = half(src, d_at + 2 * b) * (f32::from(scale) - 32.0);
            super::bits::affine(&q, d, -4.0 * d, out);
        }
    }
}
