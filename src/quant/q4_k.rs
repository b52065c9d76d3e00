//! Q4_K: blocks of 256 weights, eight groups of 32: d and dmin (f16), twelve bytes with a six-bit scale and a six-bit minimum for each
//! group, 128 bytes of quants; w = d * scale * q - dmin * minimum. Thirty-two bytes hold two groups, one in the low nibbles.
//!
//! On the GPU a block stays 144 bytes, which is nine `vec4<u32>`: the header unchanged, then one vector a group, with its
//! nibbles in the order of Q4_0. Unchanged quants (two vectors of which a group uses half) would double the loads.

use super::GROUP;
use super::bits::{LOW, half, nibbles, put16, sixteen};

/// Weights in a block.
const BLOCK: usize = 256;
/// Groups in a block.
pub(super) const GROUPS: usize = BLOCK / GROUP;
/// d, dmin and the twelve bytes of scales.
pub(super) const HEAD: usize = 16;
const BYTES: usize = HEAD + BLOCK / 2;

pub fn gpu_bytes(groups: usize) -> usize {
    groups / GROUPS * BYTES
}

pub fn repack(_groups: usize, src: &[u8], dst: &mut [u8]) {
    for (src, dst) in src.chunks_exact(BYTES).zip(dst.chunks_exact_mut(BYTES)) {
        dst[..HEAD].copy_from_slice(&src[..HEAD]);
        repack_pairs(&src[HEAD..], &mut dst[HEAD..]);
    }
}

/// Gathers the nibbles of every two groups that share 32 bytes into sixteen bytes each.
pub(super) fn repack_pairs(src: &[u8], dst: &mut [u8]) {
    for (src, dst) in src.chunks_exact(GROUP).zip(dst.chunks_exact_mut(GROUP)) {
        let (first, second) = (sixteen(src, 0), sixteen(src, 16));
        put16(dst, 0, nibbles(first & LOW, second & LOW));
        put16(dst, 16, nibbles((first >> 4) & LOW, (second >> 4) & LOW));
    }
}

/// A group's d * scale and dmin * minimum, each rounded to f32 (exact: 11 + 6 bits).
pub(super) fn scales(head: &[u8], group: usize) -> (f32, f32) {
    let packed = &head[4..HEAD];
    let (scale, min) = if group < 4 {
        (packed[group] & 63, packed[group + 4] & 63)
    } else {
        let low = packed[group + 4];
        ((low & 15) | ((packed[group - 4] >> 6) << 4), (low >> 4) | ((packed[group] >> 6) << 4))
    };
    (half(head, 0) * f32::from(scale), half(head, 2) * f32::from(min))
}

pub fn decode(src: &[u8], out: &mut [f32]) {
    for (block, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(BLOCK)) {
        for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
            let (d, m) = scales(block, g);
            let quants = &block[HEAD + GROUP * (g / 2)..][..GROUP];
            for (out, byte) in out.iter_mut().zip(quants) {
                *out = d * f32::from((byte >> (4 * (g % 2))) & 15) - m;
            }
        }
    }
}

#[cfg(feature = "reference")]
pub fn decode_gpu(_groups: usize, src: &[u8], out: &mut [f32]) {
    for (block, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(BLOCK)) {
        for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
            let (d, m) = scales(block, g);
            super::bits::affine(&super::bits::quants(sixteen(block, HEAD + 16 * g), 0), d, -m, out);
        }
    }
}
