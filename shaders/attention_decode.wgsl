// Attention of one new token, for GPUs.
//
//   att[h] = sum over keys j of softmax_j(cap(scale * q[h]·k[j])) v[j],   j in first_key(pos)..=pos
//
// A workgroup takes one kv head, up to four of the query heads that share it, so that each key and value is loaded
// once for all of them (what belongs to a head is a component of a vec4), and one split of the keys. (Larger groups take several
// workgroups, which meet in the cache; a vec4 needs no register array, and a GPU likes more workgroups.) It
// norms and rotates q and k. The split in which the new key lies stores it and its value, and starts the softmax with it,
// straight from `qkv`. Then the workgroup walks its split of the pool in tiles of WG keys:
//   1. scores: PARTS invocations share a key's dimensions, neighbours loading neighbours
//   2. the tile's maximum, in two steps through workgroup memory: two barriers, as many as with subgroups
//   3. weights, relative to the running maximum (online softmax, Milakov and Gimelshein 2018)
//   4. values: an invocation owns one vec4 of the output and every GROUPS-th key
// With more than one split (PARTIAL = 1) each leaves its part of the sum, which attention_reduce merges. There are splits
// for the longest sequence that the dispatch serves: what the position does not reach returns at once, which is cheaper
// than an indirect dispatch.
// Variants: KV type (kv_f32, kv_f16); reductions (parts/reduce_*); sinks (parts/sinks, where there is nothing to merge). For CPU adapters: attention_decode_cpu.

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;            // done, pos, …
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;        // (q | k | v)
@group(0) @binding(3) var<storage, read_write> kv: array<Kv4>;         // (blocks, K | V, n_kv_heads, 32, head_dim)
@group(0) @binding(4) var<storage, read> blocks: array<u32>;           // logical to physical block
@group(0) @binding(5) var<storage, read_write> att: array<vec4<f32>>;  // (n_heads, head_dim), or parts (attention_reduce)
@group(0) @binding(6) var<storage, read> rope_table: array<vec2<f32>>; // (context, rot_dim / 2)
@group(0) @binding(7) var<storage, read> qk_norm: array<vec4<f32>>;    // (q | k, head_dim)

// From the linker: HEADS, query heads of a workgroup (1 to 4); WG >= D4; PARTIAL.
const CHUNKS: u32 = (GROUP + HEADS - 1u) / HEADS; // workgroups of a kv head
const PARTS: u32 = 4u;
const STRIPS: u32 = 16u;
const GROUPS: u32 = WG / D4;

var<workgroup> query: array<vec4<f32>, 4u * D4>;
var<workgroup> part: array<vec4<f32>, PARTS * WG>; // partial scores; the maxima of strips; at the end partial outputs
var<workgroup> weight: array<vec4<f32>, WG>;       // scores, then weights, of a tile's keys

// Of four heads, of which those beyond HEADS are dead code.
fn dots4(d: u32, k: vec4<f32>) -> vec4<f32> {
    var s = vec4<f32>(dot(query[d], k), 0.0, 0.0, 0.0);
    if (HEADS > 1u) {
        s.y = dot(query[D4 + d], k);
    }
    if (HEADS > 2u) {
        s.z = dot(query[2u * D4 + d], k);
    }
    if (HEADS > 3u) {
        s.w = dot(query[3u * D4 + d], k);
    }
    return s;
}

// Key or, with `offset` V_OFFSET, value of a position: vec4 d of it.
fn pooled(key: u32, kv_head: u32, d: u32, offset: u32) -> vec4<f32> {
    return kv_unpack(kv[key_row(blocks[key / KV_BLOCK], kv_head, key % KV_BLOCK) + offset + d]);
}

// Adds up the output of the workgroup's head `h` and stores it, divided by the total or still to be merged.
fn put(head: u32, h: u32, d: u32, split: u32, top: f32, total: f32) {
    var sum = vec4<f32>();
    for (var g = 0u; g < GROUPS; g++) {
        sum += part[(h * GROUPS + g) * D4 + d];
    }
    if (PARTIAL == 0u) {
        att[head * D4 + d] = sum / total;
        return;
    }
    let record = (head * params.splits + split) * (D4 + 1u);
    att[record + d] = sum;
    if (d == 0u) {
        att[record + D4] = vec4<f32>(top, total, 0.0, 0.0);
    }
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
    let heads = min(HEADS, GROUP - chunk * HEADS);
    // A head that the last workgroup lacks repeats its last one.
    let q_at = (first_head + min(vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(heads - 1u))) * D4;
    let k_at = (N_HEADS + kv_head) * D4;
    let v_at = k_at + N_KV_HEADS * D4;

    var q_squares = vec4<f32>();
    var k_squares = 0.0;
    if (QK_NORM != 0u) {
        if (i < D4) {
            let q0 = qkv[q_at.x + i];
            let q1 = qkv[q_at.y + i];
            let q2 = qkv[q_at.z + i];
            let q3 = qkv[q_at.w + i];
            let k = qkv[k_at + i];
            q_squares = vec4<f32>(dot(q0, q0), dot(q1, q1), dot(q2, q2), dot(q3, q3));
            k_squares = dot(k, k);
        }
        q_squares = reduce_sum4(q_squares, i);
        k_squares = reduce_sum(k_squares, i);
    }
    var score = vec4<f32>();
    if (i < D4) {
        query[i] = rotated4(q_at.x, 0u, norm_factor(q_squares.x), i, pos) * params.scale;
        if (HEADS > 1u) {
            query[D4 + i] = rotated4(q_at.y, 0u, norm_factor(q_squares.y), i, pos) * params.scale;
        }
        if (HEADS > 2u) {
            query[2u * D4 + i] = rotated4(q_at.z, 0u, norm_factor(q_squares.z), i, pos) * params.scale;
        }
        if (HEADS > 3u) {
            query[3u * D4 + i] = rotated4(q_at.w, 0u, norm_factor(q_squares.w), i, pos) * params.scale;
        }
        let k = kv_pack(rotated4(k_at, D4, norm_factor(k_squares), i, pos));
        score = dots4(i, kv_unpack(k));
        if (has_new && chunk == 0u) {
            let row = key_row(blocks[pos / KV_BLOCK], kv_head, pos % KV_BLOCK);
            kv[row + i] = k;
            kv[row + V_OFFSET + i] = kv_pack(qkv[v_at + i]);
        }
    }
    // The new key alone: its weight is 1. The reduction's barriers also publish the queries.
    var top = select(vec4<f32>(NEVER), capped4(reduce_sum4(score, i)), has_new);
    var total = vec4<f32>(select(0.0, 1.0, has_new && i == 0u)); // this invocation's share
    let d = i % D4;
    let g = i / D4;
    var out0 = vec4<f32>();
    if (has_new && g == 0u) {
        out0 = kv_unpack(kv_pack(qkv[v_at + d]));
    }
    var out1 = out0;
    var out2 = out0;
    var out3 = out0;

    // A tile has a key in sight, or the new key came before it: so `higher` is a true score.
    let first = first_key(pos);
    let start = first_block_key(pos) + split * params.span;
    let end = select(start + params.span, pos, has_new);
    for (var tile = start; tile < end; tile += WG) {
        let p = i % PARTS;
        for (var step = 0u; step < PARTS; step++) {
            let slot = step * (WG / PARTS) + i / PARTS;
            let key = min(tile + slot, end - 1u);
            let row = key_row(blocks[key / KV_BLOCK], kv_head, key % KV_BLOCK);
            var s = vec4<f32>();
            for (var n = p; n < D4; n += PARTS) {
                s += dots4(n, kv_unpack(kv[row + n]));
            }
            part[p * WG + slot] = s;
        }
        workgroupBarrier();
        let key = tile + i;
        var s = capped4(part[i] + part[WG + i] + part[2u * WG + i] + part[3u * WG + i]);
        s = select(vec4<f32>(NEVER), s, vec4<bool>(key >= first && key < end));
        weight[i] = s;
        workgroupBarrier();
        if (i < STRIPS) {
            var strip = weight[i];
            for (var n = i + STRIPS; n < WG; n += STRIPS) {
                strip = max(strip, weight[n]);
            }
            part[i] = strip;
        }
        workgroupBarrier();
        var higher = top;
        for (var n = 0u; n < STRIPS; n++) {
            higher = max(higher, part[n]);
        }
        let fade = exp(top - higher);
        let w = exp(s - higher);
        weight[i] = w;
        total = total * fade + w;
        top = higher;
        out0 *= fade.x;
        out1 *= fade.y;
        out2 *= fade.z;
        out3 *= fade.w;
        workgroupBarrier();
        if (g < GROUPS) {
            let slots = min(WG, end - tile);
            for (var slot = g; slot < slots; slot += GROUPS) {
                let v = pooled(tile + slot, kv_head, d, V_OFFSET);
                let w = weight[slot];
                out0 += w.x * v;
                out1 += w.y * v;
                out2 += w.z * v;
                out3 += w.w * v;
            }
        }
    }

    total = reduce_sum4(total, i);
    if (PARTIAL == 0u) {
        total = with_sinks(total, top, q_at / D4);
    }
    if (g < GROUPS) {
        part[g * D4 + d] = out0;
        part[(GROUPS + g) * D4 + d] = out1;
        part[(2u * GROUPS + g) * D4 + d] = out2;
        part[(3u * GROUPS + g) * D4 + d] = out3;
    }
    workgroupBarrier();
    if (i < D4) {
        put(first_head, 0u, i, split, top.x, total.x);
        if (heads > 1u) {
            put(first_head + 1u, 1u, i, split, top.y, total.y);
        }
        if (heads > 2u) {
            put(first_head + 2u, 2u, i, split, top.z, total.z);
        }
        if (heads > 3u) {
            put(first_head + 3u, 3u, i, split, top.w, total.w);
        }
    }
}
