// 32 consecutive activations of one token, which a whole workgroup needs: every invocation loads them itself.
// `x: array<vec4<f32>>` is declared by the kernel. Same signatures as x32_quad.

struct X32 { a: mat4x4<f32>, b: mat4x4<f32> }

fn x32_lane() -> u32 {
    return 0u;
}

fn x32_load(at: u32, lane: u32) -> X32 {
    return X32(
        mat4x4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]),
        mat4x4<f32>(x[at + 4u], x[at + 5u], x[at + 6u], x[at + 7u]),
    );
}
