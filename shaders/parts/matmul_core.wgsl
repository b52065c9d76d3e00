// What the matmul kernels share: bindings, the segments that their workgroups belong to, writing. Links with parts/epilogue.
//
//   dot[t, r] = Σ_k x[t, k] * W[r, k]     for the n tokens of a pass, rows r of one to three matrices (segments)
//
// Constants from the linker:
//   EPILOGUE  see parts/epilogue; with 2 segments 0 and 1 are gate and up
//   BIAS      1: bias[r] is added to the dot product; 0: none (binding 4 is bound to x and not read)

struct Params {
    groups: u32,   // cols / 32
    segments: u32, // 1 to 3; 2 with EPILOGUE 2
    tokens: u32,   // rows of x and y: the most tokens of a pass
    y_stride: u32, // floats in a row of y
    softcap: f32,  // see parts/epilogue
    first: u32,    // y of this slice's first workgroup: a dispatch may be cut by rows
    wg_rows: u32,  // rows of a workgroup; with EPILOGUE 2 so many of gate and so many of up
    scale: f32,    // see parts/epilogue
    segment: array<Segment, 3>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;         // [tokens, cols / 4]
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;            // [rows of all segments]
@group(0) @binding(5) var<storage, read_write> y: array<f32>;         // [tokens, y_stride]

// The tokens of this pass: 0 where generation is done, so that every workgroup returns.
fn pass_tokens() -> u32 {
    return select(0u, min(params.tokens, state[STATE_N_TOKENS]), state[STATE_DONE] == 0u);
}

// The tokens of tile `tile`, of `size` each: from x up to y, where the pass's tokens end. Parts of the same names, such as
// matmul_gathered, may give other tokens.
fn tile_span(tile: u32, size: u32) -> vec2<u32> {
    return vec2<u32>(tile * size, pass_tokens());
}

// Where a token's x begins, in vec4.
fn x_row(t: u32) -> u32 {
    return t * params.groups * 8u;
}

// Where row `row` of segment `s` starts. Rows beyond the end repeat the last: computed, never written.
fn row_start(s: u32, row: u32) -> u32 {
    return params.segment[s].base + min(row, params.segment[s].rows - 1u) * params.segment[s].row_vec4;
}

fn biased(r: u32, dot: f32) -> f32 {
    if (BIAS == 1u) {
        return dot + bias[r];
    }
    return dot;
}

// Writes y[t, r], r counting the rows of all segments.
fn put(t: u32, r: u32, dot: f32) {
    emit(t * params.y_stride + r, r, dot);
}

fn put_gated(t: u32, row: u32, gate: f32, up: f32) {
    emit_gated(t * params.y_stride + row, row, gate, params.segment[1].out_row + row, up);
}
