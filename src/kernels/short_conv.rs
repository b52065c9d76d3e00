//! A causal depthwise convolution over the tokens of a pass that remembers the last tokens of the pass before:
//! `shaders/short_conv.wgsl`. LFM2's mixer between its two matrices, and what a delta net does to q, k and v.

use super::parts::Activation;
use super::{Binding, Cost, Dispatch, Source, Variant, state};
use crate::err;
use crate::error::Result;
use crate::source;
use crate::tensor::Tier;

const SHORT_CONV: Source = source!("short_conv");
/// Invocations of a workgroup, each a channel.
const WG: u32 = 64;
const CPU_WG: u32 = 8;
/// The most taps: those of a channel lie in registers.
pub const MAX_TAPS: u32 = 8;

/// A convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortConv {
    /// Channels, each convolved alone.
    pub channels: u32,
    /// Tokens that a channel sees, its own included: 1 to [`MAX_TAPS`].
    pub taps: u32,
    /// Whether a row is B | C | x, of which `C · conv(B · x)` is made; else it begins with x, and `silu(conv(x))` is made.
    pub gated: bool,
}

impl ShortConv {
    /// Whether the kernel can compute this. Error: `unsupported-architecture`, naming the number.
    pub fn check(&self) -> Result<()> {
        if self.taps == 0 || self.taps > MAX_TAPS {
            return Err(err!(UnsupportedArchitecture, "short convolution: expected 1 to {MAX_TAPS} taps, found {}", self.taps));
        }
        Ok(())
    }

    /// Floats of what is remembered from pass to pass.
    pub fn past_len(&self) -> u64 {
        u64::from(self.taps.saturating_sub(1)) * u64::from(self.channels)
    }
}

/// What a convolution is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// The state buffer: done, the position of the first token, and how many of the tokens are there.
    pub state: Binding,
    /// f32\[tokens, stride\]
    pub rows: Binding,
    /// Floats of a row.
    pub stride: u32,
    /// f32\[channels, taps\], the newest token's weight last.
    pub weights: Binding,
    /// f32\[taps - 1, channels\]: the inputs of the last tokens, the oldest first. Read and written; at position 0 taken as
    /// zeros. At least four floats.
    pub past: Binding,
    /// f32\[tokens, channels\]
    pub out: Binding,
    /// The most tokens of a pass.
    pub tokens: u32,
}

/// `out[t, c] = f(Σ_j weights[c, j] · x[t - taps + 1 + j, c])`, see [`ShortConv::gated`]. The tokens follow those of the
/// pass before.
///
/// # Errors
/// `unsupported-architecture` for too many taps, `internal` where bindings are too small.
pub fn short_conv(tier: Tier, shape: ShortConv, io: Io) -> Result<Dispatch> {
    shape.check()?;
    let (channels, tokens) = (u64::from(shape.channels), u64::from(io.tokens));
    let taken = if shape.gated { 3 * channels } else { channels };
    let fits = io.rows.bytes >= tokens * u64::from(io.stride) * 4
        && u64::from(io.stride) >= taken
        && io.weights.bytes >= channels * u64::from(shape.taps) * 4
        && io.past.bytes >= shape.past_len() * 4
        && io.out.bytes >= tokens * channels * 4
        && io.rows.buffer != io.out.buffer;
    if !fits {
        return Err(err!(Internal, "short_conv: {tokens} tokens of {shape:?} do not fit {io:?}"));
    }
    let wg = if tier.cpu { CPU_WG } else { WG };
    let variant = Variant::new(SHORT_CONV, &[state::STATE, Activation::Silu.part()])
        .constant("WG", wg)
        .constant("TAPS", shape.taps)
        .constant("GATED", shape.gated.into());
    Ok(Dispatch {
        variant,
        params: vec![shape.channels, io.stride, io.tokens],
        bindings: vec![io.state, io.rows, io.weights, io.past, io.out],
        workgroups: [shape.channels.div_ceil(wg), 1, 1],
        cost: Cost { fixed: tokens * channels * u64::from(shape.taps), per_key: 0 },
        continues: false,
    })
}
