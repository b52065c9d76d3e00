//! MXFP4: blocks of 32 weights, an exponent e (a byte, E8M0) and sixteen bytes of codes in the order of Q4_0; a code is a sign
//! and three bits of float (E2M1): 0, 0.5, 1, 1.5, 2, 3, 4 or 6. w = 2^(e - 128) * twice that, which is a whole number.
//!
//! On the GPU: codes (16 bytes a group, the file's order) | exponents (a byte a group).

use super::GROUP;
use super::bits::{LOW, pad16, put16, sixteen};

const BYTES: usize = 1 + GROUP / 2;

/// Twice the values of the codes. Shaders work them out: arithmetic on four bytes at once costs less than a look-up for each.
const VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// 2^(e - 128), of which the lowest two are subnormal.
fn scale(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { u32::from(e - 1) << 23 })
}

pub fn gpu_bytes(groups: usize) -> usize {
    groups * 16 + pad16(groups)
}

pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
    let (codes, exponents) = dst.split_at_mut(groups * 16);
    exponents.fill(0);
    for (g, block) in src.chunks_exact(BYTES).enumerate() {
        exponents[g] = block[0];
        put16(codes, 16 * g, sixteen(block, 1));
    }
}

pub fn decode(src: &[u8], out: &mut [f32]) {
    for (block, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(GROUP)) {
        let (d, packed) = (scale(block[0]), sixteen(block, 1));
        let codes = (packed & LOW).to_le_bytes().into_iter().chain(((packed >> 4) & LOW).to_le_bytes());
        for (out, code) in out.iter_mut().zip(codes) {
            *out = d * f32::from(VALUES[usize::from(code & 15)]);
        }
    }
}

#[cfg(feature = "reference")]
pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
    let (codes, exponents) = src.split_at(groups * 16);
    for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
        let d = scale(exponents[g]);
        let codes = super::bits::quants(sixteen(codes, 16 * g), 0);
        super::bits::affine(&codes.map(|code| (12 + VALUES[usize::from(code & 15)]) as u8), d, -12.0 * d, out);
    }
}
