// Dot products of a matvec in f32. Same names and signatures as dot_i8.

struct X32 {
    a: mat4x4<f32>,
    b: mat4x4<f32>,
    sums: vec2<f32>, // Σ of a, Σ of b: what the format's offset is multiplied with
    squares: f32,    // Σ x² before the norm's weights: this invocation's share, x_squares gives the whole
}

// Group g of x, whose numbers are (p | q), times the norm's weights.
fn x_normed(g: u32, p: mat4x4<f32>, q: mat4x4<f32>) -> X32 {
    let k = params.norm_at + g * 8u;
    var v: X32;
    v.a = p;
    v.b = q;
    if (NORM == 1u) {
        v.squares = dot(p[0], p[0]) + dot(p[1], p[1]) + dot(p[2], p[2]) + dot(p[3], p[3])
            + dot(q[0], q[0]) + dot(q[1], q[1]) + dot(q[2], q[2]) + dot(q[3], q[3]);
        v.a = mat4x4<f32>(p[0] * norm[k], p[1] * norm[k + 1u], p[2] * norm[k + 2u], p[3] * norm[k + 3u]);
        v.b = mat4x4<f32>(q[0] * norm[k + 4u], q[1] * norm[k + 5u], q[2] * norm[k + 6u], q[3] * norm[k + 7u]);
    }
    let one = vec4<f32>(1.0);
    v.sums = vec2<f32>(
        dot(v.a[0] + v.a[1] + v.a[2] + v.a[3], one),
        dot(v.b[0] + v.b[1] + v.b[2] + v.b[3], one),
    );
    return v;
}

fn dot32(w: W32, v: X32) -> f32 {
    let a = w.q0[0] * v.a[0] + w.q0[1] * v.a[1] + w.q0[2] * v.a[2] + w.q0[3] * v.a[3];
    let b = w.q1[0] * v.b[0] + w.q1[1] * v.b[1] + w.q1[2] * v.b[2] + w.q1[3] * v.b[3];
    return dot(a, w.d0) + dot(b, w.d1) + dot(w.m, v.sums);
}
