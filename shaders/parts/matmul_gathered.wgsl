// A mixture's matrices times the tokens of a prefill that picked their experts, tile by tile of shaders/tiles.wgsl: what
// parts/matmul_core is to one matrix, with the same signatures. A "token" is here a place in the sorted list of picks.
//
//   y[pick, r] = emit(Σ_k x[pick, k] * W[expert of the tile, r, k])
//
// Where a layer's experts are in several buffers, each takes a dispatch, and tiles of experts that are not bound are passed over.
// Constants from the linker: EPILOGUE 0 or 2 (gate and up) and BIAS, as in matmul_core.

struct Params {
    groups: u32,    // cols / 32
    segments: u32,  // 1, or 2 with EPILOGUE 2
    first: u32,     // y of this slice's first workgroup
    wg_rows: u32,   // rows of a workgroup; with EPILOGUE 2 so many of gate and so many of up
    softcap: f32,   // 0
    scale: f32,     // 1
    slots: u32,     // picks of a token
    x_stride: u32,  // between tokens, in vec4
    x_at: u32,      // where a token's x begins, in vec4
    x_slot: u32,    // between the picks of a token, in vec4; 0 where all have the same x
    y_stride: u32,  // between tokens, in floats
    y_at: u32,      // where a token's y begins, in floats; between its picks are the rows of one expert
    expert: u32,    // the first that is bound
    experts: u32,   // how many are bound
    sorted_at: u32, // where the sorted picks begin in the list
    pad: u32,
    segment: array<Segment, 3>, // of the first bound expert; `out_row` of up: where its biases begin
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;            // [experts of the layer, rows], of gate and then of up
@group(0) @binding(5) var<storage, read_write> y: array<f32>;
@group(0) @binding(6) var<storage, read> list: array<u32>;

var<private> tile_expert: u32; // of the layer
var<private> tile_last: u32;   // the last place of the tile

fn tile_span(tile: u32, size: u32) -> vec2<u32> {
    if (state[STATE_DONE] != 0u || tile >= list[0]) {
        return vec2<u32>();
    }
    let at = 4u * (tile + 1u);
    if (list[at] - params.expert >= params.experts) {
        return vec2<u32>();
    }
    tile_expert = list[at];
    tile_last = list[at + 2u] - 1u;
    return vec2<u32>(list[at + 1u], list[at + 2u]);
}

// Token and slot at a place; behind the tile those of its last.
fn pick_at(place: u32) -> vec2<u32> {
    let pick = list[params.sorted_at + min(place, tile_last)];
    let t = pick / params.slots;
    return vec2<u32>(t, pick - t * params.slots);
}

fn x_row(place: u32) -> u32 {
    let pick = pick_at(place);
    return pick.x * params.x_stride + params.x_at + pick.y * params.x_slot;
}

fn y_row(place: u32) -> u32 {
    let pick = pick_at(place);
    return pick.x * params.y_stride + params.y_at + pick.y * params.segment[0].rows;
}

fn row_start(s: u32, row: u32) -> u32 {
    let rows = params.segment[s].rows;
    return params.segment[s].base + ((tile_expert - params.expert) * rows + min(row, rows - 1u)) * params.segment[s].row_vec4;
}

fn biased(r: u32, dot: f32) -> f32 {
    if (BIAS == 1u) {
        return dot + bias[tile_expert * params.segment[0].rows + r];
    }
    return dot;
}

fn put(place: u32, r: u32, dot: f32) {
    emit(y_row(place) + r, r, dot);
}

fn put_gated(place: u32, row: u32, gate: f32, up: f32) {
    emit_gated(y_row(place) + row, row, gate, params.segment[1].out_row + row, up);
}
