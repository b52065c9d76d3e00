// A matvec's input: every invocation loads a group of x itself. Same signatures as x_quad.

fn x_lane() -> u32 {
    return 0u;
}

fn load_x(g: u32, lane: u32) -> X32 {
    let k = g * 8u;
    let at = x_start(g);
    var v: X32;
    v.a = mat4x4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
    v.b = mat4x4<f32>(x[at + 4u], x[at + 5u], x[at + 6u], x[at + 7u]);
    if (NORM == 1u) {
        v.squares = dot(v.a[0], v.a[0]) + dot(v.a[1], v.a[1]) + dot(v.a[2], v.a[2]) + dot(v.a[3], v.a[3])
            + dot(v.b[0], v.b[0]) + dot(v.b[1], v.b[1]) + dot(v.b[2], v.b[2]) + dot(v.b[3], v.b[3]);
        v.a = mat4x4<f32>(v.a[0] * norm[k], v.a[1] * norm[k + 1u], v.a[2] * norm[k + 2u], v.a[3] * norm[k + 3u]);
        v.b = mat4x4<f32>(v.b[0] * norm[k + 4u], v.b[1] * norm[k + 5u], v.b[2] * norm[k + 6u], v.b[3] * norm[k + 7u]);
    }
    let one = vec4<f32>(1.0);
    v.sums = vec2<f32>(
        dot(v.a[0] + v.a[1] + v.a[2] + v.a[3], one),
        dot(v.b[0] + v.b[1] + v.b[2] + v.b[3], one),
    );
    return v;
}

fn x_squares(share: f32) -> f32 {
    return share;
}
