//! IQ4_NL and IQ4_XS: a code of four bits is one of sixteen numbers ([`IQ4_VALUES`]); sixteen bytes hold 32 weights, weight i
//! in the low nibble of byte i, weight 16 + i in the high one.
//!
//! On the GPU: codes (16 bytes a group, weights 2k and 2k + 1 in byte k, so that a byte is looked up as a whole) | scales
//! (IQ4_NL: d, an f16 a group; IQ4_XS: the head of a block, eight bytes).

use super::GROUP;
use super::bits::{half, pad16, put16, sixteen};
use super::codebooks::IQ4_VALUES;

/// Bytes of a group's codes.
const CODES: usize = GROUP / 2;

/// A group's codes in the order of the GPU.
fn neighbours(packed: u128) -> u128 {
    let bytes = packed.to_le_bytes();
    u128::from_le_bytes(std::array::from_fn(|k| {
        let (at, shift) = (2 * (k % 8), 4 * (k / 8));
        ((bytes[at] >> shift) & 15) | (((bytes[at + 1] >> shift) & 15) << 4)
    }))
}

/// The numbers of a group on the GPU, times d.
fn scaled(codes: u128, d: f32, out: &mut [f32]) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = d * f32::from(IQ4_VALUES[(codes >> (4 * i)) as usize & 15]);
    }
}

/// w = d * number; a block is d (f16) and 32 codes.
pub mod iq4_nl {
    use super::*;

    const BLOCK: usize = 2 + CODES;

    pub fn gpu_bytes(groups: usize) -> usize {
        groups * CODES + pad16(groups * 2)
    }

    pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
        let (codes, scales) = dst.split_at_mut(groups * CODES);
        scales.fill(0);
        for (g, block) in src.chunks_exact(BLOCK).enumerate() {
            scales[2 * g..2 * (g + 1)].copy_from_slice(&block[..2]);
            put16(codes, CODES * g, neighbours(sixteen(block, 2)));
        }
    }

    pub fn decode(src: &[u8], out: &mut [f32]) {
        for (block, out) in src.chunks_exact(BLOCK).zip(out.chunks_exact_mut(GROUP)) {
            scaled(neighbours(sixteen(block, 2)), half(block, 0), out);
        }
    }

    #[cfg(feature = "reference")]
    pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
        let (codes, scales) = src.split_at(groups * CODES);
        for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
            scaled(sixteen(codes, CODES * g), half(scales, 2 * g), out);
        }
    }
}

/// w = d * (scale - 32) * number; a block of 256 is a head (d, f16; a u16 with the upper two bits of the eight groups'
/// scales; four bytes with their lower four) and the codes of eight groups.
pub mod iq4_xs {
    use super::*;

    /// Groups in a block.
    const GROUPS: usize = 8;
    const HEAD: usize = 8;
    const BLOCK: usize = HEAD + GROUPS * CODES;

    /// d * (scale - 32) of group `g` of a block (exact: 11 + 6 bits).
    fn scale(head: &[u8], g: usize) -> f32 {
        let upper = (u16::from_le_bytes([head[2], head[3]]) >> (2 * g)) as u8 & 3;
        let lower = (head[4 + g / 2] >> (4 * (g % 2))) & 15;
        half(head, 0) * (f32::from(lower | (upper << 4)) - 32.0)
    }

    pub fn gpu_bytes(groups: usize) -> usize {
        groups * CODES + pad16(groups / GROUPS * HEAD)
    }

    pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
        let (codes, heads) = dst.split_at_mut(groups * CODES);
        heads.fill(0);
        for (b, block) in src.chunks_exact(BLOCK).enumerate() {
            heads[HEAD * b..HEAD * (b + 1)].copy_from_slice(&block[..HEAD]);
            for g in 0..GROUPS {
                put16(codes, CODES * (GROUPS * b + g), neighbours(sixteen(block, HEAD + CODES * g)));
            }
        }
    }

    pub fn decode(src: &[u8], out: &mut [f32]) {
        for (block, out) in src.chunks_exact(BLOCK).zip(out.chunks_exact_mut(GROUPS * GROUP)) {
            for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
                scaled(neighbours(sixteen(block, HEAD + CODES * g)), scale(block, g), out);
            }
        }
    }

    #[cfg(feature = "reference")]
    pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
        let (codes, heads) = src.split_at(groups * CODES);
        for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
            scaled(sixteen(codes, CODES * g), scale(&heads[HEAD * (g / GROUPS)..], g % GROUPS), out);
        }
    }
}
