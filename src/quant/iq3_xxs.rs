//! IQ3_XXS: blocks of 256 weights: d (f16), 64 indices of eight bits, a word for every 32 weights with four times seven bits of
//! signs and, on top, a scale of four bits; an index stands for four weights of a grid of 256,
//! w = d * (1 + 2 * scale) / 4 * ±magnitude.
//!
//! On the GPU, for 98 bytes a block: indices (8 bytes a group) | words of signs (a word a group) | d.

use super::GROUP;
use super::bits::{half, word};
use super::codebooks::{IQ3_XXS, even_signs, iq3, signed};
use super::streams::{Field, Layout, Stream, functions};

const INDICES_AT: usize = 2;
const SIGNS_AT: usize = INDICES_AT + 64;

const LAYOUT: Layout = Layout {
    block: SIGNS_AT + 32,
    streams: &[
        Stream { units: 8, fields: &[Field { at: INDICES_AT, bytes: 8 }] },
        Stream { units: 8, fields: &[Field { at: SIGNS_AT, bytes: 4 }] },
        Stream { units: 1, fields: &[Field { at: 0, bytes: 2 }] },
    ],
};

fn scaled(block: &[u8], g: usize) -> ([i8; GROUP], [f32; 2]) {
    let signs = word(block, SIGNS_AT + 4 * g);
    let mut q = [0; GROUP];
    for (i, q) in q.chunks_exact_mut(4).enumerate() {
        let eight = even_signs((signs >> (7 * (i / 2))) as u8);
        q.copy_from_slice(&signed(iq3(IQ3_XXS, block[INDICES_AT + 8 * g + i].into()), eight >> (4 * (i % 2))));
    }
    (q, [half(block, 0) * (0.5 + (signs >> 28) as f32) * 0.5; 2])
}

functions!(LAYOUT, scaled);
