// RMS norm and LayerNorm on a GPU: a workgroup a token, its invocations share the columns, each its own ones throughout, so
// that a row may be normed in place. See parts/norm_core for the formulas.

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let t = id.x;
    if (t >= pass_tokens()) {
        return;
    }
    var centre = 0.0;
    if (LAYER == 1u) {
        var sum = 0.0;
        for (var k = i; k < params.vec4s; k += WG) {
            sum += dot(input(t, k), vec4<f32>(1.0));
        }
        centre = mean(reduce_sum(sum, i));
    }
    var squares = 0.0;
    for (var k = i; k < params.vec4s; k += WG) {
        let v = input(t, k) - centre;
        squares += dot(v, v);
    }
    let scale = factor(reduce_sum(squares, i));
    for (var k = i; k < params.vec4s; k += WG) {
        put(t, k, centre, scale);
    }
}
