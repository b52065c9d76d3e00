//! The random numbers of sampling: stateless, so that any step can be drawn again from (seed, step) alone, on either
//! processor. `shaders/parts/sample.wgsl` computes the same integers bit for bit.
//!
//! The generator is `pcg4d` of Jarzynski and Olano, "Hash Functions for GPU Rendering" (JCGT 9(3), 2020): a PCG-style
//! multiply-add on four lanes, a cross-lane mix and a xorshift. One PCG lane fed with `seed ^ step ^ id` was not taken:
//! its outputs for one step are then a permutation of those for another.

/// The lane that the inverse-CDF draw uses in place of a token id; no vocabulary reaches it.
const DRAW_LANE: u32 = u32::MAX;

/// Four well-mixed words from four words of input.
pub fn pcg4d(input: [u32; 4]) -> [u32; 4] {
    fn mix([mut x, mut y, mut z, mut w]: [u32; 4]) -> [u32; 4] {
        x = x.wrapping_add(y.wrapping_mul(w));
        y = y.wrapping_add(z.wrapping_mul(x));
        z = z.wrapping_add(x.wrapping_mul(y));
        w = w.wrapping_add(y.wrapping_mul(z));
        [x, y, z, w]
    }
    let scrambled = input.map(|word| word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    mix(mix(scrambled).map(|word| word ^ (word >> 16)))
}

fn word(seed: u64, step: u32, lane: u32) -> u32 {
    pcg4d([seed as u32, (seed >> 32) as u32, step, lane])[0]
}

/// The uniform of step `step` (0 is the request's first sampled token): 24 bits in [0, 1), exact in f32.
pub fn uniform(seed: u64, step: u32) -> f32 {
    (word(seed, step, DRAW_LANE) >> 8) as f32 / (1u32 << 24) as f32
}

/// The 32 random bits of token `id` at step `step`, for [`gumbel`].
pub fn gumbel_bits(seed: u64, step: u32, id: u32) -> u32 {
    word(seed, step, id)
}

/// A standard Gumbel variable from 32 random bits: -ln(E), where E = -ln(1 - v) is exponential and
/// v = (bits + 1/2) / 2^32. E is taken from 1 - v so that small E, which win, keep their relative precision.
pub fn gumbel(bits: u32) -> f64 {
    let v = (f64::from(bits) + 0.5) / 4_294_967_296.0;
    let exponential = -f64::ln_1p(-v);
    -exponential.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniforms_are_uniform_and_gumbels_have_their_mean() {
        let mut bins = [0u32; 16];
        let mut sum = 0.0;
        for seed in 0..4_000u64 {
            for step in 0..4 {
                bins[(uniform(seed, step) * 16.0) as usize] += 1;
                sum += gumbel(gumbel_bits(seed, step, 17));
            }
        }
        // 16,000 draws: 1,000 a bin with a standard deviation of 31; Euler's constant with 1.28 / 126.
        assert!(bins.iter().all(|count| (850..1150).contains(count)), "{bins:?}");
        assert!((sum / 16_000.0 - 0.5772).abs() < 0.05, "{}", sum / 16_000.0);
    }

    #[test]
    fn the_ends_of_the_range_are_finite() {
        assert!((gumbel(0) - 22.87).abs() < 0.01);
        assert!((gumbel(u32::MAX) + 3.13).abs() < 0.01);
    }
}
