// Causal attention of a chunk of tokens over the KV pool, which kv_append has filled; for CPU adapters: no barrier, no
// workgroup memory.
//
//   att[t, h] = sum over keys j of softmax_j(cap(scale * q[t, h]·k[j])) v[j],   j in first_key(pos + t)..=pos + t
//
// A workgroup takes one query head and WG consecutive queries, an invocation one query. All invocations walk the
// same keys, those that any of them sees, so that a CPU adapter loads each key and value once for all its lanes; what
// a query does not see weighs nothing. Queries and sums live in the invocation.
// Variants: KV type (kv_f32, kv_f16). The twin for GPUs is attention_prefill.wgsl.

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;            // done, pos, n_tokens, …
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;        // (T, q | k | v), q normed and rotated
@group(0) @binding(3) var<storage, read> kv: array<Kv4>;               // (blocks, K | V, n_kv_heads, 32, head_dim)
@group(0) @binding(4) var<storage, read> blocks: array<u32>;           // logical to physical block
@group(0) @binding(5) var<storage, read_write> att: array<vec4<f32>>;  // (T, n_heads, head_dim)

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let n_tokens = state[2];
    let first_token = workgroup.y * WG;
    if (state[0] != 0u || first_token >= n_tokens) {
        return;
    }
    let head = workgroup.x;
    let kv_head = head / GROUP;
    let last_token = min(first_token + WG, n_tokens) - 1u;
    let token = min(first_token + i, last_token); // a surplus invocation follows the last token and keeps still
    let pos = state[1] + token;
    let first = first_key(pos);

    var q: array<vec4<f32>, D4>;
    var out: array<vec4<f32>, D4>;
    for (var d = 0u; d < D4; d++) {
        q[d] = qkv[token * QKV4 + head * D4 + d] * params.scale;
        out[d] = vec4<f32>();
    }
    var top = NEVER;
    var total = 0.0;
    let end = state[1] + last_token + 1u;
    for (var key = first_key(state[1] + first_token) & ~3u; key < end; key += 4u) {
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
        let seen = (keys >= vec4<u32>(first)) & (keys <= vec4<u32>(pos));
        s = select(vec4<f32>(NEVER), capped4(s), seen);
        let higher = max(top, max(max(s.x, s.y), max(s.z, s.w)));
        let fade = exp(top - higher);
        let p = select(vec4<f32>(), exp(s - higher), seen); // before a query's first key `higher` is still NEVER
        top = higher;
        total = total * fade + p.x + p.y + p.z + p.w;
        let v = row + V_OFFSET;
        for (var d = 0u; d < D4; d++) {
            out[d] = out[d] * fade + p.x * kv_unpack(kv[v + d]) + p.y * kv_unpack(kv[v + D4 + d])
                + p.z * kv_unpack(kv[v + 2u * D4 + d]) + p.w * kv_unpack(kv[v + 3u * D4 + d]);
        }
    }
    if (first_token + i > last_token) {
        return;
    }
    for (var d = 0u; d < D4; d++) {
        att[(token * N_HEADS + head) * D4 + d] = out[d] / total;
    }
}
