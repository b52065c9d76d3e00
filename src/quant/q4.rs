//! Q4_0 and Q4_1: blocks of 32 weights of four bits. Byte i of sixteen holds weight i (low nibble) and weight 16 + i.
//!
//! On the GPU: quants (16 bytes a group, the file's order) | scales (f16 d a group, or f16 d and m).

use super::GROUP;
use super::bits::{LOW, half, pad16, put16, sixteen};
#[cfg(feature = "reference")]
use super::bits::{affine, quants};

/// Bytes of a group's quants.
const QUANTS: usize = GROUP / 2;

/// Splits blocks of `head` bytes of scales and sixteen of quants into the two streams.
fn split(head: usize, groups: usize, src: &[u8], dst: &mut [u8]) {
    let (quants, scales) = dst.split_at_mut(groups * QUANTS);
    scales.fill(0);
    for (g, block) in src.chunks_exact(head + QUANTS).enumerate() {
        scales[head * g..head * (g + 1)].copy_from_slice(&block[..head]);
        put16(quants, QUANTS * g, sixteen(block, head));
    }
}

/// The 32 quants of sixteen packed bytes.
fn unpack(packed: u128) -> impl Iterator<Item = u8> {
    (packed & LOW).to_le_bytes().into_iter().chain(((packed >> 4) & LOW).to_le_bytes())
}

/// w = d * (q - 8); a block is d (f16) and the quants.
pub mod q4_0 {
    use super::*;

    const BLOCK: usize = 2 + QUANTS;

    pub fn gpu_bytes(groups: usize) -> usize {
        groups * QUANTS + pad16(groups * 2)
    }

    pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
        split(2, groups, src, dst);
    }

    pub fn decode(src: &[u8], out: &mut [f32]) {
        for (block, out) in src.chunks_exact(BLOCK).zip(out.chunks_exact_mut(GROUP)) {
            let d = half(block, 0);
            for (out, q) in out.iter_mut().zip(unpack(sixteen(block, 2))) {
                *out = d * (f32::from(q) - 8.0);
            }
        }
    }

    #[cfg(feature = "reference")]
    pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
        let (packed, scales) = src.split_at(groups * QUANTS);
        for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
            let d = half(scales, 2 * g);
            affine(&quants(sixteen(packed, QUANTS * g), 0), d, -8.0 * d, out);
        }
    }
}

/// w = d * q + m; a block is d and m (f16) and the quants.
pub mod q4_1 {
    use super::*;

    const BLOCK: usize = 4 + QUANTS;

    pub fn gpu_bytes(groups: usize) -> usize {
        groups * QUANTS + pad16(groups * 4)
    }

    pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
        split(4, groups, src, dst);
    }

    pub fn decode(src: &[u8], out: &mut [f32]) {
        for (block, out) in src.chunks_exact(BLOCK).zip(out.chunks_exact_mut(GROUP)) {
            let (d, m) = (half(block, 0), half(block, 2));
            for (out, q) in out.iter_mut().zip(unpack(sixteen(block, 4))) {
                *out = d * f32::from(q) + m;
            }
        }
    }

    #[cfg(feature = "reference")]
    pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
        let (packed, scales) = src.split_at(groups * QUANTS);
        for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
            let q = quants(sixteen(packed, QUANTS * g), 0);
            affine(&q, half(scales, 4 * g), half(scales, 4 * g + 2), out);
        }
    }
}
