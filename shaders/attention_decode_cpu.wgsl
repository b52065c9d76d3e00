// Attention of one new token, for CPU adapters: no barrier, no workgroup memory.
//
//   att[h] = sum over keys j of softmax_j(cap(scale * q[h]·k[j])) v[j],   j in first_key(pos)..=pos
//
// A workgroup takes HEADS query heads of one kv head, an invocation one head and SLICE4 vec4 of its output. Each
// invocation computes all scores of its head again: that costs more arithmetic than sharing them would, but invocations
// of a workgroup read the same keys at the same time, which these adapters load once. The new key and value come
// from `qkv` (rounded as the pool would), for an invocation of another workgroup may not have stored them yet; the
// invocations of a kv head's first query head store them.
// Variants: KV type (kv_f32, kv_f16). The workgroup's twin for GPUs is attention_decode.wgsl.

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;            // done, pos, …
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;        // (q | k | v)
@group(0) @binding(3) var<storage, read_write> kv: array<Kv4>;         // (blocks, K | V, n_kv_heads, 32, head_dim)
@group(0) @binding(4) var<storage, read> blocks: array<u32>;           // logical to physical block
@group(0) @binding(5) var<storage, read_write> att: array<vec4<f32>>;  // (n_heads, head_dim)
@group(0) @binding(6) var<storage, read> rope_table: array<vec2<f32>>; // (context, rot_dim / 2)
@group(0) @binding(7) var<storage, read> qk_norm: array<vec4<f32>>;    // (q | k, head_dim)

const SLICES: u32 = D4 / SLICE4;

fn head_factor(head: u32) -> f32 {
    var sum = 0.0;
    if (QK_NORM != 0u) {
        for (var d = 0u; d < D4; d++) {
            let x = qkv[head + d];
            sum += dot(x, x);
        }
    }
    return norm_factor(sum);
}

@compute @workgroup_size(HEADS * SLICES)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    if (state[0] != 0u) {
        return;
    }
    let pos = state[1];
    let first_head = workgroup.x * HEADS;
    let kv_head = first_head / GROUP;
    let head = first_head + i / SLICES;
    let slice = (i % SLICES) * SLICE4;
    let k_at = (N_HEADS + kv_head) * D4;
    let v_at = k_at + N_KV_HEADS * D4;
    let k_factor = head_factor(k_at);
    let q_factor = head_factor(head * D4);

    var q: array<vec4<f32>, D4>;
    var score = 0.0;
    for (var d = 0u; d < D4; d++) {
        q[d] = rotated4(head * D4, 0u, q_factor, d, pos) * params.scale;
        score += dot(q[d], kv_unpack(kv_pack(rotated4(k_at, D4, k_factor, d, pos))));
    }
    let new_row = key_row(blocks[pos / KV_BLOCK], kv_head, pos % KV_BLOCK);
    var top = capped4(vec4<f32>(score)).x;
    var total = 1.0;
    var out: array<vec4<f32>, SLICE4>;
    for (var n = 0u; n < SLICE4; n++) {
        let v = kv_pack(qkv[v_at + slice + n]);
        out[n] = kv_unpack(v);
        if (head % GROUP == 0u) {
            kv[new_row + slice + n] = kv_pack(rotated4(k_at, D4, k_factor, slice + n, pos));
            kv[new_row + V_OFFSET + slice + n] = v;
        }
    }

    // Four keys at a time, which lie in one block; those out of sight weigh nothing.
    let first = first_key(pos);
    for (var key = first & ~3u; key < pos; key += 4u) {
        let row = key_row(blocks[key / KV_BLOCK], kv_head, key % KV_BLOCK);
        var s = vec4<f32>();
        for (var d = 0u; d < D4; d++) {
            s += vec4<f32>(
                dot(q[d], kv_unpack(kv[row + d])),
                dot(q[d], kv_unpack(kv[row + D4 + d])),
                dot(q[d], kv_unpack(kv[row + 2u * D4 + d])),
                dot(q[d], kv_unpack(kv[row + 3u * D4 + d])),
            );
        }
        let keys = key + vec4<u32>(0u, 1u, 2u, 3u);
        let seen = (keys >= vec4<u32>(first)) & (keys < vec4<u32>(pos));
        s = select(vec4<f32>(NEVER), capped4(s), seen);
        let higher = max(top, max(max(s.x, s.y), max(s.z, s.w)));
        let fade = exp(top - higher);
        let p = exp(s - higher);
        top = higher;
        total = total * fade + p.x + p.y + p.z + p.w;
        for (var n = 0u; n < SLICE4; n++) {
            let v = row + V_OFFSET + slice + n;
            out[n] = out[n] * fade + p.x * kv_unpack(kv[v]) + p.y * kv_unpack(kv[v + D4])
                + p.z * kv_unpack(kv[v + 2u * D4]) + p.w * kv_unpack(kv[v + 3u * D4]);
        }
    }
    for (var n = 0u; n < SLICE4; n++) {
        att[head * D4 + slice + n] = out[n] / total;
    }
}
