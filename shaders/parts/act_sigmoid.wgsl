// The sigmoid, which gates what attention or a shared expert gives.
fn activate(x: f32) -> f32 {
    // Without the bound exp overflows below -88, and WGSL promises nothing about infinities.
    return 1.0 / (1.0 + exp(min(-x, 80.0)));
}

fn gated(gate: f32, up: f32) -> f32 {
    return activate(gate) * up;
}
