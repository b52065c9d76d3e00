//! Q2_K: blocks of 256 weights: sixteen bytes with a four-bit scale and a four-bit minimum for every sixteen weights, 64 bytes
//! of bit pairs, d and dmin (f16); w = d * scale * q - dmin * minimum.
//!
//! On the GPU, for 84 bytes a block: quants (8 bytes a group, in the order of `bits::spread_pairs`) | scales (16 bytes a
//! block, the file's order) | d and dmin (two f16 a block).

use super::GROUP;
use super::bits::{block_pairs, half, pad16, spread_pairs};

/// Weights in a block.
const BLOCK: usize = 256;
/// Groups in a block.
const GROUPS: usize = BLOCK / GROUP;
const QUANTS_AT: usize = 16;
const D_AT: usize = QUANTS_AT + BLOCK / 4;
const BYTES: usize = D_AT + 4;

pub fn gpu_bytes(groups: usize) -> usize {
    groups * 8 + groups * 2 + pad16(groups / GROUPS * 4)
}

pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
    let (quants, rest) = dst.split_at_mut(groups * 8);
    let (scales, d) = rest.split_at_mut(groups * 2);
    d.fill(0);
    for (b, block) in src.chunks_exact(BYTES).enumerate() {
        for g in 0..GROUPS {
            let [first, second] = [0, 1].map(|h| block_pairs(&block[QUANTS_AT..], g, h));
            quants[8 * (b * GROUPS + g)..][..8].copy_from_slice(&spread_pairs(first, second));
        }
        scales[16 * b..16 * (b + 1)].copy_from_slice(&block[..QUANTS_AT]);
        d[4 * b..4 * (b + 1)].copy_from_slice(&block[D_AT..]);
    }
}

/// d * scale and dmin * minimum (exact: 11 + 4 bits) of a byte of scales, `head` being d and dmin.
fn scales(head: &[u8], byte: u8) -> (f32, f32) {
    (half(head, 0) * f32::from(byte & 15), half(head, 2) * f32::from(byte >> 4))
}

pub fn decode(src: &[u8], out: &mut [f32]) {
    for (block, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(BLOCK)) {
        for (i, out) in out.chunks_exact_mut(16).enumerate() {
            let (d, m) = scales(&block[D_AT..], block[i]);
            let quants = block_pairs(&block[QUANTS_AT..], i / 2, i % 2).to_le_bytes();
            for (out, q) in out.iter_mut().zip(quants) {
                *out = d * f32::from(q) - m;
            }
        }
    }
}

#[cfg(feature = "reference")]
pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
    let (quants, rest) = src.split_at(groups * 8);
    let (bytes, heads) = rest.split_at(groups * 2);
    for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
        let q = super::bits::pairs(quants, 8 * g);
        for (i, (q, out)) in q.chunks_exact(16).zip(out.chunks_exact_mut(16)).enumerate() {
            let (d, m) = scales(&heads[4 * (g / GROUPS)..], bytes[2 * g + i]);
            super::bits::affine(q, d, -m, out);
        }
    }
}
