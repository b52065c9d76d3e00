// Sampling, second half, for adapters of type CPU: one invocation does all of it, without barriers. See sample_draw.
// The strips' candidates come in descending order, so each is left at its first that cannot make the top.

var<private> ordered: array<vec2<u32>, CANDIDATES>; // key, id; the most likely first

fn top(i: u32) -> vec2<u32> {
    return ordered[i];
}

// Merges the strips' candidates into `ordered`; how many there are.
fn merge() -> u32 {
    var n = 0u;
    for (var b = 0u; b < params.n_blocks; b++) {
        for (var c = 0u; c < CANDIDATES; c++) {
            let candidate = candidates[b * CANDIDATES + c];
            // Strips come in the order of their ids, so an equal one ranks behind.
            if (candidate.x == 0u || (n == CANDIDATES && candidate.x <= ordered[CANDIDATES - 1u].x)) {
                break;
            }
            var at = min(n, CANDIDATES - 1u);
            while (at > 0u && ordered[at - 1u].x < candidate.x) {
                ordered[at] = ordered[at - 1u];
                at -= 1u;
            }
            ordered[at] = candidate;
            n = min(n + 1u, CANDIDATES);
        }
    }
    return n;
}

@compute @workgroup_size(1)
fn main() {
    if (state[STATE_DONE] != 0u) {
        return;
    }
    if (state[STATE_MODE] == MODE_CPU) {
        leave_to_cpu();
        return;
    }
    var raw_max = LOWEST;
    var highest = LOWEST;
    var best = LOWEST;
    var token = NO_CHOICE;
    for (var b = 0u; b < params.n_blocks; b++) {
        raw_max = max(raw_max, blocks[b].raw_max);
        highest = max(highest, blocks[b].top);
        if (blocks[b].best > best) {
            best = blocks[b].best;
            token = blocks[b].best_id;
        }
    }
    let scale = state_f32(STATE_SELECT_SCALE);
    var raw_sum = 0.0;
    var sum = 0.0;
    var n_all = 0u;
    var bad = 0u;
    for (var b = 0u; b < params.n_blocks; b++) {
        raw_sum += blocks[b].raw_sum * share(blocks[b].raw_max, raw_max, 1.0);
        sum += blocks[b].sum * share(blocks[b].top, highest, scale);
        n_all += blocks[b].n;
        bad += blocks[b].bad;
    }
    if (bad == 0u && n_all > 0u && state[STATE_MODE] == MODE_RESTRICTED) {
        let place = choose(merge(), n_all, highest, sum);
        token = NO_CHOICE;
        if (place != NO_CHOICE) {
            token = ordered[place].y;
        }
    }
    if (bad > 0u || n_all == 0u || token >= params.n_vocab) {
        leave_to_cpu(); // it finds the NaN, or that every token is out, and says so
    } else {
        emit(token, raw_max, raw_sum);
    }
}
