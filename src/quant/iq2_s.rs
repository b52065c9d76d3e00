//! IQ2_S: blocks of 256 weights: d (f16), the low eight bits of 32 indices, 256 signs, the indices' two high bits, a scale of four
//! bits for every 16 weights; an index stands for eight weights of a grid of 1,024, w = d * (1 + 2 * scale) / 8 * ±magnitude.
//!
//! On the GPU, for 82 bytes a block: indices and signs (a word each a group) | high bits and scales (a byte each a group) | d.

use super::GROUP;
use super::bits::half;
use super::codebooks::{IQ2_S, iq2, signed};
use super::streams::{Field, Layout, Stream, functions};

const LOW_AT: usize = 2;
const SIGNS_AT: usize = LOW_AT + 32;
const HIGH_AT: usize = SIGNS_AT + 32;
const SCALES_AT: usize = HIGH_AT + 8;

const LAYOUT: Layout = Layout {
    block: SCALES_AT + 8,
    streams: &[
        Stream { units: 8, fields: &[Field { at: LOW_AT, bytes: 4 }, Field { at: SIGNS_AT, bytes: 4 }] },
        Stream { units: 8, fields: &[Field { at: HIGH_AT, bytes: 1 }, Field { at: SCALES_AT, bytes: 1 }] },
        Stream { units: 1, fields: &[Field { at: 0, bytes: 2 }] },
    ],
};

fn scaled(block: &[u8], g: usize) -> ([i8; GROUP], [f32; 2]) {
    let mut q = [0; GROUP];
    for (i, q) in q.chunks_exact_mut(8).enumerate() {
        let high = usize::from((block[HIGH_AT + g] >> (2 * i)) & 3) << 8;
        q.copy_from_slice(&signed(iq2(IQ2_S, usize::from(block[LOW_AT + 4 * g + i]) | high), block[SIGNS_AT + 4 * g + i]));
    }
    let (d, scales) = (half(block, 0), block[SCALES_AT + g]);
    (q, [scales & 15, scales >> 4].map(|scale| d * (0.5 + f32::from(scale)) * 0.25))
}

functions!(LAYOUT, scaled);
