// Attention of one new token, for CPU adapters.
//
//   att[h] = sum over keys j of softmax_j(cap(scale * q[h]·k[j])) v[j],   j in first_key(pos)..=pos
//
// A workgroup takes one kv head, up to four of the query heads that share it, and one split of the keys. An invocation
// takes every WG-th run of eight keys, for all those heads: what belongs to a head is a component of a vec4. It keeps its
// own maximum, total and output; only at the end do they meet. The new key and value come from `qkv`: in their split the first
// invocation begins with them. Splits: see attention_decode.
//
// Here barriers pay. The obvious kernel without any, an invocation per head and slice of the output, computes every
// score once a slice: for SmolLM2 at position 1000 its 30 layers took 139 ms of CPU time on lavapipe and 538 ms on
// SwiftShader, this takes 18 and 77. Few workgroups meet few barriers, unlike in a matvec. But workgroup memory is kept
// small: SwiftShader compiles its zeroing word by word, which took 4 s for 7 KiB.
// The longer a run, the less often queries are loaded and outputs loaded and stored, most of the time where each lane
// loads on its own: at position 2000 those 30 layers take 99 ms of CPU time on SwiftShader and 24 on lavapipe in runs of eight,
// 156 and 28 in runs of four. Runs of sixteen take lavapipe 21, but SwiftShader does not finish compiling them.
// Variants: KV type (kv_f32, kv_f16), rotation (parts/rope_*), sinks (parts/sinks, where there is nothing to merge). For GPUs: attention_decode.

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;            // done, pos, …
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;        // (q | k | v)
@group(0) @binding(3) var<storage, read_write> kv: array<Kv4>;         // (blocks, K | V, n_kv_heads, 32, head_dim)
@group(0) @binding(4) var<storage, read> blocks: array<u32>;           // logical to physical block
@group(0) @binding(5) var<storage, read_write> att: array<vec4<f32>>;  // (n_heads, head_dim), or parts (attention_reduce)
@group(0) @binding(6) var<storage, read> rope_table: array<vec2<f32>>; // (context, rot_dim / 2)
@group(0) @binding(7) var<storage, read> qk_norm: array<vec4<f32>>;    // (q | k, head_dim)

// From the linker: HEADS, query heads of a workgroup (1 to 4); WG; PARTIAL.
const CHUNKS: u32 = (GROUP + HEADS - 1u) / HEADS; // workgroups of a kv head

var<workgroup> made: array<vec4<f32>, (HEADS + 1u) * D4>; // the queries, scaled, and the new key
var<workgroup> tops: array<vec4<f32>, WG>;
var<workgroup> totals: array<vec4<f32>, WG>;
var<workgroup> outs: array<vec4<f32>, WG * D4>;           // of one head

fn head_factor(head: u32) -> f32 {
    var sum = 0.0;
    if (QK_NORM != 0u) {
        for (var d = 0u; d < params.d4; d++) {
            let x = qkv[head + d];
            sum += dot(x, x);
        }
    }
    return norm_factor(sum);
}

// Four numbers of each head's query.
struct Queries { q0: vec4<f32>, q1: vec4<f32>, q2: vec4<f32>, q3: vec4<f32> }

fn queries(d: u32) -> Queries {
    var q: Queries;
    q.q0 = made[d];
    if (HEADS > 1u) {
        q.q1 = made[D4 + d];
    }
    if (HEADS > 2u) {
        q.q2 = made[2u * D4 + d];
    }
    if (HEADS > 3u) {
        q.q3 = made[3u * D4 + d];
    }
    return q;
}

fn dots4(q: Queries, k: vec4<f32>) -> vec4<f32> {
    var s = vec4<f32>(dot(q.q0, k), 0.0, 0.0, 0.0);
    if (HEADS > 1u) {
        s.y = dot(q.q1, k);
    }
    if (HEADS > 2u) {
        s.z = dot(q.q2, k);
    }
    if (HEADS > 3u) {
        s.w = dot(q.q3, k);
    }
    return s;
}

// The scores of the four keys from `key` on, whose dot products are s.
fn seen4(s: mat4x4<f32>, key: u32, first: u32, end: u32) -> mat4x4<f32> {
    let never = vec4<f32>(NEVER);
    return mat4x4<f32>(
        select(never, capped4(s[0]), vec4<bool>(key >= first && key < end)),
        select(never, capped4(s[1]), vec4<bool>(key + 1u >= first && key + 1u < end)),
        select(never, capped4(s[2]), vec4<bool>(key + 2u >= first && key + 2u < end)),
        select(never, capped4(s[3]), vec4<bool>(key + 3u >= first && key + 3u < end)),
    );
}

fn max4(s: mat4x4<f32>) -> vec4<f32> {
    return max(max(s[0], s[1]), max(s[2], s[3]));
}

fn exp4(s: mat4x4<f32>, top: vec4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(exp(s[0] - top), exp(s[1] - top), exp(s[2] - top), exp(s[3] - top));
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    if (state[0] != 0u) {
        return;
    }
    let pos = state[1];
    let split = workgroup.y;
    if (split > last_split(pos)) {
        return;
    }
    let has_new = split == last_split(pos);
    let kv_head = workgroup.x / CHUNKS;
    let chunk = workgroup.x % CHUNKS;
    let first_head = kv_head * GROUP + chunk * HEADS;
    let heads = min(HEADS, GROUP - chunk * HEADS); // a head that the last workgroup lacks repeats its last one
    let v_at = (N_HEADS + N_KV_HEADS + kv_head) * D4;
    let new_row = key_row(blocks[pos / KV_BLOCK], kv_head, pos % KV_BLOCK);
    for (var h = 0u; h <= HEADS; h++) {
        let is_k = h == HEADS;
        let at = select(first_head + min(h, heads - 1u), N_HEADS + kv_head, is_k) * D4;
        let factor = head_factor(at);
        for (var d = i; d < params.d4; d += WG) {
            var x = rotated4(at, select(0u, D4, is_k), factor, d, pos);
            if (is_k) {
                let k = kv_pack(x);
                x = kv_unpack(k); // as later tokens will see it
                if (has_new && chunk == 0u) {
                    kv[new_row + d] = k;
                    kv[new_row + V_OFFSET + d] = kv_pack(qkv[v_at + d]);
                }
            } else {
                x *= params.scale;
            }
            made[h * D4 + d] = x;
        }
    }
    workgroupBarrier();

    var out: array<vec4<f32>, HEADS * D4>;
    var top = vec4<f32>(NEVER);
    var total = vec4<f32>();
    if (has_new && i == 0u) {
        var score = vec4<f32>();
        for (var d = 0u; d < params.d4; d++) {
            score += dots4(queries(d), made[HEADS * D4 + d]);
            let v = kv_unpack(kv_pack(qkv[v_at + d]));
            for (var h = 0u; h < HEADS; h++) {
                out[h * D4 + d] = v;
            }
        }
        top = capped4(score);
        total = vec4<f32>(1.0);
    }
    // Eight keys, which lie in one block. Those out of sight weigh nothing: each run has one in sight, so `higher` is
    // a true score.
    let first = first_key(pos);
    let start = first_block_key(pos) + split * params.span;
    let end = select(start + params.span, pos, has_new);
    for (var key = max(start, first & ~7u) + 8u * i; key < end; key += 8u * WG) {
        let row = key_row(blocks[key / KV_BLOCK], kv_head, key % KV_BLOCK);
        var a = mat4x4<f32>();
        var b = mat4x4<f32>();
        for (var d = 0u; d < params.d4; d++) {
            let q = queries(d);
            let k = row + d;
            a[0] += dots4(q, kv_unpack(kv[k]));
            a[1] += dots4(q, kv_unpack(kv[k + D4]));
            a[2] += dots4(q, kv_unpack(kv[k + 2u * D4]));
            a[3] += dots4(q, kv_unpack(kv[k + 3u * D4]));
            b[0] += dots4(q, kv_unpack(kv[k + 4u * D4]));
            b[1] += dots4(q, kv_unpack(kv[k + 5u * D4]));
            b[2] += dots4(q, kv_unpack(kv[k + 6u * D4]));
            b[3] += dots4(q, kv_unpack(kv[k + 7u * D4]));
        }
        a = seen4(a, key, first, end);
        b = seen4(b, key + 4u, first, end);
        let higher = max(top, max(max4(a), max4(b)));
        let fade = exp(top - higher);
        a = exp4(a, higher);
        b = exp4(b, higher);
        top = higher;
        total = total * fade + a[0] + a[1] + a[2] + a[3] + b[0] + b[1] + b[2] + b[3];
        for (var d = 0u; d < params.d4; d++) {
            let v = row + V_OFFSET + d;
            let v0 = kv_unpack(kv[v]);
            let v1 = kv_unpack(kv[v + D4]);
            let v2 = kv_unpack(kv[v + 2u * D4]);
            let v3 = kv_unpack(kv[v + 3u * D4]);
            let v4 = kv_unpack(kv[v + 4u * D4]);
            let v5 = kv_unpack(kv[v + 5u * D4]);
            let v6 = kv_unpack(kv[v + 6u * D4]);
            let v7 = kv_unpack(kv[v + 7u * D4]);
            out[d] = out[d] * fade.x
                + a[0].x * v0 + a[1].x * v1 + a[2].x * v2 + a[3].x * v3
                + b[0].x * v4 + b[1].x * v5 + b[2].x * v6 + b[3].x * v7;
            if (HEADS > 1u) {
                out[D4 + d] = out[D4 + d] * fade.y
                    + a[0].y * v0 + a[1].y * v1 + a[2].y * v2 + a[3].y * v3
                    + b[0].y * v4 + b[1].y * v5 + b[2].y * v6 + b[3].y * v7;
            }
            if (HEADS > 2u) {
                out[2u * D4 + d] = out[2u * D4 + d] * fade.z
                    + a[0].z * v0 + a[1].z * v1 + a[2].z * v2 + a[3].z * v3
                    + b[0].z * v4 + b[1].z * v5 + b[2].z * v6 + b[3].z * v7;
            }
            if (HEADS > 3u) {
                out[3u * D4 + d] = out[3u * D4 + d] * fade.w
                    + a[0].w * v0 + a[1].w * v1 + a[2].w * v2 + a[3].w * v3
                    + b[0].w * v4 + b[1].w * v5 + b[2].w * v6 + b[3].w * v7;
            }
        }
    }

    // An invocation without keys has the top NEVER, and so no share.
    tops[i] = top;
    totals[i] = total;
    workgroupBarrier();
    var highest = tops[0];
    for (var n = 1u; n < WG; n++) {
        highest = max(highest, tops[n]);
    }
    total = vec4<f32>();
    for (var n = 0u; n < WG; n++) {
        total += totals[n] * exp(tops[n] - highest);
    }
    var share = exp(top - highest);
    var head_stride = D4;
    var at = first_head * D4;
    if (PARTIAL == 0u) {
        share /= with_sinks(total, highest, first_head + min(vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(heads - 1u)));
    } else {
        head_stride = params.splits * (D4 + 1u);
        at = first_head * head_stride + split * (D4 + 1u);
    }
    for (var h = 0u; h < heads; h++) {
        for (var d = 0u; d < params.d4; d++) {
            outs[i * D4 + d] = out[h * D4 + d] * share[h];
        }
        workgroupBarrier();
        for (var d = i; d < params.d4; d += WG) {
            var sum = outs[d];
            for (var n = 1u; n < WG; n++) {
                sum += outs[n * D4 + d];
            }
            att[at + h * head_stride + d] = sum;
        }
        if (PARTIAL != 0u && i == 0u) {
            att[at + h * head_stride + D4] = vec4<f32>(highest[h], total[h], 0.0, 0.0);
        }
        workgroupBarrier();
    }
}
