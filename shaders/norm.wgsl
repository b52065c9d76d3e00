// RMS norm on a GPU: a workgroup a token, its invocations share the columns. See parts/norm_core for the formula.

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    if (id.x >= pass_tokens()) {
        return;
    }
    let row = id.x * params.vec4s;
    var squares = 0.0;
    for (var k = i; k < params.vec4s; k += WG) {
        squares += dot(a[row + k], a[row + k]);
    }
    let scale = factor(reduce_sum(squares, i));
    for (var k = i; k < params.vec4s; k += WG) {
        put(row, k, scale);
    }
}
