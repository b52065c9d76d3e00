// What the sampler's two kernels share: the record of a block of logits, the random numbers, the order of scores.
//
// A score is a logit after bias and penalties. Shaders may assume that there are no infinities, so a token that is out
// (minus infinity as logit or bias) has the score -1e38, and whatever is at or below OUT counts as out.

struct Params {
    n_vocab: u32,
    n_blocks: u32,  // blocks of the vocabulary, each the work of one workgroup or (CPU) of one invocation
    block_len: u32, // tokens of a block
    unused: u32,
}
@group(0) @binding(0) var<uniform> params: Params;

struct Block {
    raw_max: f32, // of the model's own logits: for the logprob
    raw_sum: f32, // sum of exp(logit - raw_max)
    top: f32,     // the largest score
    sum: f32,     // sum of exp((score - top) * select_scale): for top-p
    best: f32,    // the largest score, with its noise in a Gumbel draw
    best_id: u32, // and its token, the lowest id among equals
    n: u32,       // tokens that are not out
    bad: u32,     // logits that are NaN or plus infinity
}

const CANDIDATES: u32 = 64u; // of a block, and of the vocabulary
const LOWEST: f32 = -1e38;
const OUT: f32 = -1e37;
const MAX_ID: u32 = 0xffffffu; // ids are exact in f32, and fit three bytes

// exp((score - top) * scale), without overflow; exp(-100) is 0 in all but name.
fn share(score: f32, top: f32, scale: f32) -> f32 {
    return exp(max((score - top) * scale, -100.0));
}

// Four mixed words: pcg4d of Jarzynski and Olano (JCGT 2020). The same integers as src/sample/rng.rs.
fn pcg4d(input: vec4<u32>) -> vec4<u32> {
    return pcg_mix(pcg_fold(pcg_mix(input * 1664525u + 1013904223u)));
}

fn pcg_fold(v: vec4<u32>) -> vec4<u32> {
    return v ^ (v >> vec4<u32>(16u));
}

fn pcg_mix(input: vec4<u32>) -> vec4<u32> {
    var v = input;
    v.x += v.y * v.w;
    v.y += v.z * v.x;
    v.z += v.x * v.y;
    v.w += v.y * v.z;
    return v;
}

// A standard Gumbel variable, -ln(E) with E = -ln(1 - v) and v = (bits + 1/2) / 2^32. A WGSL log is good to 2^-21
// absolute near 1, which would spoil the small E that win: those are summed as a series in v.
fn gumbel(bits: u32) -> f32 {
    let v = f32(bits) * 0x1p-32 + 0x1p-33;
    let w = f32(~bits) * 0x1p-32 + 0x1p-33; // 1 - v
    let series = v * (1.0 + v * (1.0 / 2.0 + v * (1.0 / 3.0 + v * (1.0 / 4.0 + v * (1.0 / 5.0 + v * (1.0 / 6.0
        + v * (1.0 / 7.0 + v * (1.0 / 8.0))))))));
    return -log(select(-log(w), series, v < 0.125));
}

// Unsigned integers in the order of the scores; 0 for tokens that are out.
fn key_of(score: f32) -> u32 {
    let bits = bitcast<u32>(select(score, 0.0, score == 0.0)); // -0 equals 0
    let key = select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
    return select(key, 0u, score <= OUT);
}

fn score_of_key(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key & 0x7fffffffu, key >= 0x80000000u));
}
