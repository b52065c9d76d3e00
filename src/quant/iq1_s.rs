//! IQ1_S: blocks of 256 weights: d (f16), the low eight bits of 32 indices, a u16 for every 32 weights: four times the indices' three
//! high bits, a scale of three bits, and whether 1/8 is taken away or added. An index stands for eight weights of a grid of
//! 2,048, each -1, 0 or 1: w = d * (1 + 2 * scale) * (weight ± 1/8).
//!
//! On the GPU, for 50 bytes a block: indices (a word a group) | the u16 | d.

use super::GROUP;
use super::bits::half;
use super::codebooks::iq1;
use super::streams::{Field, Layout, Stream, functions};

const LOW_AT: usize = 2;
const HIGH_AT: usize = LOW_AT + 32;

const LAYOUT: Layout = Layout {
    block: HIGH_AT + 16,
    streams: &[
        Stream { units: 8, fields: &[Field { at: LOW_AT, bytes: 4 }] },
        Stream { units: 8, fields: &[Field { at: HIGH_AT, bytes: 2 }] },
        Stream { units: 1, fields: &[Field { at: 0, bytes: 2 }] },
    ],
};

fn scaled(block: &[u8], g: usize) -> ([i8; GROUP], [f32; 2]) {
    let high = u16::from_le_bytes([block[HIGH_AT + 2 * g], block[HIGH_AT + 2 * g + 1]]);
    let delta = if high >> 15 == 1 { -1 } else { 1 };
    let mut q = [0; GROUP];
    for (i, q) in q.chunks_exact_mut(8).enumerate() {
        let index = usize::from(block[LOW_AT + 4 * g + i]) | (usize::from((high >> (3 * i)) & 7) << 8);
        q.copy_from_slice(&iq1(index).map(|eighths| eighths + delta));
    }
    (q, [half(block, 0) * f32::from(1 + 2 * ((high >> 12) & 7)) * 0.125; 2])
}

functions!(LAYOUT, scaled);
