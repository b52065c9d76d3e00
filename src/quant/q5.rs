//! Q5_0 and Q5_1: blocks of 32 weights of five bits. The low four bits are packed as in Q4_0; bit i of a u32 is the fifth
//! bit of weight i.
//!
//! On the GPU: quants (16 bytes a group, the file's order) | high bits (a u32 a group, in the order of
//! `bits::spread_bits`) | scales (f16 d a group, or f16 d and m).

use super::GROUP;
#[cfg(feature = "reference")]
use super::bits::affine;
use super::bits::{LOW, half, one_a_byte, pad16, put16, sixteen, spread_bits, word};

/// Bytes of a group's low bits.
const QUANTS: usize = GROUP / 2;

/// Splits blocks of `head` bytes of scales, a u32 of high bits and sixteen bytes of low bits into the three streams.
fn split(head: usize, groups: usize, src: &[u8], dst: &mut [u8]) {
    let (quants, rest) = dst.split_at_mut(groups * QUANTS);
    let (high, scales) = rest.split_at_mut(pad16(groups * 4));
    high.fill(0);
    scales.fill(0);
    for (g, block) in src.chunks_exact(head + 4 + QUANTS).enumerate() {
        scales[head * g..head * (g + 1)].copy_from_slice(&block[..head]);
        let bits = word(block, head);
        let spread = spread_bits(one_a_byte(bits), one_a_byte(bits >> 16));
        high[4 * g..4 * g + 4].copy_from_slice(&spread.to_le_bytes());
        put16(quants, QUANTS * g, sixteen(block, head + 4));
    }
}

/// The 32 quants of a block's low bits and its word of high bits, in the file's order.
fn unpack(packed: u128, bits: u32) -> impl Iterator<Item = u8> {
    let low = (packed & LOW).to_le_bytes().into_iter().chain(((packed >> 4) & LOW).to_le_bytes());
    low.enumerate().map(move |(i, q)| q | (((bits >> i) & 1) << 4) as u8)
}

/// The 32 quants and the scales of group `g` of a row on the GPU.
#[cfg(feature = "reference")]
fn gpu_group(groups: usize, g: usize, src: &[u8]) -> ([u8; GROUP], &[u8]) {
    let (quants, rest) = src.split_at(groups * QUANTS);
    let (high, scales) = rest.split_at(pad16(groups * 4));
    (super::bits::quants(sixteen(quants, QUANTS * g), word(high, 4 * g)), scales)
}

/// w = d * (q - 16); a block is d (f16), the high bits and the low bits.
pub mod q5_0 {
    use super::*;

    const BLOCK: usize = 2 + 4 + QUANTS;

    pub fn gpu_bytes(groups: usize) -> usize {
        groups * QUANTS + pad16(groups * 4) + pad16(groups * 2)
    }

    pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
        split(2, groups, src, dst);
    }

    pub fn decode(src: &[u8], out: &mut [f32]) {
        for (block, out) in src.chunks_exact(BLOCK).zip(out.chunks_exact_mut(GROUP)) {
            let d = half(block, 0);
            for (out, q) in out.iter_mut().zip(unpack(sixteen(block, 6), word(block, 2))) {
                *out = d * (f32::from(q) - 16.0);
            }
        }
    }

    #[cfg(feature = "reference")]
    pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
        for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
            let (q, scales) = gpu_group(groups, g, src);
            let d = half(scales, 2 * g);
            affine(&q, d, -16.0 * d, out);
        }
    }
}

/// w = d * q + m; a block is d and m (f16), the high bits and the low bits.
pub mod q5_1 {
    use super::*;

    const BLOCK: usize = 4 + 4 + QUANTS;

    pub fn gpu_bytes(groups: usize) -> usize {
        groups * QUANTS + 2 * pad16(groups * 4)
    }

    pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
        split(4, groups, src, dst);
    }

    pub fn decode(src: &[u8], out: &mut [f32]) {
        for (block, out) in src.chunks_exact(BLOCK).zip(out.chunks_exact_mut(GROUP)) {
            let (d, m) = (half(block, 0), half(block, 2));
            for (out, q) in out.iter_mut().zip(unpack(sixteen(block, 8), word(block, 4))) {
                *out = d * f32::from(q) + m;
            }
        }
    }

    #[cfg(feature = "reference")]
    pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
        for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
            let (q, scales) = gpu_group(groups, g, src);
            affine(&q, half(scales, 4 * g), half(scales, 4 * g + 2), out);
        }
    }
}
