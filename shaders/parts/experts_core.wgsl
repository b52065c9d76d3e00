// What both expert kernels share: a mixture's matrices, of which each token takes those of the experts that it picked
// (shaders/route.wgsl). Links with x_each, x_quad or x_quad_i8, which load x, and with dot_f32 or dot_i8, as matvec_core does.
//
//   GATED 1   y[t, s, r] = gated(G[e, r] · x[t] + b, U[e, r] · x[t] + b)       e: the expert of token t's pick s
//   GATED 0   y[t, r] += scale * Σ_s weight[t, s] * (D[e, r] · x[t, s] + b)
//
// The matrices of one kind lie expert after expert. Where a layer's exceed the device's binding limit they are bound in
// runs of experts, a dispatch each: picks of experts that are not bound are passed over.
//
// Constants from the linker:
//   NORM  1: x is RMS-normed with the weights of binding 3; the factor is the result's, as in matvec_core; 0: x as it is
//   BIAS  1: biases are added to the dot products; 0: none (binding 7 is bound to x and not read)
// Four rows at once: with GATED two of gate and two of up.

struct Kind {
    base: u32,     // of the first bound expert's row 0, in vec4<u32>
    row_vec4: u32, // of a row, in vec4<u32>
    format: u32,   // which decoder
    bias_at: u32,  // of expert 0's row 0, in floats
}

struct Pick {
    expert: u32, // of the layer
    bound: u32,  // of those that are bound: beyond params.experts where it is not among them
    weight: f32,
}

struct Params {
    groups: u32,   // cols / 32
    rows: u32,     // of one expert's matrix
    tokens: u32,   // the most tokens of a pass
    first: u32,    // token of this slice's first workgroup
    x_stride: u32, // between the tokens of x, in vec4
    x_at: u32,     // where a token's x begins, in vec4; without GATED that of its first pick, and the others' follow
    y_stride: u32, // between the tokens of y, in floats
    y_at: u32,     // where a token's y begins, in floats
    picks: u32,    // of a token
    pick: u32,     // the first that these matrices are for
    slots: u32,    // how many they are for
    expert: u32,   // the first that is bound
    experts: u32,  // how many are bound
    norm_at: u32,  // where the norm's weights begin in binding 3, in vec4
    eps: f32,
    scale: f32,
    kind: array<Kind, 2>, // gate and up, or down
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;      // [tokens, x_stride]
@group(0) @binding(3) var<storage, read> norm: array<vec4<f32>>;   // [cols]; without NORM bound to x
@group(0) @binding(4) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;      // [tokens, y_stride]
@group(0) @binding(6) var<storage, read> picks: array<vec2<f32>>;  // [tokens, picks] of (expert, weight)
@group(0) @binding(7) var<storage, read> bias: array<f32>;         // [experts of the layer, rows], of gate and then of up

const EACH: u32 = select(4u, 2u, GATED == 1u); // rows of y that are worked on at once

var<private> x_begin: u32; // in vec4

// Where group g of x starts, in vec4.
fn x_start(g: u32) -> u32 {
    return x_begin + g * 8u;
}

// Pick s of token t, of those that the matrices are for.
fn pick_of(t: u32, s: u32) -> Pick {
    let pick = picks[t * params.picks + params.pick + s];
    return Pick(u32(pick.x), u32(pick.x) - params.expert, pick.y);
}

fn x_begin_of(t: u32, s: u32) -> u32 {
    return t * params.x_stride + params.x_at + select(s * params.groups * 8u, 0u, GATED == 1u);
}

// The tokens of this pass: 0 where generation is done.
fn pass_tokens() -> u32 {
    return select(0u, min(params.tokens, state[STATE_N_TOKENS]), state[STATE_DONE] == 0u);
}

// The four rows from `row` on, of one or two kinds. Rows beyond the end repeat the last: computed, never written.
fn rows_from(row: u32) -> vec4<u32> {
    let four = select(vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(0u, 0u, 1u, 1u), GATED == 1u);
    return min(row + four, vec4<u32>(params.rows - 1u));
}

// Where these rows of the bound expert e start, in vec4<u32>.
fn starts(e: u32, row: u32) -> vec4<u32> {
    let base = vec2<u32>(params.kind[0].base, params.kind[GATED].base);
    let stride = vec2<u32>(params.kind[0].row_vec4, params.kind[GATED].row_vec4);
    return base.xyxy + (e * params.rows + rows_from(row)) * stride.xyxy;
}

// The dot products of one group of 32 with the rows that start there.
fn dots(at: vec4<u32>, g: u32, v: X32) -> vec4<f32> {
    let n = params.groups;
    let a = params.kind[0].format;
    let b = params.kind[GATED].format;
    return vec4<f32>(
        dot32(load_w(a, at.x, g, n), v),
        dot32(load_w(b, at.y, g, n), v),
        dot32(load_w(a, at.z, g, n), v),
        dot32(load_w(b, at.w, g, n), v),
    );
}

// The biases of these rows of the layer's expert e.
fn biases(e: u32, row: u32) -> vec4<f32> {
    if (BIAS == 0u) {
        return vec4<f32>();
    }
    let base = vec2<u32>(params.kind[0].bias_at, params.kind[GATED].bias_at);
    let at = base.xyxy + e * params.rows + rows_from(row);
    return vec4<f32>(bias[at.x], bias[at.y], bias[at.z], bias[at.w]);
}

// Writes two rows of pick s of token t; `squares` is Σ x².
fn put_gated(t: u32, s: u32, e: u32, row: u32, sums: vec4<f32>, squares: f32) {
    var v = sums;
    if (NORM == 1u) {
        v *= inverseSqrt(squares / f32(params.groups * 32u) + params.eps);
    }
    v += biases(e, row);
    let at = t * params.y_stride + params.y_at + s * params.rows + row;
    if (row < params.rows) { y[at] = gated(v.x, v.y); }
    if (row + 1u < params.rows) { y[at + 1u] = gated(v.z, v.w); }
}

// Adds four rows to token t.
fn add(t: u32, row: u32, sums: vec4<f32>) {
    let v = sums * params.scale;
    let at = t * params.y_stride + params.y_at + row;
    if (row < params.rows) { y[at] += v.x; }
    if (row + 1u < params.rows) { y[at + 1u] += v.y; }
    if (row + 2u < params.rows) { y[at + 2u] += v.z; }
    if (row + 3u < params.rows) { y[at + 3u] += v.w; }
}
