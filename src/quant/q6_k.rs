//! Q6_K: blocks of 256 weights: 128 bytes of low nibbles, 64 bytes of high bit pairs, sixteen signed scales (one for every sixteen
//! weights), d (f16); w = d * scale * (q - 32).
//!
//! In the file a half block of 128 weights is four groups: group k (0..4) of half h takes the nibbles at byte 64h + 32(k & 1) + i,
//! low for k < 2, and bits 2k and 2k + 1 of byte 32h + i.
//!
//! On the GPU, for 210 bytes a block: low bits (16 bytes a group, nibbles in the order of Q4_0) | high bits (8 bytes a
//! group, in the order of `bits::spread_pairs`) | scales (16 bytes a block, the file's order) | d (f16 a block).

use super::GROUP;
use super::bits::{LOW, block_pairs, half, nibbles, pad16, put16, sixteen, spread_pairs};

/// Weights in a block.
const BLOCK: usize = 256;
/// Groups in a block.
const GROUPS: usize = BLOCK / GROUP;
const HIGH_AT: usize = BLOCK / 2;
const SCALES_AT: usize = HIGH_AT + BLOCK / 4;
const D_AT: usize = SCALES_AT + 16;
const BYTES: usize = D_AT + 2;

pub fn gpu_bytes(groups: usize) -> usize {
    groups * 16 + groups * 8 + groups * 2 + pad16(groups / GROUPS * 2)
}

/// The four streams of a row on the GPU: low bits, high bits, scales, d.
const fn stream_starts(groups: usize) -> [usize; 3] {
    [groups * 16, groups * 24, groups * 26]
}

/// Low and high bits of sixteen weights, one a byte: `second` says which sixteen of group `g` of the block.
fn parts(block: &[u8], g: usize, second: usize) -> (u128, u128) {
    let (h, k) = (g / 4, g % 4);
    let low = sixteen(block, 64 * h + 32 * (k & 1) + 16 * second) >> (4 * (k / 2));
    (low & LOW, block_pairs(&block[HIGH_AT..], g, second))
}

pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
    let [high_at, scales_at, d_at] = stream_starts(groups);
    dst[d_at..].fill(0);
    for (b, block) in src.chunks_exact(BYTES).enumerate() {
        for g in 0..GROUPS {
            let (first, second) = (parts(block, g, 0), parts(block, g, 1));
            let at = b * GROUPS + g;
            put16(dst, 16 * at, nibbles(first.0, second.0));
            dst[high_at + 8 * at..high_at + 8 * at + 8].copy_from_slice(&spread_pairs(first.1, second.1));
        }
        dst[scales_at + 16 * b..scales_at + 16 * b + 16].copy_from_slice(&block[SCALES_AT..D_AT]);
        dst[d_at + 2 * b..d_at + 2 * b + 2].copy_from_slice(&block[D_AT..]);
    }
}

pub fn decode(src: &[u8], out: &mut [f32]) {
    for (block, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(BLOCK)) {
        let d = half(block, D_AT);
        for (i, out) in out.chunks_exact_mut(16).enumerate() {
            let scale = d * f32::from(block[SCALES_AT + i] as i8);
            let (low, high) = parts(block, i / 2, i % 2);
            for (out, q) in out.iter_mut().zip((low | (high << 4)).to_le_bytes()) {
                *out = scale * (f32::from(q) - 32.0);
            }
        }
    }
}

#[cfg(feature = "reference")]
pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
    let [high_at, scales_at, d_at] = stream_starts(groups);
    for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
        let low = super::bits::quants(sixteen(src, 16 * g), 0);
        let high = super::bits::pairs(src, high_at + 8 * g);
        let d = half(src, d_at + 2 * (g / GROUPS));
        for (i, out) in out.iter_mut().enumerate() {
            let scale = d * f32::from(src[scales_at + 2 * g + i / 16] as i8);
            *out = scale * f32::from(low[i] + 16 * high[i]) - 32.0 * scale;
        }
    }
}
