//! TQ1_0: blocks of 256 weights of which each is -1, 0 or 1 times d: 52 bytes that hold up to five base-3 digits each, d
//! (f16); w = d * (digit - 1).
//!
//! A byte is the number of its five digits as a fraction of 256, rounded up: the byte times 3^n, modulo 256, is the fraction
//! that is left after n digits, and three times that over 256 is the next digit. Digit n of bytes 0..32 is a weight of group n;
//! digits 0 to 4 of bytes 32..48 are the halves of groups 5 and 6 and the first half of 7; digits 0 to 3 of bytes
//! 48..52 its second half.
//!
//! On the GPU: digits (the first 48 bytes of a block: a half of a group is one digit of sixteen bytes, in order, as it is) | the
//! other four bytes of digits (a u32 a block) | d (f16 a block).

use super::GROUP;
use super::bits::{half, pad16};

/// Weights in a block.
const BLOCK: usize = 256;
/// Groups in a block.
const GROUPS: usize = BLOCK / GROUP;
const LAST_AT: usize = 48;
const D_AT: usize = LAST_AT + 4;
const BYTES: usize = D_AT + 2;

pub fn gpu_bytes(groups: usize) -> usize {
    let blocks = groups / GROUPS;
    blocks * LAST_AT + pad16(blocks * 4) + pad16(blocks * 2)
}

pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
    let blocks = groups / GROUPS;
    let (digits, rest) = dst.split_at_mut(blocks * LAST_AT);
    let (last, d) = rest.split_at_mut(pad16(blocks * 4));
    last.fill(0);
    d.fill(0);
    for (b, block) in src.chunks_exact(BYTES).enumerate() {
        digits[LAST_AT * b..LAST_AT * (b + 1)].copy_from_slice(&block[..LAST_AT]);
        last[4 * b..4 * (b + 1)].copy_from_slice(&block[LAST_AT..D_AT]);
        d[2 * b..2 * (b + 1)].copy_from_slice(&block[D_AT..]);
    }
}

/// Digit `n` of a byte.
fn digit(byte: u8, n: usize) -> u8 {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    ((u16::from(byte.wrapping_mul(POWERS[n % 5])) * 3) >> 8) as u8
}

/// The byte and the digit in it of weight `i` (0..256) of a block.
fn place(i: usize) -> (usize, usize) {
    match i {
        0..160 => (i % 32, i / 32),
        160..240 => (32 + i % 16, (i - 160) / 16),
        _ => (LAST_AT + i % 4, (i - 240) / 4),
    }
}

pub fn decode(src: &[u8], out: &mut [f32]) {
    for (block, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(BLOCK)) {
        let d = half(block, D_AT);
        for (i, out) in out.iter_mut().enumerate() {
            let (byte, n) = place(i);
            *out = d * (f32::from(digit(block[byte], n)) - 1.0);
        }
    }
}

#[cfg(feature = "reference")]
pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
    let blocks = groups / GROUPS;
    let (digits, rest) = src.split_at(blocks * LAST_AT);
    let (last, scales) = rest.split_at(pad16(blocks * 4));
    for (b, out) in out.chunks_exact_mut(BLOCK).enumerate() {
        let d = half(scales, 2 * b);
        for (i, out) in out.iter_mut().enumerate() {
            let (byte, n) = place(i);
            let byte = if byte < LAST_AT { digits[LAST_AT * b + byte] } else { last[4 * b + byte - LAST_AT] };
            *out = d * f32::from(digit(byte, n)) - d;
        }
    }
}
