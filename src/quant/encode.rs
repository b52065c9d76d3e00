//! Rows of floats into a format, as they are when a model of floats is loaded: bit for bit what the reference quantizer of
//! ggml's `gguf` package makes of them.

use half::{bf16, f16};

use super::GROUP;
use crate::err;
use crate::error::Result;
use crate::tensor::Format;

/// Encodes whole rows, one behind the other. Formats: F32, F16, BF16, Q8_0 and Q4_0.
///
/// # Errors
/// `internal` for another format, or where the lengths are not those of the same number of whole blocks.
pub fn quantize(format: Format, values: &[f32], out: &mut [u8]) -> Result<()> {
    let (block, bytes) = (format.block_len() as usize, format.block_bytes() as usize);
    if !values.len().is_multiple_of(block) || values.len() / block * bytes != out.len() {
        return Err(err!(Internal, "{}: {} weights do not make {} bytes", format.name(), values.len(), out.len()));
    }
    let encode: fn(&[f32], &mut [u8]) = match format {
        Format::F32 => |x, out| out.copy_from_slice(&x[0].to_le_bytes()),
        Format::F16 => |x, out| out.copy_from_slice(&f16::from_f32(x[0]).to_le_bytes()),
        Format::BF16 => |x, out| out.copy_from_slice(&bf16::from_f32(x[0]).to_le_bytes()),
        Format::Q8_0 => q8_0,
        Format::Q4_0 => q4_0,
        other => return Err(err!(Internal, "nothing is quantised to {}", other.name())),
    };
    for (x, out) in values.chunks_exact(block).zip(out.chunks_exact_mut(bytes)) {
        encode(x, out);
    }
    Ok(())
}

/// d = max |x| / 127; q = x / d, rounded half away from zero.
fn q8_0(x: &[f32], out: &mut [u8]) {
    let d = x.iter().fold(0f32, |most, v| most.max(v.abs())) / 127.0;
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    let (scale, quants) = out.split_at_mut(2);
    scale.copy_from_slice(&f16::from_f32(d).to_le_bytes());
    for (q, v) in quants.iter_mut().zip(x) {
        *q = (v * inverse).round() as i8 as u8;
    }
}

/// d = the x farthest from zero (the first of equals) / -8; q = x / d + 8, rounded, of which 16 is 15. Product and
/// sum are rounded one after the other, as the reference does.
fn q4_0(x: &[f32], out: &mut [u8]) {
    let farthest = x.iter().fold(0f32, |most, v| if v.abs() > most.abs() { *v } else { most });
    let d = farthest / -8.0;
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    let quant = |v: f32| ((v * inverse + 8.5) as u8).min(15);
    let (scale, quants) = out.split_at_mut(2);
    scale.copy_from_slice(&f16::from_f32(d).to_le_bytes());
    let (low, high) = x.split_at(GROUP / 2);
    for (q, (a, b)) in quants.iter_mut().zip(low.iter().zip(high)) {
        *q = quant(*a) | quant(*b) << 4;
    }
}
