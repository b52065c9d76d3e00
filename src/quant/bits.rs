//! What the formats share: padding, block scales, and the gathering of bits into the order that shaders unpack.

use super::GROUP;
use half::f16;

/// `bytes` padded to a whole `vec4<u32>`.
pub const fn pad16(bytes: usize) -> usize {
    bytes.next_multiple_of(16)
}

/// The f16 at byte `at`, as f32 (exact).
pub fn half(src: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([src[at], src[at + 1]]).to_f32()
}

/// The u32 at byte `at`.
pub fn word(src: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([src[at], src[at + 1], src[at + 2], src[at + 3]])
}

/// The sixteen bytes at byte `at`: weight i of sixteen is in byte i.
pub fn sixteen(src: &[u8], at: usize) -> u128 {
    let mut raw = [0; 16];
    raw.copy_from_slice(&src[at..at + 16]);
    u128::from_le_bytes(raw)
}

/// Writes sixteen bytes at byte `at`.
pub fn put16(dst: &mut [u8], at: usize, bytes: u128) {
    dst[at..at + 16].copy_from_slice(&bytes.to_le_bytes());
}

/// The low nibble of every byte.
pub const LOW: u128 = 0x0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f;

/// The two low bits of every byte.
pub const PAIRS: u128 = 0x0303_0303_0303_0303_0303_0303_0303_0303;

/// Sixteen bits to bit 0 of sixteen bytes.
pub fn one_a_byte(bits: u32) -> u128 {
    (0..16).fold(0, |out, i| out | (u128::from((bits >> i) & 1) << (8 * i)))
}

/// The bit pairs of sixteen weights of a block of 256, one a byte: the first or the second half of group `g`. In the file
/// 32 bytes hold four groups, of which group k has bits 2k and 2k + 1.
pub fn block_pairs(packed: &[u8], g: usize, half: usize) -> u128 {
    (sixteen(packed, GROUP * (g / 4) + 16 * half) >> (2 * (g % 4))) & PAIRS
}

/// **The nibble order of a group on the GPU**, which is ggml's for Q4_0: the low nibble of byte i is weight i, the high
/// nibble weight 16 + i. A shader gets four consecutive weights from a word with one mask, for all four words at once.
/// `first` and `second` hold one weight a byte, below 16.
pub fn nibbles(first: u128, second: u128) -> u128 {
    first | (second << 4)
}

/// **The order of one high bit a weight on the GPU**: bit 8b + c of the group's word belongs to weight 4c + b, so that
/// a shader moves the high bits of four consecutive weights into their bytes with one shift and one mask. `first` and
/// `second` hold the bits of weights 0..16 and 16..32, one in bit 0 of each byte.
pub fn spread_bits(first: u128, second: u128) -> u32 {
    let mut out = 0;
    for c in 0..4 {
        out |= ((first >> (32 * c)) as u32) << c;
        out |= ((second >> (32 * c)) as u32) << (c + 4);
    }
    out
}

/// **The order of two bits a weight on the GPU**, eight bytes a group: bits 8b + 2c and the next of the first word belong to
/// weight 4c + b, of the second word to weight 16 + 4c + b. `first` and `second` hold one weight a byte, below 4.
pub fn spread_pairs(first: u128, second: u128) -> [u8; GROUP / 4] {
    let word = |pairs: u128| (0..4).fold(0, |out, c| out | u64::from((pairs >> (32 * c)) as u32) << (2 * c));
    (word(first) | (word(second) << 32)).to_le_bytes()
}

/// Undoes [`spread_pairs`]: the 32 weights of the eight bytes at byte `at`.
#[cfg(feature = "reference")]
pub fn pairs(src: &[u8], at: usize) -> [u8; GROUP] {
    std::array::from_fn(|i| ((word(src, at + 4 * (i / 16)) >> (8 * (i % 4) + 2 * (i % 16 / 4))) & 3) as u8)
}

/// Undoes [`nibbles`] and, with `high` from [`spread_bits`] (else zero), adds 16 for a set high bit: the 32 quants.
#[cfg(feature = "reference")]
pub fn quants(packed: u128, high: u32) -> [u8; GROUP] {
    let bytes = packed.to_le_bytes();
    std::array::from_fn(|i| {
        let low = (bytes[i % 16] >> (4 * (i / 16))) & 15;
        let bit = (high >> (8 * (i % 4) + i / 4)) & 1;
        low | ((bit as u8) << 4)
    })
}

/// `out[i] = d * q[i] + m`. The product is exact in f32 (11 to 17 bits of scale, 4 or 5 of quant), so that a shader gives
/// the same bits with or without a fused multiply-add.
#[cfg(feature = "reference")]
pub fn affine(q: &[u8], d: f32, m: f32, out: &mut [f32]) {
    for (out, q) in out.iter_mut().zip(q) {
        *out = d * f32::from(*q) + m;
    }
}
