// 32 consecutive activations of one token, which a whole workgroup needs: the invocations of a quad load two vec4
// each and show them to one another. A CPU adapter makes every load of a lane on its own, so this loads 2 where 8 are
// needed. Must be called in uniform control flow, with the same `at`.
// `x: array<vec4<f32>>` is declared by the kernel. Same signatures as x32_each.

struct X32 { a: mat4x4<f32>, b: mat4x4<f32> }

fn x32_lane() -> u32 {
    return subgroupExclusiveAdd(1u) & 3u;
}

fn x32_load(at: u32, lane: u32) -> X32 {
    let v = x[at + lane];
    let w = x[at + 4u + lane];
    return X32(
        mat4x4<f32>(quadBroadcast(v, 0u), quadBroadcast(v, 1u), quadBroadcast(v, 2u), quadBroadcast(v, 3u)),
        mat4x4<f32>(quadBroadcast(w, 0u), quadBroadcast(w, 1u), quadBroadcast(w, 2u), quadBroadcast(w, 3u)),
    );
}
