// Sampling, first half: a workgroup of 256 looks at a block of 1024 logits and leaves
// - the block's maximum and sum of exponentials, of the raw logits and of the scores, so that probabilities are exact;
// - the best token: of the scores (greedy), or of score / temperature + Gumbel noise, which draws exactly from the whole
//   softmax without a sum or a sort (the largest of all blocks' best is the draw);
// - with top-k, top-p or min-p, the block's 64 largest scores, in no order.
// sample_candidates_strip is the same for CPU adapters.

const PER_INVOCATION: u32 = 4u;
const BLOCK_LEN: u32 = WG * PER_INVOCATION;

var<workgroup> keys: array<u32, BLOCK_LEN>;
var<workgroup> taken: atomic<u32>;

fn entry(e: u32) -> vec2<u32> {
    return vec2<u32>(keys[e], MAX_ID - e);
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let block = workgroup.x;
    if (state[STATE_DONE] != 0u || state[STATE_MODE] == MODE_CPU || block >= params.n_blocks) {
        return;
    }
    let base = block * BLOCK_LEN;
    var raw = vec4<f32>();
    var score = vec4<f32>();
    var best = LOWEST;
    var best_id = MAX_ID;
    var n = 0.0;
    var bad = 0.0;
    for (var j = 0u; j < PER_INVOCATION; j++) {
        let id = base + j * WG + i;
        let token = token_of(id);
        raw[j] = token.raw;
        score[j] = token.score;
        keys[j * WG + i] = key_of(token.score);
        n += select(0.0, 1.0, token.score > OUT);
        bad += select(0.0, 1.0, token.bad);
        let value = noisy(token.score, id);
        if (value > best) {
            best = value;
            best_id = id;
        }
    }
    let raw_max = reduce_max(max(max(raw.x, raw.y), max(raw.z, raw.w)), i);
    let highest = reduce_max(max(max(score.x, score.y), max(score.z, score.w)), i);
    let block_best = reduce_max(best, i);
    // Ids are exact in f32, so the lowest of the equal is the largest of the negated.
    let block_best_id = -reduce_max(select(-f32(MAX_ID), -f32(best_id), best == block_best), i);
    let scale = bitcast<f32>(state[STATE_SELECT_SCALE]);
    var sums = vec4<f32>(0.0, 0.0, n, bad);
    for (var j = 0u; j < PER_INVOCATION; j++) {
        sums.x += share(raw[j], raw_max, 1.0);
        sums.y += share(score[j], highest, scale);
    }
    sums = reduce_sum4(sums, i);
    if (i == 0u) {
        blocks[block] = Block(raw_max, sums.x, highest, sums.y, block_best, u32(block_best_id), u32(sums.z), u32(sums.w));
    }
    if (state[STATE_MODE] != MODE_RESTRICTED) {
        return;
    }
    let least = select_least(BLOCK_LEN, i);
    for (var e = i; e < BLOCK_LEN; e += WG) {
        if (selected(entry(e), least)) {
            candidates[block * CANDIDATES + atomicAdd(&taken, 1u)] = vec2<u32>(keys[e], base + e);
        }
    }
    workgroupBarrier();
    if (i < CANDIDATES && i >= atomicLoad(&taken)) {
        candidates[block * CANDIDATES + i] = vec2<u32>();
    }
}
