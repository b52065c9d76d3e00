// Sampling, second half: one workgroup of 256 merges the blocks of sample_candidates, draws, writes the token and
// advances the state. `state` is read_write here, so nothing read from it may guard a barrier: one invocation reads
// what does and hands it round through workgroupUniformLoad.

var<workgroup> head: vec2<u32>; // done, mode
var<workgroup> taken: atomic<u32>;
var<workgroup> gathered: array<vec2<u32>, CANDIDATES>;
var<workgroup> ordered: array<vec2<u32>, CANDIDATES>; // key, id; the most likely first

fn entry(e: u32) -> vec2<u32> {
    let candidate = candidates[e];
    return vec2<u32>(candidate.x, MAX_ID - candidate.y);
}

fn top(i: u32) -> vec2<u32> {
    return ordered[i];
}

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) i: u32) {
    if (i == 0u) {
        head = vec2<u32>(state[STATE_DONE], state[STATE_MODE]);
    }
    let now = workgroupUniformLoad(&head);
    if (now.x != 0u) {
        return;
    }
    if (now.y == MODE_CPU) {
        if (i == 0u) {
            leave_to_cpu();
        }
        return;
    }
    var raw_max = LOWEST;
    var highest = LOWEST;
    var best = LOWEST;
    for (var b = i; b < params.n_blocks; b += WG) {
        raw_max = max(raw_max, blocks[b].raw_max);
        highest = max(highest, blocks[b].top);
        best = max(best, blocks[b].best);
    }
    raw_max = reduce_max(raw_max, i);
    highest = reduce_max(highest, i);
    best = reduce_max(best, i);
    let scale = state_f32(STATE_SELECT_SCALE);
    var sums = vec4<f32>();
    var negated_id = -f32(MAX_ID);
    for (var b = i; b < params.n_blocks; b += WG) {
        let block = blocks[b];
        sums += vec4<f32>(
            block.raw_sum * share(block.raw_max, raw_max, 1.0),
            block.sum * share(block.top, highest, scale),
            f32(block.n),
            f32(block.bad),
        );
        if (block.best == best) {
            negated_id = max(negated_id, -f32(block.best_id));
        }
    }
    sums = reduce_sum4(sums, i);
    var token = u32(-reduce_max(negated_id, i));
    if (now.y == MODE_RESTRICTED) {
        let n_entries = params.n_blocks * CANDIDATES;
        let least = select_least(n_entries, i);
        for (var e = i; e < n_entries; e += WG) {
            if (selected(entry(e), least)) {
                gathered[atomicAdd(&taken, 1u)] = candidates[e];
            }
        }
        workgroupBarrier();
        let n = atomicLoad(&taken);
        if (i < n) {
            let mine = gathered[i];
            var rank = 0u;
            for (var j = 0u; j < n; j++) {
                let other = gathered[j];
                rank += select(0u, 1u, other.x > mine.x || (other.x == mine.x && other.y < mine.y));
            }
            ordered[rank] = mine;
        }
        workgroupBarrier();
        if (i == 0u && n > 0u) {
            let place = choose(n, u32(sums.z), highest, sums.y);
            token = select(ordered[min(place, CANDIDATES - 1u)].y, NO_CHOICE, place == NO_CHOICE);
        }
    }
    if (i == 0u) {
        if (sums.w > 0.0 || sums.z == 0.0 || token >= params.n_vocab) {
            leave_to_cpu(); // it finds the NaN, or that every token is out, and says so
        } else {
            emit(token, raw_max, sums.x);
        }
    }
}
