// GELU by its tanh approximation: x/2 * (1 + tanh(u)) with u = sqrt(2/pi) * (x + 0.044715 x^3).
// It is written as x * sigmoid(2u), which is the same: 1 + tanh(u) loses its digits for negative u, and WGSL lets tanh be
// off by 1e-5. u is bounded, since beyond 15 nothing changes and far beyond it tanh or exp may give NaN or infinity.
fn activate(x: f32) -> f32 {
    let u = clamp(0.7978845608028654 * (x + 0.044715 * x * x * x), -15.0, 15.0);
    return x / (1.0 + exp(-2.0 * u));
}

fn gated(gate: f32, up: f32) -> f32 {
    return activate(gate) * up;
}
