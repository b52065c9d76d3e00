// Attention of a chunk of tokens over the KV pool, which kv_append has filled; for GPUs.
//
//   att[t, h] = sum over keys j of softmax_j(cap(scale * q[t, h]·k[j])) v[j],   j in first_key(pos + t)..=last_keys(pos + t)
//
// A workgroup takes one query head and 32 consecutive queries, and walks the pool in tiles of 32 keys, a tile a
// block, from the first that any of its queries sees to the last (FlashAttention: online softmax, nothing of
// size T x T). An invocation has four queries, a "quad": what belongs to a query is a component of a vec4. In the scores
// it has two keys, in the values one vec4 of each 64 dimensions. Keys, and then values, pass through one tile of
// workgroup memory, 64 dimensions at a time, so that heads of any size fit; queries are read through the cache.
// Workgroups: y over heads and, slower, queries.
// Variants: KV type (kv_f32, kv_f16), sinks (parts/sinks). For CPU adapters: attention_prefill_cpu.

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;            // done, pos, n_tokens, …
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;        // (T, q | k | v), q normed and rotated
@group(0) @binding(3) var<storage, read> kv: array<Kv4>;               // (blocks, K | V, n_kv_heads, 32, head_dim)
@group(0) @binding(4) var<storage, read> blocks: array<u32>;           // logical to physical block
@group(0) @binding(5) var<storage, read_write> att: array<vec4<f32>>;  // (T, n_heads, head_dim)

const WG: u32 = 128u;
const QUERIES: u32 = 32u;
const QUADS: u32 = QUERIES / 4u;
const WIDE: u32 = 16u;                          // vec4 of a key in the tile, and invocations of a quad
const CHUNKS: u32 = (D4 + WIDE - 1u) / WIDE;    // 1 to 4
const STRIDE: u32 = WIDE + 1u;                  // so that neighbouring keys lie in different banks

var<workgroup> tile: array<vec4<f32>, KV_BLOCK * STRIDE>;
var<workgroup> weight: array<vec4<f32>, KV_BLOCK * QUADS>; // (key, query): scores, then weights

// Fills the tile with dimensions 64 * chunk .. of the block's keys or values, whose first starts at `start`.
fn load_tile(start: u32, chunk: u32, i: u32) {
    let lane = i % WIDE;
    let d = chunk * WIDE + lane;
    for (var slot = i / WIDE; slot < KV_BLOCK; slot += WG / WIDE) {
        var x = vec4<f32>();
        if (d < D4) {
            x = kv_unpack(kv[start + slot * D4 + d]);
        }
        tile[slot * STRIDE + lane] = x;
    }
}

// Column n: the output of the quad's query n.
fn faded(out: mat4x4<f32>, fade: vec4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(out[0] * fade.x, out[1] * fade.y, out[2] * fade.z, out[3] * fade.w);
}

fn with_values(out: mat4x4<f32>, lane: u32, quad: u32) -> mat4x4<f32> {
    var o0 = out[0];
    var o1 = out[1];
    var o2 = out[2];
    var o3 = out[3];
    for (var slot = 0u; slot < KV_BLOCK; slot++) {
        let v = tile[slot * STRIDE + lane];
        let w = weight[slot * QUADS + quad];
        o0 += w.x * v;
        o1 += w.y * v;
        o2 += w.z * v;
        o3 += w.w * v;
    }
    return mat4x4<f32>(o0, o1, o2, o3);
}

fn store(out: mat4x4<f32>, total: vec4<f32>, chunk: u32, lane: u32, first: u32, head: u32) {
    let d = chunk * WIDE + lane;
    let n_tokens = state[2];
    if (d >= D4) {
        return;
    }
    let at = (first * N_HEADS + head) * D4 + d;
    let stride = N_HEADS * D4;
    if (first < n_tokens) {
        att[at] = out[0] / total.x;
    }
    if (first + 1u < n_tokens) {
        att[at + stride] = out[1] / total.y;
    }
    if (first + 2u < n_tokens) {
        att[at + 2u * stride] = out[2] / total.z;
    }
    if (first + 3u < n_tokens) {
        att[at + 3u * stride] = out[3] / total.w;
    }
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let n_tokens = state[2];
    let workgroup = params.first + id.y;
    let first_token = workgroup / N_HEADS * QUERIES;
    if (state[0] != 0u || first_token >= n_tokens) {
        return;
    }
    let head = workgroup % N_HEADS;
    let kv_head = head / GROUP;
    let lane = i % WIDE;
    let quad = i / WIDE;
    // A query beyond the chunk follows the last one and is not stored.
    let tokens = min(first_token + 4u * quad + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(n_tokens - 1u));
    let q_at = tokens * QKV4 + head * D4;
    let pos = state[1] + tokens;
    let first = vec4<u32>(first_key(pos.x), first_key(pos.y), first_key(pos.z), first_key(pos.w));
    let last = last_keys(pos, state[1] + n_tokens);

    var top = vec4<f32>(NEVER);
    var total = vec4<f32>();
    var out0 = mat4x4<f32>();
    var out1 = mat4x4<f32>();
    var out2 = mat4x4<f32>();
    var out3 = mat4x4<f32>();
    let first_block = first_key(state[1] + first_token) / KV_BLOCK;
    let last_block = last_keys(vec4<u32>(state[1] + min(first_token + QUERIES, n_tokens) - 1u), state[1] + n_tokens).x / KV_BLOCK;
    for (var block = first_block; block <= last_block; block++) {
        let keys = key_row(blocks[block], kv_head, 0u);
        var s0 = vec4<f32>(); // of key `lane`
        var s1 = vec4<f32>(); // of key `lane + WIDE`
        for (var chunk = 0u; chunk < CHUNKS; chunk++) {
            workgroupBarrier(); // the tile has been used
            load_tile(keys, chunk, i);
            workgroupBarrier();
            let start = chunk * WIDE;
            let wide = min(WIDE, D4 - start);
            for (var n = 0u; n < wide; n++) {
                let q0 = qkv[q_at.x + start + n];
                let q1 = qkv[q_at.y + start + n];
                let q2 = qkv[q_at.z + start + n];
                let q3 = qkv[q_at.w + start + n];
                let k0 = tile[lane * STRIDE + n];
                let k1 = tile[(lane + WIDE) * STRIDE + n];
                s0 += vec4<f32>(dot(q0, k0), dot(q1, k0), dot(q2, k0), dot(q3, k0));
                s1 += vec4<f32>(dot(q0, k1), dot(q1, k1), dot(q2, k1), dot(q3, k1));
            }
        }
        let key0 = vec4<u32>(block * KV_BLOCK + lane);
        let key1 = key0 + WIDE;
        let seen0 = (key0 >= first) & (key0 <= last);
        let seen1 = (key1 >= first) & (key1 <= last);
        s0 = select(vec4<f32>(NEVER), capped4(s0 * params.scale), seen0);
        s1 = select(vec4<f32>(NEVER), capped4(s1 * params.scale), seen1);
        weight[lane * QUADS + quad] = s0;
        weight[(lane + WIDE) * QUADS + quad] = s1;
        workgroupBarrier();
        load_tile(keys + V_OFFSET, 0u, i);
        var higher = top;
        for (var slot = 0u; slot < KV_BLOCK; slot++) {
            higher = max(higher, weight[slot * QUADS + quad]);
        }
        workgroupBarrier(); // the scores have been read
        // Before a query's first key `higher` is still NEVER, and the difference 0.
        weight[lane * QUADS + quad] = select(vec4<f32>(), exp(s0 - higher), seen0);
        weight[(lane + WIDE) * QUADS + quad] = select(vec4<f32>(), exp(s1 - higher), seen1);
        workgroupBarrier();
        let fade = exp(top - higher);
        top = higher;
        total *= fade;
        for (var slot = 0u; slot < KV_BLOCK; slot++) {
            total += weight[slot * QUADS + quad];
        }
        out0 = with_values(faded(out0, fade), lane, quad);
        if (CHUNKS > 1u) {
            workgroupBarrier();
            load_tile(keys + V_OFFSET, 1u, i);
            workgroupBarrier();
            out1 = with_values(faded(out1, fade), lane, quad);
        }
        if (CHUNKS > 2u) {
            workgroupBarrier();
            load_tile(keys + V_OFFSET, 2u, i);
            workgroupBarrier();
            out2 = with_values(faded(out2, fade), lane, quad);
        }
        if (CHUNKS > 3u) {
            workgroupBarrier();
            load_tile(keys + V_OFFSET, 3u, i);
            workgroupBarrier();
            out3 = with_values(faded(out3, fade), lane, quad);
        }
    }
    total = with_sinks(total, top, vec4<u32>(head));
    let first_of_quad = first_token + 4u * quad;
    store(out0, total, 0u, lane, first_of_quad, head);
    if (CHUNKS > 1u) {
        store(out1, total, 1u, lane, first_of_quad, head);
    }
    if (CHUNKS > 2u) {
        store(out2, total, 2u, lane, first_of_quad, head);
    }
    if (CHUNKS > 3u) {
        store(out3, total, 3u, lane, first_of_quad, head);
    }
}
