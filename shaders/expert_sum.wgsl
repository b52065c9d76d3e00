// What a token's experts gave, each by its weight, onto the residual stream:
//
//   x[t, :] += scale * Σ_s weight[t, s] * given[t, s, :]
//
// An invocation adds four columns of a token. Workgroups: x over columns, y over tokens.

struct Params {
    vec4s: u32,  // in a row of x
    tokens: u32, // the most tokens of a pass
    picks: u32,  // of a token
    pick: u32,   // the first that is meant
    slots: u32,  // how many are meant
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> picks: array<vec2<f32>>;     // [tokens, picks] of (expert, weight)
@group(0) @binding(3) var<storage, read> given: array<vec4<f32>>;     // [tokens, slots, vec4s]
@group(0) @binding(4) var<storage, read_write> x: array<vec4<f32>>;   // [tokens, vec4s]

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let k = id.x * WG + i;
    let t = id.y;
    if (state[STATE_DONE] != 0u || t >= min(params.tokens, state[STATE_N_TOKENS]) || k >= params.vec4s) {
        return;
    }
    var sum = vec4<f32>();
    for (var s = 0u; s < params.slots; s++) {
        sum += picks[t * params.picks + params.pick + s].y * given[(t * params.slots + s) * params.vec4s + k];
    }
    x[t * params.vec4s + k] += params.scale * sum;
}
