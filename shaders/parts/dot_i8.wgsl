// Dot products of a matvec in packed bytes, for `precision: "fast"`: x is rounded when it is loaded (parts/weights_i8). Same names and
// signatures as dot_f32.

struct X32 {
    a: vec4<u32>,    // the first sixteen, as signed bytes
    b: vec4<u32>,
    scale: f32,      // of both
    sums: vec2<f32>, // Σ of a's bytes, Σ of b's: what the format's offset is multiplied with
    squares: f32,    // Σ x² before the norm's weights and before rounding: this invocation's share, x_squares gives the whole
}

fn x_packed(q: mat4x4<f32>, factor: f32) -> vec4<u32> {
    return vec4<u32>(
        pack4x8snorm(q[0] * factor),
        pack4x8snorm(q[1] * factor),
        pack4x8snorm(q[2] * factor),
        pack4x8snorm(q[3] * factor),
    );
}

// The largest magnitude in each component.
fn x_top(q: mat4x4<f32>) -> vec4<f32> {
    return max(max(abs(q[0]), abs(q[1])), max(abs(q[2]), abs(q[3])));
}

// Group g of x, whose numbers are (p | q), times the norm's weights.
fn x_normed(g: u32, p: mat4x4<f32>, q: mat4x4<f32>) -> X32 {
    let k = params.norm_at + g * 8u;
    var v: X32;
    var a = p;
    var b = q;
    if (NORM == 1u) {
        v.squares = dot(p[0], p[0]) + dot(p[1], p[1]) + dot(p[2], p[2]) + dot(p[3], p[3])
            + dot(q[0], q[0]) + dot(q[1], q[1]) + dot(q[2], q[2]) + dot(q[3], q[3]);
        a = mat4x4<f32>(p[0] * norm[k], p[1] * norm[k + 1u], p[2] * norm[k + 2u], p[3] * norm[k + 3u]);
        b = mat4x4<f32>(q[0] * norm[k + 4u], q[1] * norm[k + 5u], q[2] * norm[k + 6u], q[3] * norm[k + 7u]);
    }
    let tops = max(x_top(a), x_top(b));
    let top = max(max(tops.x, tops.y), max(tops.z, tops.w));
    v.a = x_packed(a, weights_x_factor(top));
    v.b = x_packed(b, weights_x_factor(top));
    v.scale = weights_x_scale(top);
    v.sums = vec2<f32>(vec2<i32>(weights_sum(v.a), weights_sum(v.b)));
    return v;
}

fn dot32(w: W32, v: X32) -> f32 {
    let dots = vec2<f32>(vec2<i32>(weights_dot(w.q0, v.a), weights_dot(w.q1, v.b)));
    return v.scale * (dot(w.d, dots) + dot(w.m, v.sums));
}
