//! Gated delta net (Yang et al. 2024, arXiv 2412.06464), a memory in place of a KV cache: `shaders/delta_net.wgsl` for GPUs,
//! `shaders/delta_net_cpu.wgsl` for CPU adapters. Between the convolution ([`super::short_conv`]) and the output matrix, with
//! the norm of each head and its gate.

use super::parts::Activation;
use super::{Binding, Cost, Dispatch, Source, Variant, sliced, state};
use crate::err;
use crate::error::Result;
use crate::source;
use crate::tensor::Tier;

const CORE: Source = source!("parts/delta_net");
const WORKGROUP: Source = source!("delta_net");
const CPU: Source = source!("delta_net_cpu");
/// The widest heads: what is in workgroup memory grows with them.
pub const MAX_WIDTH: u32 = 256;
/// The most heads.
const MAX_HEADS: u32 = 1024;
/// Invocations of a workgroup, at most.
const WG: u32 = 256;
/// Where the params hold the first head of a slice.
const FIRST: usize = 3;

/// The heads of a delta net.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeltaNet {
    /// Heads of q and k.
    pub key_heads: u32,
    /// Heads of v, a multiple of `key_heads`.
    pub value_heads: u32,
    /// Numbers of a head of q or k: a multiple of 4, at most [`MAX_WIDTH`].
    pub key_width: u32,
    /// Numbers of a head of v: likewise.
    pub value_width: u32,
    /// Whether the value heads of a key head are neighbours; else they lie `key_heads` apart.
    pub grouped: bool,
    /// Epsilon of the norm of each head.
    pub eps: f32,
}

impl DeltaNet {
    /// Whether the kernels can compute this shape. Error: `unsupported-architecture`, naming the number.
    pub fn check(&self) -> Result<()> {
        let &Self { key_heads, value_heads, key_width, value_width, .. } = self;
        if key_heads == 0 || value_heads == 0 || !value_heads.is_multiple_of(key_heads) || value_heads > MAX_HEADS {
            return Err(err!(
                UnsupportedArchitecture,
                "delta net: expected 1 to {MAX_HEADS} value heads, a multiple of the key heads; found {value_heads} and {key_heads}"
            ));
        }
        for width in [key_width, value_width] {
            if width == 0 || !width.is_multiple_of(4) || width > MAX_WIDTH {
                return Err(err!(
                    UnsupportedArchitecture,
                    "delta net: expected heads of a multiple of 4 up to {MAX_WIDTH}, found {width}"
                ));
            }
        }
        Ok(())
    }

    /// Floats of q, k and v of a token: the channels of the convolution.
    pub fn channels(&self) -> u32 {
        2 * self.key_heads * self.key_width + self.values()
    }

    /// Floats of a token's output.
    pub fn values(&self) -> u32 {
        self.value_heads * self.value_width
    }

    /// Floats of a token's projections: q, k, v, z, and two numbers for each value head.
    pub fn projected(&self) -> u32 {
        self.channels() + self.values() + 2 * self.value_heads
    }

    /// Floats of the memory.
    pub fn memory_len(&self) -> u64 {
        u64::from(self.values()) * u64::from(self.key_width)
    }

    /// Floats of what each head has: a, the bias of alpha, and the norm's weights.
    pub fn of_heads_len(&self) -> u64 {
        2 * u64::from(self.value_heads) + u64::from(self.value_width)
    }

    /// How many invocations of a workgroup share four columns.
    fn lanes(&self) -> u32 {
        let most = WG / (self.value_width / 4).max(1);
        let power = 1 << most.max(1).ilog2();
        self.key_width.next_power_of_two().min(power)
    }
}

/// What a delta net is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// The state buffer: done, the position of the first token, and how many of the tokens are there.
    pub state: Binding,
    /// f32\[tokens, q | k | v\] out of the convolution.
    pub qkv: Binding,
    /// f32\[tokens, q | k | v | z | b | alpha\]: the projections; the first three are not read.
    pub rows: Binding,
    /// f32: a\[value_heads\], the bias of alpha\[value_heads\], the norm's weights\[value_width\].
    pub of_heads: Binding,
    /// f32\[value_heads, key_width, value_width\]: the memory, read and written; at position 0 taken as zeros.
    pub memory: Binding,
    /// f32\[tokens, value_heads, value_width\]
    pub out: Binding,
    /// The most tokens of a pass.
    pub tokens: u32,
}

/// The delta rule for the tokens of a pass, then each head normed and gated; see `shaders/parts/delta_net.wgsl`. The tokens
/// follow those of the pass before. In slices of heads.
///
/// # Errors
/// `unsupported-architecture` for a shape beyond the kernels, `internal` where bindings are too small.
pub fn delta_net(tier: Tier, shape: &DeltaNet, io: Io) -> Result<Vec<Dispatch>> {
    shape.check()?;
    let tokens = u64::from(io.tokens);
    let fits = [
        (io.qkv, tokens * u64::from(shape.channels())),
        (io.rows, tokens * u64::from(shape.projected())),
        (io.of_heads, shape.of_heads_len()),
        (io.memory, shape.memory_len()),
        (io.out, tokens * u64::from(shape.values())),
    ];
    if fits.iter().any(|(binding, floats)| binding.bytes < floats * 4) {
        return Err(err!(Internal, "delta_net: {tokens} tokens of {shape:?} do not fit {io:?}"));
    }
    let mut variant = Variant::new(if tier.cpu { CPU } else { WORKGROUP }, &[state::STATE, Activation::Silu.part(), CORE])
        .constant("KEY_HEADS", shape.key_heads)
        .constant("VALUE_HEADS", shape.value_heads)
        .constant("KEY_WIDTH", shape.key_width)
        .constant("VALUE_WIDTH", shape.value_width)
        .constant("GROUPED", shape.grouped.into());
    if !tier.cpu {
        variant = variant.constant("LANES", shape.lanes());
    }
    let q_scale = 1.0 / (shape.key_width as f32).sqrt();
    let params = vec![io.tokens, shape.projected(), shape.eps.to_bits(), 0, shape.key_width / 4, q_scale.to_bits()];
    let bindings = vec![io.state, io.qkv, io.rows, io.of_heads, io.memory, io.out];
    // Two products with the memory and its change.
    let cost = Cost { fixed: 3 * tokens * shape.memory_len(), per_key: 0 };
    let whole = Dispatch { variant, params, bindings, workgroups: [1, shape.value_heads, 1], cost, continues: false };
    Ok(sliced(tier, whole, FIRST, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Qwen 3.5's.
    const SHAPE: DeltaNet =
        DeltaNet { key_heads: 16, value_heads: 32, key_width: 128, value_width: 128, grouped: false, eps: 1e-6 };

    /// Bytes of workgroup memory, as `shaders/delta_net.wgsl` declares it.
    fn workgroup_bytes(s: &DeltaNet) -> u32 {
        let v4 = s.value_width / 4;
        2 * s.key_width * 8 + 2 * s.key_width / 4 * 16 + 2 * v4 * s.lanes() * 16 + v4 * 4
    }

    #[test]
    fn workgroups_stay_within_what_every_device_has() {
        assert_eq!((SHAPE.lanes(), SHAPE.channels(), SHAPE.projected(), SHAPE.memory_len()), (8, 8192, 12_352, 32 * 128 * 128));
        for key_width in (4..=MAX_WIDTH).step_by(4) {
            for value_width in (4..=MAX_WIDTH).step_by(4) {
                let s = DeltaNet { key_width, value_width, ..SHAPE };
                let invocations = s.lanes() * value_width / 4;
                assert!((1..=256).contains(&invocations) && workgroup_bytes(&s) <= 16 << 10, "{s:?}");
            }
        }
    }

    #[test]
    fn shapes_that_the_kernels_lack_are_named() {
        let wrong = [
            DeltaNet { key_heads: 0, ..SHAPE },
            DeltaNet { value_heads: 0, ..SHAPE },
            DeltaNet { key_heads: 3, ..SHAPE },
            DeltaNet { value_heads: 2048, ..SHAPE },
            DeltaNet { key_width: 0, ..SHAPE },
            DeltaNet { key_width: 260, ..SHAPE },
            DeltaNet { value_width: 6, ..SHAPE },
        ];
        for shape in wrong {
            let code = shape.check().expect_err("a shape that cannot be computed").code;
            assert_eq!(code, crate::error::Code::UnsupportedArchitecture, "{shape:?}");
        }
        assert_eq!(SHAPE.check(), Ok(()));
    }
}
