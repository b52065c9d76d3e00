// RMS norm for adapters of type CPU: an invocation a token, so no barrier. See parts/norm_core for the formula.
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
