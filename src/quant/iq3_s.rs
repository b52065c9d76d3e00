//! IQ3_S: blocks of 256 weights: d (f16), the low eight bits of 64 indices, their ninth bits, 256 signs, a scale of four bits for
//! every 32 weights; an index stands for four weights of a grid of 512, w = d * (1 + 2 * scale) * ±magnitude.
//!
//! On the GPU, for 110 bytes a block: indices (8 bytes a group) | signs (4 bytes a group) | ninth bits (a byte a group) | scales (4
//! bytes a block) | d.

use super::GROUP;
use super::bits::half;
use super::codebooks::{IQ3_S, iq3, signed};
use super::streams::{Field, Layout, Stream, functions};

const LOW_AT: usize = 2;
const HIGH_AT: usize = LOW_AT + 64;
const SIGNS_AT: usize = HIGH_AT + 8;
const SCALES_AT: usize = SIGNS_AT + 32;

const LAYOUT: Layout = Layout {
    block: SCALES_AT + 4,
    streams: &[
        Stream { units: 8, fields: &[Field { at: LOW_AT, bytes: 8 }] },
        Stream { units: 8, fields: &[Field { at: SIGNS_AT, bytes: 4 }] },
        Stream { units: 8, fields: &[Field { at: HIGH_AT, bytes: 1 }] },
        Stream { units: 1, fields: &[Field { at: SCALES_AT, bytes: 4 }] },
        Stream { units: 1, fields: &[Field { at: 0, bytes: 2 }] },
    ],
};

fn scaled(block: &[u8], g: usize) -> ([i8; GROUP], [f32; 2]) {
    let scale = (block[SCALES_AT + g / 2] >> (4 * (g % 2))) & 15;
    let mut q = [0; GROUP];
    for (i, q) in q.chunks_exact_mut(4).enumerate() {
        let high = usize::from((block[HIGH_AT + g] >> i) & 1) << 8;
        let signs = block[SIGNS_AT + 4 * g + i / 2] >> (4 * (i % 2));
        q.copy_from_slice(&signed(iq3(IQ3_S, usize::from(block[LOW_AT + 8 * g + i]) | high), signs));
    }
    (q, [half(block, 0) * f32::from(1 + 2 * scale); 2])
}

functions!(LAYOUT, scaled);
