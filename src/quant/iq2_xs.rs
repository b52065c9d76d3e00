//! IQ2_XS: blocks of 256 weights: d (f16), 32 u16 of which each is an index of nine bits below seven bits of signs, a scale of four
//! bits for every 16 weights; an index stands for eight weights of a grid of 512, w = d * (1 + 2 * scale) / 8 * ±magnitude.
//!
//! On the GPU, for 74 bytes a block: indices and signs (8 bytes a group) | scales (a byte a group) | d.

use super::GROUP;
use super::bits::half;
use super::codebooks::{IQ2_XS, even_signs, iq2, signed};
use super::streams::{Field, Layout, Stream, functions};

const INDICES_AT: usize = 2;
const SCALES_AT: usize = INDICES_AT + 64;

const LAYOUT: Layout = Layout {
    block: SCALES_AT + 8,
    streams: &[
        Stream { units: 8, fields: &[Field { at: INDICES_AT, bytes: 8 }] },
        Stream { units: 8, fields: &[Field { at: SCALES_AT, bytes: 1 }] },
        Stream { units: 1, fields: &[Field { at: 0, bytes: 2 }] },
    ],
};

fn scaled(block: &[u8], g: usize) -> ([i8; GROUP], [f32; 2]) {
    let mut q = [0; GROUP];
    for (i, q) in q.chunks_exact_mut(8).enumerate() {
        let at = INDICES_AT + 8 * g + 2 * i;
        let index = usize::from(block[at]) | (usize::from(block[at + 1] & 1) << 8);
        q.copy_from_slice(&signed(iq2(IQ2_XS, index), even_signs(block[at + 1] >> 1)));
    }
    let (d, scales) = (half(block, 0), block[SCALES_AT + g]);
    (q, [scales & 15, scales >> 4].map(|scale| d * (0.5 + f32::from(scale)) * 0.25))
}

functions!(LAYOUT, scaled);
