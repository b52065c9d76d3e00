// RMS norm for adapters of type CPU: an invocation a token, so no barrier. See parts/norm_core for the formula.
// Measured with 640 columns: 20 us for one token on lavapipe, 29 us on SwiftShader, and 2 to 6 us each for 64, a hundredth
// of the matmul behind it; the workgroup variant takes 4 to 100 times as long there.
// Four sums side by side, since one sum of 600 to 8,000 squares would lose half a digit more.

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let t = id.x * WG + i;
    if (t >= pass_tokens()) {
        return;
    }
    let row = t * params.vec4s;
    var squares = vec4<f32>();
    for (var k = 0u; k < params.vec4s; k++) {
        squares += a[row + k] * a[row + k];
    }
    let scale = factor(dot(squares, vec4<f32>(1.0)));
    for (var k = 0u; k < params.vec4s; k++) {
        put(row, k, scale);
    }
}
