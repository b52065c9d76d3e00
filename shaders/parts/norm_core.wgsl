// What both norm kernels share: out[t, :] = a[t, :] * w * rsqrt(mean(a[t, :]²) + eps), RMS norm of the tokens of a pass.
// `const ADD: u32` from the linker: 1 adds to out (Gemma's norms after a block, onto the residual stream), 0 stores.

struct Params {
    vec4s: u32,  // in a row: cols / 4
    tokens: u32, // rows of a and out: the most tokens of a pass
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> a: array<vec4<f32>>;         // [tokens, cols / 4]
@group(0) @binding(3) var<storage, read> w: array<vec4<f32>>;         // [cols / 4]
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>; // [tokens, cols / 4]

// The tokens of this pass: 0 where generation is done.
fn pass_tokens() -> u32 {
    return select(0u, min(params.tokens, state[STATE_N_TOKENS]), state[STATE_DONE] == 0u);
}

fn factor(squares: f32) -> f32 {
    return inverseSqrt(squares / f32(params.vec4s * 4u) + params.eps);
}

// Element `k` of the row that begins at `row`.
fn put(row: u32, k: u32, scale: f32) {
    let value = a[row + k] * scale * w[k];
    if (ADD == 1u) {
        out[row + k] += value;
    } else {
        out[row + k] = value;
    }
}
