//! Weight matrices for the twins: rows decoded from the GPU's layout, and random ones for cases.

use super::case::Noise;
use crate::err;
use crate::error::Result;
use crate::kernels::{BINDING_ALIGNMENT, Binding, BufferId, Matrix, Variant};
use crate::quant::{self, GROUP};
use crate::tensor::Format;

/// One row of a matrix in the GPU's layout, `start` in `vec4<u32>` from the start of `words`.
pub fn decode_row(format: Format, cols: usize, words: &[u32], start: u32) -> Result<Vec<f32>> {
    let quant = quant::supported(format)?;
    let (from, bytes) = (start as usize * 4, quant.gpu_row_bytes(cols));
    let row = words.get(from..from + bytes / 4).ok_or_else(|| err!(Internal, "a row reaches beyond its buffer"))?;
    let mut out = vec![0.0; cols];
    quant.dequantize_gpu_row(cols, bytemuck::cast_slice(row), &mut out)?;
    Ok(out)
}

/// The formats whose decoders a variant links, in `load_w`'s order.
pub fn formats_of(variant: &Variant) -> Result<Vec<Format>> {
    let decoders = variant.parts.iter().filter(|p| p.source.name.starts_with("parts/quant/"));
    let format = |name: &str| quant::TABLE.iter().find(|q| q.part == name).map(|q| q.format);
    decoders.map(|p| format(p.source.name).ok_or_else(|| err!(Internal, "{} is no format", p.source.name))).collect()
}

/// Whether a variant rounds activations to bytes.
pub fn rounds(variant: &Variant) -> bool {
    variant.parts.iter().any(|p| p.source.name == "parts/weights_i8")
}

/// Rounds activations as `parts/weights_i8` does: each group of 32 to 127 steps of its largest magnitude.
pub fn round(x: &mut [f64]) {
    for group in x.chunks_mut(GROUP) {
        let step = group.iter().fold(0.0, |top: f64, v| top.max(v.abs())) / 127.0;
        if step > 0.0 {
            group.iter_mut().for_each(|v| *v = (*v / step).round() * step);
        }
    }
}

/// Activations below 1 that lie within 0.3 steps of a number that they are rounded to: whoever divides a little differently rounds
/// them to the same.
pub fn clear_floats(noise: &mut Noise, n: usize) -> Vec<f32> {
    let mut x = Vec::with_capacity(n);
    for _ in 0..n / GROUP {
        let step = (0.6 + 0.4 * noise.float()) / 127.0;
        let group = x.len();
        x.extend((0..GROUP).map(|_| ((noise.bits() % 253) as f32 - 126.0 + 0.3 * noise.float()) * step));
        x[group + noise.bits() as usize % GROUP] = 127.0 * step * noise.float().signum();
    }
    x
}

/// Every format, or every one whose weights are bytes, three a case, and columns for them: three blocks of the longest, an
/// odd number of groups where blocks are a group.
pub fn by_three(packed: bool) -> Vec<(Vec<Format>, u32)> {
    let formats: Vec<Format> = quant::TABLE.iter().filter(|q| !packed || q.bytes).map(|q| q.format).collect();
    let cols = |three: &[Format]| three.iter().map(|f| 3 * f.block_len().max(GROUP as u64) as u32).max().unwrap_or_default();
    formats.chunks(3).map(|three| (three.to_vec(), cols(three))).collect()
}

/// Matrices of these formats and rows.
pub fn shapes(formats: &[Format], rows: [u32; 3]) -> Vec<(Format, u32)> {
    formats.iter().copied().zip(rows).collect()
}

/// Appends a matrix of random blocks, made in the file's layout and repacked as the loader does. Weights stay below 2. Codebooks
/// that it needs lie in the same buffer, before it.
pub fn fill_matrix(
    noise: &mut Noise,
    format: Format,
    rows: u32,
    cols: u32,
    buffer: BufferId,
    words: &mut Vec<u32>,
) -> Result<Matrix> {
    let quant = quant::supported(format)?;
    let cols_len = cols as usize;
    let source = random_rows(noise, format, rows as usize * cols_len);
    let mut packed = vec![0u8; quant.gpu_row_bytes(cols_len) * rows as usize];
    quant.repack_rows(cols_len, &source, &mut packed)?;
    let codebooks = quant.codebooks.then(|| {
        words.resize(words.len().next_multiple_of(BINDING_ALIGNMENT as usize / 4), 0);
        let start = words.len() as u64 * 4;
        words.extend(quant::codebooks::words());
        Binding::read(buffer, start, quant::codebooks::BYTES)
    });
    let base = (words.len() / 4) as u32;
    words.extend(packed.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])));
    let row_vec4 = (quant.gpu_row_bytes(cols_len) / 16) as u32;
    Ok(Matrix { format, buffer, base, rows, cols, row_vec4, codebooks })
}

/// `n` weights in the file's layout: quants are random bits, scales are such that weights stay below 2.
fn random_rows(noise: &mut Noise, format: Format, n: usize) -> Vec<u8> {
    let blocks = n / format.block_len() as usize;
    let mut bytes = Vec::new();
    for _ in 0..blocks {
        let mut block: Vec<u8> = (0..format.block_bytes()).map(|_| noise.bits() as u8).collect();
        match format {
            Format::F32 => block.copy_from_slice(&noise.float().to_le_bytes()),
            Format::BF16 => block.copy_from_slice(&half::bf16::from_f32(noise.float()).to_le_bytes()),
            Format::MXFP4 => block[0] = 117 + noise.bits() as u8 % 8, // up to 12 / 16
            Format::IQ1_M => {
                // Four bits of the factor are on top of each of the last four u16.
                let [low, high] = half::f16::from_f32(noise.float() / 16.0).to_le_bytes();
                for (at, bits) in [(49, low << 4), (51, low), (53, high << 4), (55, high)] {
                    block[at] = (block[at] & 15) | (bits & 0xf0);
                }
            }
            _ => {
                for (at, limit) in scales(format) {
                    block[*at..at + 2].copy_from_slice(&half::f16::from_f32(noise.float() * limit).to_le_bytes());
                }
            }
        }
        bytes.extend(block);
    }
    bytes
}

/// Where the f16 scales of a block are, and the largest that keep its weights below 2.
fn scales(format: Format) -> &'static [(usize, f32)] {
    match format {
        Format::F16 | Format::Q1_0 => &[(0, 1.0)],
        Format::Q2_0 => &[(0, 0.9)],
        Format::Q8_0 => &[(0, 1.0 / 128.0)],
        Format::Q4_0 | Format::Q5_0 => &[(0, 1.0 / 32.0)],
        Format::Q4_1 | Format::Q5_1 => &[(0, 1.0 / 32.0), (2, 0.5)],
        Format::Q2_K => &[(80, 1.0 / 64.0), (82, 1.0 / 32.0)],
        Format::Q3_K => &[(108, 1.0 / 128.0)],
        Format::Q4_K | Format::Q5_K => &[(0, 1.0 / 2048.0), (2, 1.0 / 128.0)],
        Format::Q6_K => &[(208, 1.0 / 4096.0)],
        Format::IQ4_NL => &[(0, 1.0 / 128.0)],
        Format::IQ4_XS => &[(0, 1.0 / 4096.0)],
        Format::TQ1_0 => &[(52, 1.0)],
        Format::TQ2_0 => &[(64, 0.9)],
        Format::IQ1_S => &[(0, 1.0 / 16.0)],
        Format::IQ2_XXS | Format::IQ2_XS | Format::IQ2_S => &[(0, 1.0 / 128.0)],
        Format::IQ3_XXS | Format::IQ3_S => &[(0, 1.0 / 256.0)],
        _ => &[],
    }
}
