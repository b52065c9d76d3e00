//! IQ2_XXS: blocks of 256 weights: d (f16), and for every 32 weights two words: four indices of eight bits; four times seven bits
//! of signs and, on top, a scale of four bits. An index stands for eight weights of a grid of 256,
//! w = d * (1 + 2 * scale) / 8 * ±magnitude.
//!
//! On the GPU, for 66 bytes a block: the two words of each group | d.

use super::GROUP;
use super::bits::{half, word};
use super::codebooks::{IQ2_XXS, even_signs, iq2, signed};
use super::streams::{Field, Layout, Stream, functions};

const WORDS_AT: usize = 2;

const LAYOUT: Layout = Layout {
    block: WORDS_AT + 64,
    streams: &[
        Stream { units: 8, fields: &[Field { at: WORDS_AT, bytes: 8 }] },
        Stream { units: 1, fields: &[Field { at: 0, bytes: 2 }] },
    ],
};

fn scaled(block: &[u8], g: usize) -> ([i8; GROUP], [f32; 2]) {
    let at = WORDS_AT + 8 * g;
    let signs = word(block, at + 4);
    let mut q = [0; GROUP];
    for (i, q) in q.chunks_exact_mut(8).enumerate() {
        q.copy_from_slice(&signed(iq2(IQ2_XXS, block[at + i].into()), even_signs((signs >> (7 * i)) as u8)));
    }
    (q, [half(block, 0) * (0.5 + (signs >> 28) as f32) * 0.25; 2])
}

functions!(LAYOUT, scaled);
