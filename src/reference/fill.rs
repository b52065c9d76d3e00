//! The twin of `fill`.

use super::Memory;
use super::case::Case;
use crate::err;
use crate::error::Result;
use crate::kernels::fill::{Pattern, fill as build};
use crate::kernels::{Binding, Dispatch, Recording};

/// Word j becomes `hash(j, seed) & mask | bits`.
pub fn fill(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let &[vec4s, seed, mask, bits, _] = d.params.as_slice() else {
        return Err(err!(Internal, "fill: {} params", d.params.len()));
    };
    for (j, word) in (0..vec4s * 4).zip(m.binding_mut(d, 1)?) {
        *word = (hash((j ^ seed).wrapping_mul(0x9e37_79b9)) & mask) | bits;
    }
    Ok(())
}

fn hash(v: u32) -> u32 {
    let state = v.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
    let word = ((state >> ((state >> 28) + 4)) ^ state).wrapping_mul(277_803_737);
    (word >> 22) ^ word
}

/// A part of a buffer; more workgroups than one row of the grid holds; one float. Words must be equal bit for
/// bit.
pub fn cases() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (name, vec4s, first, pattern) in [
        ("one", 1u64, 0, Pattern::noise(7)),
        ("a part", 129, 16, Pattern::noise(0xdead_beef)),
        ("two rows of workgroups", 256 * 64 + 3, 0, Pattern::noise(3)),
        ("a float", 70, 0, Pattern::float(1.0)),
    ] {
        let mut memory = Memory::default();
        let buffer = memory.push(vec![0x3f80_0000; ((first + vec4s + 1) * 4) as usize]);
        let dispatches = vec![build(Binding::read_write(buffer, first * 16, vec4s * 16), pattern)?];
        let case =
            Case { name: format!("fill {name}"), recording: Recording { dispatches }, memory, outputs: vec![(buffer, 0.0)] };
        cases.push(case);
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant;
    use crate::tensor::Format;

    /// Whatever format with f16 scales reads them, the weights are finite, small and not all the same.
    #[test]
    fn noise_is_small_in_every_format() {
        for quant in quant::TABLE.iter().filter(|q| q.format != Format::MXFP4) {
            let (cols, bytes) = (2048, quant.gpu_row_bytes(2048));
            let mut memory = Memory::default();
            let buffer = memory.push(vec![0; bytes / 4]);
            fill(&build(Binding::read_write(buffer, 0, bytes as u64), Pattern::noise(5)).unwrap(), &mut memory).unwrap();
            let mut weights = vec![0f32; cols];
            quant.dequantize_gpu_row(cols, bytemuck::cast_slice(memory.words(buffer)), &mut weights).unwrap();
            assert!(weights.iter().all(|w| w.is_finite() && w.abs() < 2.0), "{}", quant.format.name());
            assert!(weights.windows(2).any(|w| w[0] != w[1]), "{}", quant.format.name());
        }
    }
}
