// RMS norm and LayerNorm for adapters of type CPU: an invocation a token, so no barrier. See parts/norm_core for the formulas.
// Measured with 640 columns: 20 us for one token on lavapipe, 29 us on SwiftShader, and 2 to 6 us each for 64, a hundredth
// of the matmul behind it; the workgroup variant takes 4 to 100 times as long there.
// Four sums side by side, since one sum of 600 to 8,000 squares would lose half a digit more.

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let t = id.x * WG + i;
    if (t >= pass_tokens()) {
        return;
    }
    let one = vec4<f32>(1.0);
    var centre = 0.0;
    if (LAYER == 1u) {
        var sums = vec4<f32>();
        for (var k = 0u; k < params.vec4s; k++) {
            sums += input(t, k);
        }
        centre = mean(dot(sums, one));
    }
    var squares = vec4<f32>();
    for (var k = 0u; k < params.vec4s; k++) {
        let v = input(t, k) - centre;
        squares += v * v;
    }
    let scale = factor(dot(squares, one));
    for (var k = 0u; k < params.vec4s; k++) {
        put(t, k, centre, scale);
    }
}
