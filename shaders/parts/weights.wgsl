// Weights in their quantised form. `weights: array<vec4<u32>>` is declared by the kernel. A matrix is rows of `cols`
// weights; a row is a whole number of vec4<u32>, one to three 16-byte-aligned streams one after another.

// 32 consecutive weights of a row: w[i] = d[i / 16] * q[i] + m[i / 16]. q0 holds weights 0..16 (column j: 4j..4j+4), q1 16..32.
struct W32 {
    q0: mat4x4<f32>,
    q1: mat4x4<f32>,
    d: vec2<f32>,
    m: vec2<f32>,
}
