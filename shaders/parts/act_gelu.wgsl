// GELU: x * Φ(x), Φ being the normal distribution's. Its tail at -|x|, (1 - erf(z)) / 2 with z = |x| / sqrt(2), is exp(-z²)
// times a polynomial in 1 / (1 + p z) (Abramowitz and Stegun 7.1.26, off by at most 8e-8), and |x| times that tail is what
// is missing from max(x, 0): nothing cancels.
fn activate(x: f32) -> f32 {
    // Beyond 13 the tail is 0 in f32; far beyond it exp's argument would be infinite.
    let z = min(abs(x), 13.0) * 0.7071067811865475;
    let t = 1.0 / (1.0 + 0.3275911 * z);
    let series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    let tail = 0.5 * series * exp(-z * z);
    return max(x, 0.0) - abs(x) * tail;
}

fn gated(gate: f32, up: f32) -> f32 {
    return activate(gate) * up;
}
