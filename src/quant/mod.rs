//! Block formats: sizes, decoding on the CPU, and the layout on the GPU. It knows bytes; it never knows files or devices.
//!
//! A weight matrix has `rows` rows of `cols` weights. **On the GPU** a row is a whole number of `vec4<u32>` and holds up
//! to four streams one after another, each padded to 16 bytes: quants | high bits | scales | block scales. One group of
//! 32 weights then costs one aligned 16-byte load a nibble per weight, where ggml's blocks of 18, 22, 34 or 210 bytes would
//! cost two unaligned ones. Q4_K and Q5_K keep their blocks, which are multiples of 16 bytes, and only gather each
//! group's bits (see `q4_k.rs`). No format grows by more than the padding.
//!
//! The shader's half of a format is `shaders/parts/quant/<format>.wgsl`. It hands its weights over by one of the functions
//! that both `parts/weights_f32` and `parts/weights_i8` have (`weights_numbers`, `weights_nibbles`, `weights_bytes`), so that
//! one part serves both precisions; only floats build their `W32` themselves. The IQ formats look their weights up in
//! [`codebooks`].
//!
//! **Adding a format**: its row in [`Format::TABLE`], if it is new to ggml; one file here with the four functions of
//! [`QuantFormat`]; its shader part; its row in [`TABLE`]. The kernels' cases and the tests then play it; they need to know
//! where its scales are (`scales` in `reference/weights.rs`, `random_rows` in `tests/quant.rs`), its sizes (there), and, in
//! `tests/data/quant`, two rows of it and what ggml makes of them.
//!
//! Sources: ggml's `ggml-quants.c` for the block formats; decoding is bit-exact to its `dequantize_row_*`.

mod bits;
pub mod codebooks;
mod encode;
mod float;
mod iq1_m;
mod iq1_s;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
mod iq4;
mod mxfp4;
mod q1_0;
mod q2_0;
mod q2_k;
mod q3_k;
mod q4;
mod q4_k;
mod q5;
mod q5_k;
mod q6_k;
mod q8_0;
mod streams;
mod tq1_0;
mod tq2_0;

pub use encode::quantize;

use crate::err;
use crate::error::Result;
use crate::tensor::Format;

/// Weights in a group, the unit in which shaders load weights (`qa_load`).
pub const GROUP: usize = 32;

/// The longest row, in weights. The longest in use are feed-forward widths of about 50,000; this keeps a row's bytes
/// below 2^32 and every offset inside it in a shader's u32.
pub const MAX_COLS: u64 = 1 << 24;

/// A weight format that can be computed in its quantised form.
#[derive(Debug)]
pub struct QuantFormat {
    /// The format.
    pub format: Format,
    /// The path of its shader part below `shaders`, without `.wgsl`, such as `parts/quant/q4_0`.
    pub part: &'static str,
    /// The text of that part: `kernels` links it. It declares `qa_load`.
    pub shader: &'static str,
    /// Whether its weights are whole numbers of a byte, times a scale, plus an offset, the same for sixteen weights. Then the
    /// part links with `parts/weights_i8` as well as with `parts/weights_f32`.
    pub bytes: bool,
    /// Whether weights are looked up in [`codebooks`], which kernels then bind.
    pub codebooks: bool,
    /// Bytes of a row on the GPU for a number of groups; a multiple of 16.
    gpu_bytes: fn(groups: usize) -> usize,
    /// One row from the file's layout to the GPU's. The slices have exactly the row's sizes.
    repack: fn(groups: usize, src: &[u8], dst: &mut [u8]),
    /// Whole blocks of the file's layout to f32.
    decode: fn(src: &[u8], out: &mut [f32]),
    /// One row of the GPU's layout to f32, `groups` groups of 32.
    #[cfg(feature = "reference")]
    decode_gpu: fn(groups: usize, src: &[u8], out: &mut [f32]),
}

/// One row of [`TABLE`]: the four functions of one module, of which the last is only in tests and the companion. Its kind:
/// `floats`, `bytes` (whole numbers and scales) or `grids` (the same, from codebooks).
macro_rules! row {
    (@bytes floats) => {
        false
    };
    (@bytes $kind:ident) => {
        true
    };
    (@looked_up grids) => {
        true
    };
    (@looked_up $kind:ident) => {
        false
    };
    ($format:ident, $kind:ident $part:literal, $($path:ident)::+) => {
        QuantFormat {
            format: Format::$format,
            part: concat!("parts/quant/", $part),
            shader: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/shaders/parts/quant/", $part, ".wgsl")),
            bytes: row!(@bytes $kind),
            codebooks: row!(@looked_up $kind),
            gpu_bytes: $($path)::+::gpu_bytes,
            repack: $($path)::+::repack,
            decode: $($path)::+::decode,
            #[cfg(feature = "reference")]
            decode_gpu: $($path)::+::decode_gpu,
        }
    };
}

/// Every format that can be computed.
pub static TABLE: [QuantFormat; 27] = [
    row!(F32, floats "f32", float::f32_),
    row!(F16, floats "f16", float::f16_),
    row!(BF16, floats "bf16", float::bf16_),
    row!(Q8_0, bytes "q8_0", q8_0),
    row!(Q4_0, bytes "q4_0", q4::q4_0),
    row!(Q4_1, bytes "q4_1", q4::q4_1),
    row!(Q5_0, bytes "q5_0", q5::q5_0),
    row!(Q5_1, bytes "q5_1", q5::q5_1),
    row!(MXFP4, bytes "mxfp4", mxfp4),
    row!(IQ4_NL, grids "iq4_nl", iq4::iq4_nl),
    row!(Q1_0, bytes "q1_0", q1_0),
    row!(Q2_0, bytes "q2_0", q2_0),
    row!(Q2_K, bytes "q2_k", q2_k),
    row!(Q3_K, bytes "q3_k", q3_k),
    row!(Q4_K, bytes "q4_k", q4_k),
    row!(Q5_K, bytes "q5_k", q5_k),
    row!(Q6_K, bytes "q6_k", q6_k),
    row!(TQ1_0, bytes "tq1_0", tq1_0),
    row!(TQ2_0, bytes "tq2_0", tq2_0),
    row!(IQ1_S, grids "iq1_s", iq1_s),
    row!(IQ1_M, grids "iq1_m", iq1_m),
    row!(IQ2_XXS, grids "iq2_xxs", iq2_xxs),
    row!(IQ2_XS, grids "iq2_xs", iq2_xs),
    row!(IQ2_S, grids "iq2_s", iq2_s),
    row!(IQ3_XXS, grids "iq3_xxs", iq3_xxs),
    row!(IQ3_S, grids "iq3_s", iq3_s),
    row!(IQ4_XS, grids "iq4_xs", iq4::iq4_xs),
];

/// The way to compute `format`.
///
/// # Errors
/// `unsupported-quant` where there is none, with the formats that there are.
pub fn supported(format: Format) -> Result<&'static QuantFormat> {
    TABLE.iter().find(|row| row.format == format).ok_or_else(|| {
        let names: Vec<&str> = TABLE.iter().map(|row| row.format.name()).collect();
        err!(UnsupportedQuant, "weights: expected a format among {}, found {}", names.join(", "), format.name())
    })
}

impl QuantFormat {
    /// Checks that rows of `cols` weights can be computed: whole groups of 32, whole blocks, at most [`MAX_COLS`]. The
    /// sizes and functions below hold for such rows.
    ///
    /// # Errors
    /// `unsupported-quant` naming `tensor`.
    pub fn check_cols(&self, tensor: &str, cols: u64) -> Result<usize> {
        let multiple = self.format.block_len().max(GROUP as u64);
        if cols == 0 || cols > MAX_COLS || !cols.is_multiple_of(multiple) {
            return Err(err!(
                UnsupportedQuant,
                "tensor {tensor}: expected rows of {} with a multiple of {multiple} weights, at most {MAX_COLS}, found {cols}",
                self.format.name()
            ));
        }
        Ok(cols as usize) // MAX_COLS fits
    }

    /// Bytes of a row of `cols` weights in the file.
    pub fn source_row_bytes(&self, cols: usize) -> usize {
        cols / self.format.block_len() as usize * self.format.block_bytes() as usize
    }

    /// Bytes of a row of `cols` weights on the GPU, a multiple of 16.
    pub fn gpu_row_bytes(&self, cols: usize) -> usize {
        (self.gpu_bytes)(cols / GROUP)
    }

    /// Turns whole rows from the file's layout (`src`) to the GPU's (`dst`): any number of rows, nothing allocated.
    ///
    /// # Errors
    /// `internal` where the lengths are not those of the same number of whole rows.
    pub fn repack_rows(&self, cols: usize, src: &[u8], dst: &mut [u8]) -> Result<()> {
        let (from, to) = (self.source_row_bytes(cols).max(1), self.gpu_row_bytes(cols).max(1));
        if !src.len().is_multiple_of(from) || !dst.len().is_multiple_of(to) || src.len() / from != dst.len() / to {
            return Err(self.length(&format!("repack rows of {cols}"), src.len() / from * to, dst.len()));
        }
        for (src, dst) in src.chunks_exact(from).zip(dst.chunks_exact_mut(to)) {
            (self.repack)(cols / GROUP, src, dst);
        }
        Ok(())
    }

    /// Decodes whole blocks of the file's layout, bit for bit as ggml does.
    ///
    /// # Errors
    /// `internal` where the lengths are not those of the same number of whole blocks.
    pub fn dequantize(&self, src: &[u8], out: &mut [f32]) -> Result<()> {
        let (block, bytes) = (self.format.block_len() as usize, self.format.block_bytes() as usize);
        if !out.len().is_multiple_of(block) || out.len() / block * bytes != src.len() {
            return Err(self.length("dequantize", out.len() / block * bytes, src.len()));
        }
        (self.decode)(src, out);
        Ok(())
    }

    /// Decodes one row of the GPU's layout: what `qa_load` of the shader part gives for it, as `d * q + m`.
    ///
    /// # Errors
    /// `internal` where the lengths are not those of one row of `cols` weights.
    #[cfg(feature = "reference")]
    pub fn dequantize_gpu_row(&self, cols: usize, gpu_row: &[u8], out: &mut [f32]) -> Result<()> {
        if out.len() != cols || gpu_row.len() != self.gpu_row_bytes(cols) {
            return Err(self.length(&format!("dequantize a GPU row of {cols}"), self.gpu_row_bytes(cols), gpu_row.len()));
        }
        (self.decode_gpu)(cols / GROUP, gpu_row, out);
        Ok(())
    }

    fn length(&self, what: &str, expected: usize, found: usize) -> crate::error::Error {
        err!(Internal, "{} {what}: expected {expected} bytes, found {found}", self.format.name())
    }
}
