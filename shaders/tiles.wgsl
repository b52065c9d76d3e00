// Sorts a pass's picks by their experts and cuts them into tiles of up to `tile` picks of one expert each, so that matrices decode
// each weight once for several tokens (parts/matmul_gathered).
//
//   list = [tiles, -, -, -], of each tile [expert, start, end, -], and from word `sorted_at` on the sorted picks, pick s of
//   token t being t * slots + s; `start` and `end` count from there
//
// One workgroup; each invocation owns every WG-th expert and walks over all picks, twice, so that the order is always the same.

const MOST_EXPERTS: u32 = 512u;

struct Params {
    experts: u32,   // at most 512
    tokens: u32,    // the most tokens of a pass
    picks: u32,     // of a token
    pick: u32,      // the first that is meant
    slots: u32,     // how many are meant
    tile: u32,
    sorted_at: u32,
    pad: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> picks: array<vec2<f32>>;     // [tokens, picks] of (expert, weight)
@group(0) @binding(3) var<storage, read_write> list: array<u32>;

var<workgroup> counts: array<u32, MOST_EXPERTS>;

fn is_of(t: u32, s: u32, e: u32) -> bool {
    return u32(picks[t * params.picks + params.pick + s].x) == e;
}

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) i: u32) {
    if (state[STATE_DONE] != 0u) {
        return;
    }
    let n = min(params.tokens, state[STATE_N_TOKENS]);
    for (var e = i; e < params.experts; e += WG) {
        var count = 0u;
        for (var t = 0u; t < n; t++) {
            for (var s = 0u; s < params.slots; s++) {
                count += select(0u, 1u, is_of(t, s, e));
            }
        }
        counts[e] = count;
    }
    workgroupBarrier();
    for (var e = i; e < params.experts; e += WG) {
        var at = 0u;
        var tile = 0u;
        for (var before = 0u; before < e; before++) {
            at += counts[before];
            tile += (counts[before] + params.tile - 1u) / params.tile;
        }
        let end = at + counts[e];
        for (var start = at; start < end; start += params.tile) {
            tile++;
            list[4u * tile] = e;
            list[4u * tile + 1u] = start;
            list[4u * tile + 2u] = min(start + params.tile, end);
        }
        if (e + 1u == params.experts) {
            list[0] = tile;
        }
        for (var t = 0u; t < n; t++) {
            for (var s = 0u; s < params.slots; s++) {
                if (is_of(t, s, e)) {
                    list[params.sorted_at + at] = t * params.slots + s;
                    at++;
                }
            }
        }
    }
}
