//! Known questions for kernels: a recording over filled buffers, and which of them to compare, how closely.

use crate::kernels::{BufferId, Recording};

use super::Memory;

/// One case. The same list serves the tests and the companion's `selftest`.
pub struct Case {
    /// Kernel, variant and sizes.
    pub name: String,
    /// Usually one dispatch.
    pub recording: Recording,
    /// The buffers before it.
    pub memory: Memory,
    /// The buffers to compare afterwards, as floats, with the largest absolute error that passes.
    pub outputs: Vec<(BufferId, f32)>,
}

/// A small generator for test data: the same numbers everywhere, without a dependency (SplitMix64).
pub struct Noise(pub u64);

impl Noise {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in -1..1.
    pub fn float(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// `n` numbers in -1..1.
    pub fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }
}
