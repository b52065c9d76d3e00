// A matvec's input where all invocations want the same group of x: the four of a quad load and norm two vec4 each and show them
// to one another. A SIMD CPU makes every lane's load on its own: with this a matvec on SwiftShader takes half the time.
// Must be called in uniform control flow, with the same g. Same signatures as x_each.

fn x_lane() -> u32 {
    return subgroupExclusiveAdd(1u) & 3u;
}

fn x_quad_sum(v: vec2<f32>) -> vec2<f32> {
    let pair = v + quadSwapX(v);
    return pair + quadSwapY(pair);
}

fn load_x(g: u32, lane: u32) -> X32 {
    let k = params.norm_at + g * 8u + lane;
    let at = x_start(g) + lane;
    var p = x[at];
    var q = x[at + 4u];
    var v: X32;
    if (NORM == 1u) {
        v.squares = dot(p, p) + dot(q, q);
        p *= norm[k];
        q *= norm[k + 4u];
    }
    v.a = mat4x4<f32>(quadBroadcast(p, 0u), quadBroadcast(p, 1u), quadBroadcast(p, 2u), quadBroadcast(p, 3u));
    v.b = mat4x4<f32>(quadBroadcast(q, 0u), quadBroadcast(q, 1u), quadBroadcast(q, 2u), quadBroadcast(q, 3u));
    let one = vec4<f32>(1.0);
    v.sums = x_quad_sum(vec2<f32>(dot(p, one), dot(q, one)));
    return v;
}

fn x_squares(share: f32) -> f32 {
    return x_quad_sum(vec2<f32>(share)).x;
}
