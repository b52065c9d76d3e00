// SiLU: x * sigmoid(x).
fn activate(x: f32) -> f32 {
    // Without the bound exp overflows below -88, and WGSL promises nothing about infinities.
    return x / (1.0 + exp(min(-x, 80.0)));
}

fn gated(gate: f32, up: f32) -> f32 {
    return activate(gate) * up;
}
