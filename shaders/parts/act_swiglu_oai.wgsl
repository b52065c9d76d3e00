// gpt-oss's gate: min(gate, 7) * sigmoid(1.702 * min(gate, 7)) * (clamp(up, -7, 7) + 1).
fn activate(x: f32) -> f32 {
    let gate = min(x, 7.0);
    // Without the bound exp overflows, and WGSL promises nothing about infinities.
    return gate / (1.0 + exp(min(-1.702 * gate, 80.0)));
}

fn gated(gate: f32, up: f32) -> f32 {
    return activate(gate) * (clamp(up, -7.0, 7.0) + 1.0);
}
