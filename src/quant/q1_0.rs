//! Q1_0: blocks of 128 weights, d (f16) and sixteen bytes of signs, in order; w = d where the bit is set, else -d.
//!
//! On the GPU: signs (a u32 a group, in the order of `bits::spread_bits`) | d (f16 a block of four groups).

use super::GROUP;
use super::bits::{half, one_a_byte, pad16, spread_bits, word};

/// Weights in a block.
const BLOCK: usize = 128;
/// Groups in a block.
const GROUPS: usize = BLOCK / GROUP;
const BYTES: usize = 2 + BLOCK / 8;

pub fn gpu_bytes(groups: usize) -> usize {
    groups * 4 + pad16(groups / GROUPS * 2)
}

pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
    let (signs, d) = dst.split_at_mut(groups * 4);
    d.fill(0);
    for (b, block) in src.chunks_exact(BYTES).enumerate() {
        for g in 0..GROUPS {
            let bits = word(block, 2 + 4 * g);
            let spread = spread_bits(one_a_byte(bits), one_a_byte(bits >> 16));
            signs[4 * (b * GROUPS + g)..][..4].copy_from_slice(&spread.to_le_bytes());
        }
        d[2 * b..2 * (b + 1)].copy_from_slice(&block[..2]);
    }
}

pub fn decode(src: &[u8], out: &mut [f32]) {
    for (block, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(BLOCK)) {
        let d = half(block, 0);
        for (i, out) in out.iter_mut().enumerate() {
            *out = if (block[2 + i / 8] >> (i % 8)) & 1 == 1 { d } else { -d };
        }
    }
}

#[cfg(feature = "reference")]
pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
    let (signs, scales) = src.split_at(groups * 4);
    for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
        let d = half(scales, 2 * (g / GROUPS));
        // A set bit is 16 in the shader's bytes.
        super::bits::affine(&super::bits::quants(0, word(signs, 4 * g)), 0.125 * d, -d, out);
    }
}
