// Merges the splits that attention_decode left: of each head, over the splits s that the position reaches,
//
//   att[h] = sum_s exp(top_s - top) out_s / sum_s exp(top_s - top) total_s,   top = max_s top_s
//
// (with a sink one more term below: parts/sinks.)
// An invocation takes one vec4 of one head's output. Its loads wait for nothing, and there is no barrier.

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;           // done, pos, …
@group(0) @binding(2) var<storage, read> parts: array<vec4<f32>>;     // (n_heads, splits, out: D4 | top, total, 0, 0)
@group(0) @binding(3) var<storage, read_write> att: array<vec4<f32>>; // (n_heads, head_dim)

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (state[0] != 0u || id.x >= N_HEADS * D4) {
        return;
    }
    let head = id.x / D4;
    let last = last_split(state[1]);
    var at = head * params.splits * (D4 + 1u);
    var top = NEVER;
    var total = 0.0;
    var sum = vec4<f32>();
    for (var s = 0u; s <= last; s++) {
        let part = parts[at + D4];
        let higher = max(top, part.x);
        let fade = exp(top - higher);
        let w = exp(part.x - higher);
        total = total * fade + part.y * w;
        sum = sum * fade + parts[at + id.x % D4] * w;
        top = higher;
        at += D4 + 1u;
    }
    att[id.x] = sum / with_sinks(vec4<f32>(total), vec4<f32>(top), vec4<u32>(head)).x;
}
