//! IQ1_M: blocks of 256 weights: the low eight bits of 32 indices; four bits an index: three high bits, and whether 1/8 is taken away or
//! added; four u16, of each four scales of three bits for 16 weights and on top four bits of d (f16), the lowest first. An index
//! stands for eight weights of a grid of 2,048, each -1, 0 or 1: w = d * (1 + 2 * scale) * (weight ± 1/8).
//!
//! On the GPU, for 56 bytes a block: indices (a word a group) | high bits (two bytes a group) | the four u16 of a block.

use half::f16;

use super::GROUP;
use super::codebooks::iq1;
use super::streams::{Field, Layout, Stream, functions};

const LOW_AT: usize = 0;
const HIGH_AT: usize = LOW_AT + 32;
const SCALES_AT: usize = HIGH_AT + 16;

const LAYOUT: Layout = Layout {
    block: SCALES_AT + 8,
    streams: &[
        Stream { units: 8, fields: &[Field { at: LOW_AT, bytes: 4 }] },
        Stream { units: 8, fields: &[Field { at: HIGH_AT, bytes: 2 }] },
        Stream { units: 1, fields: &[Field { at: SCALES_AT, bytes: 8 }] },
    ],
};

fn scaled(block: &[u8], g: usize) -> ([i8; GROUP], [f32; 2]) {
    let mut q = [0; GROUP];
    for (i, q) in q.chunks_exact_mut(8).enumerate() {
        let high = block[HIGH_AT + 2 * g + i / 2] >> (4 * (i % 2));
        let delta = if high & 8 == 8 { -1 } else { 1 };
        let index = usize::from(block[LOW_AT + 4 * g + i]) | (usize::from(high & 7) << 8);
        q.copy_from_slice(&iq1(index).map(|eighths| eighths + delta));
    }
    let fields: [u16; 4] = std::array::from_fn(|i| u16::from_le_bytes([block[SCALES_AT + 2 * i], block[SCALES_AT + 2 * i + 1]]));
    let bits = fields.iter().enumerate().fold(0, |bits, (i, field)| bits | ((field >> 12) << (4 * i)));
    let d = f16::from_bits(bits).to_f32();
    let scales = fields[g / 2] >> (6 * (g % 2));
    (q, [scales & 7, (scales >> 3) & 7].map(|scale| d * f32::from(1 + 2 * scale) * 0.125))
}

functions!(LAYOUT, scaled);
