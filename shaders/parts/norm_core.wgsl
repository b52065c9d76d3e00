// What both norm kernels share, norms of rows of the tokens of a pass:
//
//   RMS norm:   normed[t, :] = a[t, :] * w * rsqrt(mean(a[t, :]²) + eps)
//   LayerNorm:  normed[t, :] = (a[t, :] - m) * w * rsqrt(mean((a[t, :] - m)²) + eps) + b,   m = mean(a[t, :])
//
// The mean comes before the variance, in a pass of its own: the mean of the squares less the mean's square would lose its
// digits where rows lie far from 0. From the linker:
//   LAYER  1: LayerNorm; 0: RMS norm
//   BIAS   1: b is added; 0: there is none
//   INTO   0: out = normed; 1: out += normed (Gemma's norms after a block, onto the residual stream); 2: out = norm(out)

struct Params {
    vec4s: u32,  // in a row: cols / 4
    tokens: u32, // rows of a and out: the most tokens of a pass
    eps: f32,
    offset: u32, // where out's first row starts, in vec4
    stride: u32, // from a row of out to the next, in vec4
    w_at: u32,   // where the weights start in w, in vec4
    b_at: u32,   // where the biases do
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> a: array<vec4<f32>>;         // [tokens, cols / 4]; with INTO 2 something that is not read
@group(0) @binding(3) var<storage, read> w: array<vec4<f32>>;         // a range with weights and biases
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>; // the rows, stride apart

// The tokens of this pass: 0 where generation is done.
fn pass_tokens() -> u32 {
    return select(0u, min(params.tokens, state[STATE_N_TOKENS]), state[STATE_DONE] == 0u);
}

// Element `k` of the row of token t.
fn input(t: u32, k: u32) -> vec4<f32> {
    if (INTO == 2u) {
        return out[params.offset + t * params.stride + k];
    }
    return a[t * params.vec4s + k];
}

fn mean(sum: f32) -> f32 {
    return sum / f32(params.vec4s * 4u);
}

fn factor(squares: f32) -> f32 {
    return inverseSqrt(mean(squares) + params.eps);
}

fn put(t: u32, k: u32, centre: f32, scale: f32) {
    var value = (input(t, k) - centre) * scale * w[params.w_at + k];
    if (BIAS == 1u) {
        value += w[params.b_at + k];
    }
    let at = params.offset + t * params.stride + k;
    if (INTO == 1u) {
        out[at] += value;
    } else {
        out[at] = value;
    }
}
