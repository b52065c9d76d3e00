// Makes a chunk's queries and keys ready for attention_prefill: RMS-norms the heads of q and k where the model does
// that, rotates both (RoPE), leaves q where it was, and stores k and v in the KV pool at pos .. pos + n_tokens.
//
// An item is one head of one token (x: q heads, then k, then v; y: token). Variants: KV type (kv_f32, kv_f16); who
// does an item: a workgroup (lanes_workgroup, with a reduction for the norm), or on CPU adapters an
// invocation (lanes_one).

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;            // done, pos, n_tokens, …
@group(0) @binding(2) var<storage, read_write> qkv: array<vec4<f32>>;  // (T, q | k | v)
@group(0) @binding(3) var<storage, read_write> kv: array<Kv4>;         // (blocks, K | V, n_kv_heads, 32, head_dim)
@group(0) @binding(4) var<storage, read> blocks: array<u32>;           // logical to physical block
@group(0) @binding(5) var<storage, read> rope_table: array<vec2<f32>>; // (context, rot_dim / 2)
@group(0) @binding(6) var<storage, read> qk_norm: array<vec4<f32>>;    // (q | k, head_dim)

// With at least D4 lanes, each has one vec4.
const PER_LANE: u32 = (D4 + LANES - 1u) / LANES;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let item = lanes_item(workgroup.x, i);
    let lane = lanes_lane(i);
    let token = workgroup.y;
    if (state[0] != 0u || token >= state[2] || item >= N_HEADS + 2u * N_KV_HEADS) {
        return;
    }
    let pos = state[1] + token;
    let head = token * QKV4 + item * D4;
    let is_q = item < N_HEADS;
    let is_v = item >= N_HEADS + N_KV_HEADS;

    var sum = 0.0;
    if (QK_NORM != 0u) {
        for (var d = lane; d < params.d4; d += LANES) {
            let x = qkv[head + d];
            sum += dot(x, x);
        }
        sum = lanes_sum(sum, i);
    }
    let factor = norm_factor(sum);

    // Both numbers of a pair are read before either is overwritten.
    var turned: array<vec4<f32>, PER_LANE>;
    for (var d = lane; d < params.d4; d += LANES) {
        if (is_v) {
            turned[d / LANES] = qkv[head + d];
        } else {
            turned[d / LANES] = rotated4(head, select(D4, 0u, is_q), factor, d, pos);
        }
    }
    lanes_fence();
    let kv_head = (item - N_HEADS) % N_KV_HEADS; // of no meaning for q
    let row = key_row(blocks[pos / KV_BLOCK], kv_head, pos % KV_BLOCK) + select(0u, V_OFFSET, is_v);
    for (var d = lane; d < params.d4; d += LANES) {
        if (is_q) {
            qkv[head + d] = turned[d / LANES];
        } else {
            kv[row + d] = kv_pack(turned[d / LANES]);
        }
    }
}
