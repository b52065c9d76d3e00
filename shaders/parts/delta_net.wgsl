// What both delta net kernels share (Yang et al. 2024, arXiv 2412.06464). A value head has a memory S of KEY_WIDTH rows of
// VALUE_WIDTH numbers. For each token, with q and k of its key head, each divided by its length, and with v of its own:
//   S = decay * S;   S += k (x) (beta * (v - k S));   o = q S / sqrt(KEY_WIDTH)
//   decay = exp(a * softplus(alpha + bias)),   beta = sigmoid(b)
//   out = o * rsqrt(mean(o²) + eps) * w * silu(z)
// k S and q S of the memory before the token are taken in one pass over it: o = decay * q S + (q·k) * what k S lacks of v.
// From the linker: KEY_HEADS, VALUE_HEADS, KEY_WIDTH, VALUE_WIDTH (multiples of 4), GROUPED, and activate = SiLU.

struct Params {
    tokens: u32,  // the most of a pass
    stride: u32,  // of a token's row in `rows`, in floats
    eps: f32,     // of the norm of each head
    first: u32,   // the first head of this slice of the dispatch
    k4: u32,      // K4 again, for loops that a driver must not unroll
    q_scale: f32, // 1 / sqrt(KEY_WIDTH)
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;          // [tokens, q | k | v], out of the convolution
@group(0) @binding(3) var<storage, read> rows: array<f32>;               // [tokens, what the convolution took | z | b | alpha]
@group(0) @binding(4) var<storage, read> of_heads: array<f32>;           // a, bias: [VALUE_HEADS] each; w: [VALUE_WIDTH]
@group(0) @binding(5) var<storage, read_write> memory: array<vec4<f32>>; // [VALUE_HEADS, KEY_WIDTH, V4]
@group(0) @binding(6) var<storage, read_write> out: array<vec4<f32>>;    // [tokens, VALUE_HEADS, V4]

const K4: u32 = KEY_WIDTH / 4u;
const V4: u32 = VALUE_WIDTH / 4u;
const QKV4: u32 = 2u * KEY_HEADS * K4 + VALUE_HEADS * V4;

// The tokens of this pass: 0 where generation is done.
fn pass_tokens() -> u32 {
    return select(0u, min(params.tokens, state[STATE_N_TOKENS]), state[STATE_DONE] == 0u);
}

// Which key head a value head reads: those of one key head are neighbours, or lie KEY_HEADS apart.
fn key_head(head: u32) -> u32 {
    return select(head % KEY_HEADS, head / (VALUE_HEADS / KEY_HEADS), GROUPED == 1u);
}

// Where q of token t and a value head starts; k is KEY_HEADS * K4 behind.
fn q_at(t: u32, head: u32) -> u32 {
    return t * QKV4 + key_head(head) * K4;
}

fn v_at(t: u32, head: u32) -> u32 {
    return t * QKV4 + 2u * KEY_HEADS * K4 + head * V4;
}

// 1 / length, of the sum of squares.
fn over_length(squares: f32) -> f32 {
    return inverseSqrt(squares + 1e-6);
}

fn beta(t: u32, head: u32) -> f32 {
    let b = rows[t * params.stride + 4u * (QKV4 + VALUE_HEADS * V4) + head];
    return 1.0 / (1.0 + exp(min(-b, 80.0)));
}

fn decay(t: u32, head: u32) -> f32 {
    let x = rows[t * params.stride + 4u * (QKV4 + VALUE_HEADS * V4) + VALUE_HEADS + head] + of_heads[VALUE_HEADS + head];
    let softplus = max(x, 0.0) + log(1.0 + exp(-abs(x)));
    return exp(max(of_heads[head] * softplus, -80.0));
}

// Four numbers of a head's output normed, weighted and gated; `scale` is rsqrt(mean(o²) + eps).
fn gated4(o: vec4<f32>, scale: f32, t: u32, head: u32, column: u32) -> vec4<f32> {
    let w = 2u * VALUE_HEADS + 4u * column;
    let z = t * params.stride + 4u * (QKV4 + head * V4 + column);
    let weights = vec4<f32>(of_heads[w], of_heads[w + 1u], of_heads[w + 2u], of_heads[w + 3u]);
    let gate = vec4<f32>(activate(rows[z]), activate(rows[z + 1u]), activate(rows[z + 2u]), activate(rows[z + 3u]));
    return o * scale * weights * gate;
}
