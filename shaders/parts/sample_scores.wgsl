// The bindings of sample_candidates and sample_candidates_strip, and the score of a token.

@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<u32>; // f32[n_vocab] as bits, so that NaN stays visible
@group(0) @binding(3) var<storage, read> bias: array<f32>;   // [n_vocab], read with FLAG_BIAS
@group(0) @binding(4) var<storage, read> counts: array<u32>; // [n_vocab], read with FLAG_PENALTIES
@group(0) @binding(5) var<storage, read_write> blocks: array<Block>; // [n_blocks]
@group(0) @binding(6) var<storage, read_write> candidates: array<vec2<u32>>; // [n_blocks, CANDIDATES]: key, id; key 0 where empty

struct Token {
    raw: f32,
    score: f32,
    bad: bool,
}

fn token_of(id: u32) -> Token {
    if (id >= params.n_vocab) {
        return Token(LOWEST, LOWEST, false);
    }
    let bits = logits[id];
    if (bits == 0xff800000u) {
        return Token(LOWEST, LOWEST, false);
    }
    if ((bits & 0x7f800000u) == 0x7f800000u) {
        return Token(LOWEST, LOWEST, true);
    }
    let raw = max(bitcast<f32>(bits), LOWEST);
    let flags = state[STATE_FLAGS];
    var score = raw;
    if ((flags & FLAG_BIAS) != 0u) {
        score += bias[id];
    }
    if (score <= OUT) {
        return Token(raw, LOWEST, false); // before a penalty below 1 could lift it
    }
    if ((flags & FLAG_PENALTIES) != 0u) {
        let count = counts[id];
        if (count > 0u) {
            let repetition = bitcast<f32>(state[STATE_REPETITION]);
            score = select(score / repetition, score * repetition, score <= 0.0);
            score -= f32(count) * bitcast<f32>(state[STATE_FREQUENCY]) + bitcast<f32>(state[STATE_PRESENCE]);
        }
    }
    return Token(raw, score, false);
}

// What the draw compares: the score alone, or with the noise of this seed, step and token.
fn noisy(score: f32, id: u32) -> f32 {
    if (state[STATE_MODE] != MODE_GUMBEL || score <= OUT) {
        return score;
    }
    let bits = pcg4d(vec4<u32>(state[STATE_SEED_LO], state[STATE_SEED_HI], state[STATE_STEP], id)).x;
    return score * bitcast<f32>(state[STATE_DRAW_SCALE]) + gumbel(bits);
}
