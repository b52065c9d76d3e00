// Attention of a chunk of tokens over the KV pool, which kv_append has filled; for CPU adapters: no barrier, no
// workgroup memory.
//
//   att[t, h] = sum over keys j of softmax_j(cap(scale * q[t, h]·k[j])) v[j],   j in first_key(pos + t)..=last_keys(pos + t)
//
// A workgroup takes one query head, an invocation four consecutive queries: what belongs to a query is a component of a
// vec4. It takes keys four at a time, so that a key or value is loaded once for four queries, and queries and outputs once
// for four keys. All invocations walk the same keys, those that any of them sees, so that they load the same address
// at the same time; what a query does not see weighs nothing. Outputs grow in `att` itself.
// Workgroups: y over heads and, slower, queries.
// Measured: twice as fast as one query to an invocation; the GPU's tiles are 2.5 times as slow. With queries and outputs
// in arrays of the invocation lavapipe is a fifth faster, but compiles for 2.5 s (heads of 64) to 39 s (256) instead of 0.3.
// Variants: KV type (kv_f32, kv_f16), sinks (parts/sinks). For GPUs: attention_prefill.

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;            // done, pos, n_tokens, …
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;        // (T, q | k | v), q normed and rotated
@group(0) @binding(3) var<storage, read> kv: array<Kv4>;               // (blocks, K | V, n_kv_heads, 32, head_dim)
@group(0) @binding(4) var<storage, read> blocks: array<u32>;           // logical to physical block
@group(0) @binding(5) var<storage, read_write> att: array<vec4<f32>>;  // (T, n_heads, head_dim)

// From the linker: WG.

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let n_tokens = state[2];
    let workgroup = params.first + id.y;
    let first_token = workgroup / N_HEADS * 4u * WG;
    if (state[0] != 0u || first_token >= n_tokens) {
        return;
    }
    let head = workgroup % N_HEADS;
    let kv_head = head / GROUP;
    let mine = first_token + 4u * i;
    if (mine >= n_tokens) {
        return;
    }
    // A query beyond the chunk repeats the last one: both load before either stores, the same numbers.
    let tokens = min(mine + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(n_tokens - 1u));
    let q_at = tokens * QKV4 + head * D4;
    let o_at = (tokens * N_HEADS + head) * D4;
    let pos = state[1] + tokens;
    let first = vec4<u32>(first_key(pos.x), first_key(pos.y), first_key(pos.z), first_key(pos.w));
    let last = last_keys(pos, state[1] + n_tokens);

    for (var d = 0u; d < params.d4; d++) {
        att[o_at.x + d] = vec4<f32>();
        att[o_at.y + d] = vec4<f32>();
        att[o_at.z + d] = vec4<f32>();
        att[o_at.w + d] = vec4<f32>();
    }
    var top = vec4<f32>(NEVER);
    var total = vec4<f32>();
    let end = last_keys(vec4<u32>(state[1] + min(first_token + 4u * WG, n_tokens) - 1u), state[1] + n_tokens).x + 1u;
    for (var key = first_key(state[1] + first_token) & ~3u; key < end; key += 4u) {
        let row = key_row(blocks[key / KV_BLOCK], kv_head, key % KV_BLOCK);
        var s0 = vec4<f32>();
        var s1 = vec4<f32>();
        var s2 = vec4<f32>();
        var s3 = vec4<f32>();
        for (var d = 0u; d < params.d4; d++) {
            let q0 = qkv[q_at.x + d];
            let q1 = qkv[q_at.y + d];
            let q2 = qkv[q_at.z + d];
            let q3 = qkv[q_at.w + d];
            let k0 = kv_unpack(kv[row + d]);
            let k1 = kv_unpack(kv[row + D4 + d]);
            let k2 = kv_unpack(kv[row + 2u * D4 + d]);
            let k3 = kv_unpack(kv[row + 3u * D4 + d]);
            s0 += vec4<f32>(dot(q0, k0), dot(q1, k0), dot(q2, k0), dot(q3, k0));
            s1 += vec4<f32>(dot(q0, k1), dot(q1, k1), dot(q2, k1), dot(q3, k1));
            s2 += vec4<f32>(dot(q0, k2), dot(q1, k2), dot(q2, k2), dot(q3, k2));
            s3 += vec4<f32>(dot(q0, k3), dot(q1, k3), dot(q2, k3), dot(q3, k3));
        }
        let never = vec4<f32>(NEVER);
        let none = vec4<f32>();
        let key0 = vec4<u32>(key);
        let seen0 = (key0 >= first) & (key0 <= last);
        let seen1 = (key0 + 1u >= first) & (key0 + 1u <= last);
        let seen2 = (key0 + 2u >= first) & (key0 + 2u <= last);
        let seen3 = (key0 + 3u >= first) & (key0 + 3u <= last);
        s0 = select(never, capped4(params.scale * s0), seen0);
        s1 = select(never, capped4(params.scale * s1), seen1);
        s2 = select(never, capped4(params.scale * s2), seen2);
        s3 = select(never, capped4(params.scale * s3), seen3);
        let higher = max(top, max(max(s0, s1), max(s2, s3)));
        let fade = exp(top - higher);
        // Before a query's first key `higher` is still NEVER, and the difference 0.
        s0 = select(none, exp(s0 - higher), seen0);
        s1 = select(none, exp(s1 - higher), seen1);
        s2 = select(none, exp(s2 - higher), seen2);
        s3 = select(none, exp(s3 - higher), seen3);
        top = higher;
        total = total * fade + s0 + s1 + s2 + s3;
        let v = row + V_OFFSET;
        for (var d = 0u; d < params.d4; d++) {
            let v0 = kv_unpack(kv[v + d]);
            let v1 = kv_unpack(kv[v + D4 + d]);
            let v2 = kv_unpack(kv[v + 2u * D4 + d]);
            let v3 = kv_unpack(kv[v + 3u * D4 + d]);
            let o0 = att[o_at.x + d] * fade.x + s0.x * v0 + s1.x * v1 + s2.x * v2 + s3.x * v3;
            let o1 = att[o_at.y + d] * fade.y + s0.y * v0 + s1.y * v1 + s2.y * v2 + s3.y * v3;
            let o2 = att[o_at.z + d] * fade.z + s0.z * v0 + s1.z * v1 + s2.z * v2 + s3.z * v3;
            let o3 = att[o_at.w + d] * fade.w + s0.w * v0 + s1.w * v1 + s2.w * v2 + s3.w * v3;
            att[o_at.x + d] = o0;
            att[o_at.y + d] = o1;
            att[o_at.z + d] = o2;
            att[o_at.w + d] = o3;
        }
    }
    total = with_sinks(total, top, vec4<u32>(head));
    for (var d = 0u; d < params.d4; d++) {
        let o0 = att[o_at.x + d] / total.x;
        let o1 = att[o_at.y + d] / total.y;
        let o2 = att[o_at.z + d] / total.z;
        let o3 = att[o_at.w + d] / total.w;
        att[o_at.x + d] = o0;
        att[o_at.y + d] = o1;
        att[o_at.z + d] = o2;
        att[o_at.w + d] = o3;
    }
}
