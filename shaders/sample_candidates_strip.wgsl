// Sampling, first half, for adapters of type CPU: an invocation scans a strip of the vocabulary, without barriers or
// workgroup memory. See sample_candidates for what it leaves; here a strip's candidates lie in descending order, kept so
// by insertion in place. Few of them move: of 1024 random scores about 64 * (1 + ln 16) = 240 are ever inserted.

override WG: u32 = 8u;

fn insert(first: u32, held: u32, key: u32, id: u32) {
    var at = held;
    // Strictly less: among equals the lower id, which came before, stays ahead.
    while (at > first && candidates[at - 1u].x < key) {
        if (at < first + CANDIDATES) {
            candidates[at] = candidates[at - 1u];
        }
        at -= 1u;
    }
    if (at < first + CANDIDATES) {
        candidates[at] = vec2<u32>(key, id);
    }
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let block = invocation.x;
    if (state[STATE_DONE] != 0u || state[STATE_MODE] == MODE_CPU || block >= params.n_blocks) {
        return;
    }
    let start = block * params.block_len;
    let end = min(start + params.block_len, params.n_vocab);
    let restricted = state[STATE_MODE] == MODE_RESTRICTED;
    let first = block * CANDIDATES;
    var raw_max = LOWEST;
    var highest = LOWEST;
    var best = LOWEST;
    var best_id = MAX_ID;
    var n = 0u;
    var bad = 0u;
    var least = 0u; // the key to beat
    for (var id = start; id < end; id++) {
        let token = token_of(id);
        raw_max = max(raw_max, token.raw);
        highest = max(highest, token.score);
        bad += select(0u, 1u, token.bad);
        let value = noisy(token.score, id);
        if (value > best) {
            best = value;
            best_id = id;
        }
        if (token.score > OUT) {
            let key = key_of(token.score);
            if (restricted && key > least) {
                let held = min(n, CANDIDATES);
                insert(first, first + held, key, id);
                if (held + 1u >= CANDIDATES) {
                    least = candidates[first + CANDIDATES - 1u].x;
                }
            }
            n += 1u;
        }
    }
    if (restricted) {
        for (var i = n; i < CANDIDATES; i++) {
            candidates[first + i] = vec2<u32>();
        }
    }
    let scale = bitcast<f32>(state[STATE_SELECT_SCALE]);
    // Sums of at most 32 and then of those: rounding grows with the square root of what a plain sum would cost.
    var raw_sum = 0.0;
    var sum = 0.0;
    for (var id = start; id < end; id += 32u) {
        var raw_part = 0.0;
        var part = 0.0;
        for (var at = id; at < min(id + 32u, end); at++) {
            let token = token_of(at);
            raw_part += share(token.raw, raw_max, 1.0);
            part += share(token.score, highest, scale);
        }
        raw_sum += raw_part;
        sum += part;
    }
    blocks[block] = Block(raw_max, raw_sum, highest, sum, best, best_id, n, bad);
}
