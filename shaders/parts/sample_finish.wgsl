// The bindings of sample_draw and sample_draw_single, and what one invocation does at the end: choose among the
// candidates, write the token, advance the state.
// The kernel declares   fn top(i: u32) -> vec2<u32>   // key, id of the i-th most likely candidate

const RING_LEN: u32 = 2048u;
const NO_CHOICE: u32 = 0xffffffffu;

@group(0) @binding(1) var<storage, read_write> state: array<u32>;
@group(0) @binding(2) var<storage, read> blocks: array<Block>;
@group(0) @binding(3) var<storage, read> candidates: array<vec2<u32>>; // [n_blocks, CANDIDATES]: key, id
@group(0) @binding(4) var<storage, read> logits: array<u32>; // f32[n_vocab] as bits
@group(0) @binding(5) var<storage, read_write> ids: array<u32>; // the tokens of the next pass; the first is written
@group(0) @binding(6) var<storage, read_write> counts: array<u32>; // [n_vocab]
@group(0) @binding(7) var<storage, read_write> ring: array<u32>; // [RING_LEN]: the token of step s at s % RING_LEN

fn state_f32(i: u32) -> f32 {
    return bitcast<f32>(state[i]);
}

// The place of the drawn token among the n candidates; NO_CHOICE where top-p or min-p may reach beyond them.
// `n_all` tokens are not out, the likeliest has the score `highest`, and their shares at select_scale sum to `sum_all`.
fn choose(n: u32, n_all: u32, highest: f32, sum_all: f32) -> u32 {
    let top_k = state[STATE_TOP_K];
    let scale = state_f32(STATE_SELECT_SCALE);
    var keep = select(n, min(n, top_k), top_k != 0u);
    var enough = top_k != 0u || n == n_all;
    let top_p = state_f32(STATE_TOP_P);
    if (top_p < 1.0) {
        var whole = sum_all;
        if ((state[STATE_FLAGS] & FLAG_TOP_P_OF_ALL) == 0u) {
            whole = 0.0;
            for (var i = 0u; i < keep; i++) {
                whole += share(score_of_key(top(i).x), highest, scale);
            }
        }
        var mass = 0.0;
        for (var i = 0u; i < keep; i++) {
            mass += share(score_of_key(top(i).x), highest, scale);
            if (mass >= top_p * whole) {
                keep = i + 1u;
                enough = true;
            }
        }
    }
    let log_min_p = state_f32(STATE_LOG_MIN_P);
    for (var i = 0u; i < keep; i++) {
        if ((score_of_key(top(i).x) - highest) * scale < log_min_p) {
            keep = i;
            enough = true;
        }
    }
    if (!enough) {
        return NO_CHOICE;
    }
    let draw_scale = state_f32(STATE_DRAW_SCALE);
    var total = 0.0;
    for (var i = 0u; i < keep; i++) {
        total += share(score_of_key(top(i).x), highest, draw_scale);
    }
    let bits = pcg4d(vec4<u32>(state[STATE_SEED_LO], state[STATE_SEED_HI], state[STATE_STEP], 0xffffffffu)).x;
    let wanted = f32(bits >> 8u) * 0x1p-24 * total;
    var mass = 0.0;
    for (var i = 0u; i < keep; i++) {
        mass += share(score_of_key(top(i).x), highest, draw_scale);
        if (wanted < mass) {
            return i;
        }
    }
    return keep - 1u; // rounding
}

fn leave_to_cpu() {
    state[STATE_DONE] = DONE_CPU;
}

fn emit(token: u32, raw_max: f32, raw_sum: f32) {
    let step = state[STATE_STEP];
    if ((state[STATE_FLAGS] & FLAG_PENALTIES) != 0u) {
        let window = state[STATE_WINDOW];
        if (window != 0xffffffffu && state[STATE_HISTORY] + step >= window) {
            counts[ring[(step - window) % RING_LEN]] -= 1u;
        }
        counts[token] += 1u;
    }
    ring[step % RING_LEN] = token;
    ids[0] = token;
    let slot = STATE_OUT + 2u * (step % STATE_OUT_LEN);
    state[slot] = token;
    state[slot + 1u] = bitcast<u32>(bitcast<f32>(logits[token]) - raw_max - log(raw_sum));
    state[STATE_POS] += state[STATE_N_TOKENS];
    state[STATE_N_TOKENS] = 1u;
    state[STATE_STEP] = step + 1u;
    let remaining = max(state[STATE_REMAINING], 1u) - 1u;
    state[STATE_REMAINING] = remaining;
    var done = select(0u, DONE_LENGTH, remaining == 0u);
    for (var i = 0u; i < min(state[STATE_N_END], STATE_OUT - STATE_END); i++) {
        if (state[STATE_END + i] == token) {
            done = DONE_END;
        }
    }
    state[STATE_DONE] = done;
}
