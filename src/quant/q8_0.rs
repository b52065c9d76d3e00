//! Q8_0: blocks of 32 weights, `d` (f16) and 32 signed bytes; w = d * q.
//!
//! On the GPU: quants (32 bytes a group, the file's order) | d (f16 a group).

use super::GROUP;
use super::bits::{half, pad16};

const BLOCK: usize = 2 + GROUP;

pub fn gpu_bytes(groups: usize) -> usize {
    groups * GROUP + pad16(groups * 2)
}

pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
    let (quants, scales) = dst.split_at_mut(groups * GROUP);
    scales.fill(0);
    for (g, block) in src.chunks_exact(BLOCK).enumerate() {
        scales[2 * g..2 * g + 2].copy_from_slice(&block[..2]);
        quants[GROUP * g..GROUP * (g + 1)].copy_from_slice(&block[2..]);
    }
}

pub fn decode(src: &[u8], out: &mut [f32]) {
    for (block, out) in src.chunks_exact(BLOCK).zip(out.chunks_exact_mut(GROUP)) {
        scale(half(block, 0), &block[2..], out);
    }
}

#[cfg(feature = "reference")]
pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
    let (quants, scales) = src.split_at(groups * GROUP);
    for (g, (q, out)) in quants.chunks_exact(GROUP).zip(out.chunks_exact_mut(GROUP)).enumerate() {
        scale(half(scales, 2 * g), q, out);
    }
}

fn scale(d: f32, q: &[u8], out: &mut [f32]) {
    for (out, q) in out.iter_mut().zip(q) {
        *out = d * f32::from(*q as i8);
    }
}
