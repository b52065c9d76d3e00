//! Tables of cosines and sines, computed in f64 on the CPU: SwiftShader's `sin` is off by 1.9e-4, by 1e-2 beyond 8k.

use std::f64::consts::TAU;

use super::architecture::limit;
use crate::err;
use crate::error::Result;

/// How the positions of a layer are turned into angles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RopeFrequencies {
    /// rope_theta.
    pub theta: f64,
    /// Positions are divided by this; 1 for none.
    pub linear_factor: f64,
    /// Which frequencies keep their positions undivided.
    pub yarn: Option<Yarn>,
    /// What cosines and sines are multiplied with (YaRN's and longrope's attention factor).
    pub magnitude: f64,
    /// What divides the frequencies.
    pub factors: Factors,
}

/// YaRN (Peng and others 2023, arXiv 2309.00071): frequencies that turn often within the context of the first training stay as they
/// are, those that turn seldom are divided, with a ramp between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Yarn {
    /// Positions of the first training.
    pub original: u32,
    /// How much of it there is, from 0 to 1.
    pub mix: f64,
    /// The ramp's fast end, in turns.
    pub beta_fast: f64,
    /// The ramp's slow end, in turns.
    pub beta_slow: f64,
}

/// A tensor with a divisor of each frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Factors {
    /// There is none.
    None,
    /// `rope_freqs.weight` (Llama 3).
    Always,
    /// `rope_factors_long.weight` where the cache has more positions than `original`, else `rope_factors_short.weight` (longrope).
    ByContext {
        /// Positions of the first training.
        original: u32,
    },
}

impl Factors {
    /// Every tensor that may be read.
    pub(super) fn tensors(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Always => &["rope_freqs.weight"],
            Self::ByContext { .. } => &["rope_factors_short.weight", "rope_factors_long.weight"],
        }
    }

    /// The tensor that is read for a cache of so many positions.
    pub(super) fn tensor(self, context_length: u32) -> Option<&'static str> {
        let long = matches!(self, Self::ByContext { original } if context_length > original);
        self.tensors().get(usize::from(long)).copied()
    }
}

impl RopeFrequencies {
    /// Error: `bad-file` for numbers that give no angles.
    pub(super) fn check(&self, family: &str) -> Result<()> {
        let yarn = self.yarn.unwrap_or(Yarn { original: 1, mix: 0.0, beta_fast: 1.0, beta_slow: 1.0 });
        let positive = [self.theta, self.linear_factor, self.magnitude, yarn.beta_fast, yarn.beta_slow]
            .iter()
            .all(|v| v.is_finite() && *v > 0.0);
        if !positive || !(0.0..=1.0).contains(&yarn.mix) || yarn.original == 0 || yarn.original > limit::CONTEXT {
            return Err(err!(BadFile, "{family} rope: expected a positive base, factors and context, found {self:?}"));
        }
        Ok(())
    }

    /// Radians a position of each pair of rotated elements.
    fn frequencies(&self, rot_dim: u32, factors: &[f32]) -> Vec<f64> {
        let dims = f64::from(rot_dim);
        let ramp = self.yarn.map(|yarn| {
            let pair = |turns: f64| dims * (f64::from(yarn.original) / (turns * TAU)).ln() / (2.0 * self.theta.ln());
            let low = pair(yarn.beta_fast).floor().max(0.0);
            let high = pair(yarn.beta_slow).ceil().min(dims - 1.0);
            move |i: f64| yarn.mix * (1.0 - ((i - low) / (high - low).max(1e-3)).clamp(0.0, 1.0))
        });
        let frequency = |i: u32| {
            let factor = factors.get(i as usize).map_or(1.0, |f| f64::from(*f));
            let whole = self.theta.powf(-2.0 * f64::from(i) / dims) / factor;
            let kept = ramp.map_or(0.0, |ramp| ramp(f64::from(i)));
            whole / self.linear_factor * (1.0 - kept) + whole * kept
        };
        (0..rot_dim / 2).map(frequency).collect()
    }
}

/// vec2(cos, sin)\[positions, rot_dim / 2\] as words, for positions from `start` on.
pub(super) fn table(rope: &RopeFrequencies, rot_dim: u32, start: u32, positions: u32, factors: &[f32]) -> Vec<u32> {
    let frequencies = rope.frequencies(rot_dim, factors);
    let mut words = Vec::with_capacity(positions as usize * frequencies.len() * 2);
    for p in start..start + positions {
        for frequency in &frequencies {
            let (sin, cos) = (f64::from(p) * frequency).sin_cos();
            words.extend([cos, sin].map(|v| ((v * rope.magnitude) as f32).to_bits()));
        }
    }
    words
}
