//! Tables of cosines and sines, computed in f64 on the CPU: SwiftShader's `sin` is off by 1.9e-4, by 1e-2 beyond 8k.

use super::architecture::RopeFrequencies;

/// vec2(cos, sin)\[positions, rot_dim / 2\] as words, for positions from `start` on.
///
/// Angle i of position p is `p / linear_factor * theta^(-2i / rot_dim) / factors[i]`.
pub(super) fn table(rope: &RopeFrequencies, rot_dim: u32, start: u32, positions: u32, factors: &[f32]) -> Vec<u32> {
    let half = rot_dim / 2;
    let frequency = |i: u32| {
        let factor = factors.get(i as usize).map_or(1.0, |f| f64::from(*f));
        rope.theta.powf(-2.0 * f64::from(i) / f64::from(rot_dim)) / factor / rope.linear_factor
    };
    let frequencies: Vec<f64> = (0..half).map(frequency).collect();
    let mut words = Vec::with_capacity(positions as usize * half as usize * 2);
    for p in start..start + positions {
        for frequency in &frequencies {
            let (sin, cos) = (f64::from(p) * frequency).sin_cos();
            words.extend([(cos as f32).to_bits(), (sin as f32).to_bits()]);
        }
    }
    words
}
