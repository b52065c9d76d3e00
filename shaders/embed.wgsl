// Embeddings: x[t, :] = scale * W[r, :], or x[t, :] += the same, for the n tokens of a pass, W in any weight format.
// A table that exceeds the device's binding limit is bound in chunks of rows, a dispatch each: a row outside the chunk
// leaves x as it is.
// From the linker:
//   ROWS  0: r is the token's id; 1: its position (GPT-2's learned positions); 2: 0 (BERT's type of the first sentence)
//   ADD   1: onto x; 0: x is written
// An invocation decodes one group of 32 columns of one token; workgroups: x over groups, y over tokens.

struct Params {
    groups: u32,   // cols / 32
    tokens: u32,   // rows of x: the most tokens of a pass
    base: u32,     // of the chunk's first row, in vec4<u32>
    row_vec4: u32, // of a row, in vec4<u32>
    row0: u32,     // the table's row that the chunk begins with
    rows: u32,     // of the chunk
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> ids: array<u32>;             // [tokens]
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> x: array<vec4<f32>>;   // [tokens, cols / 4]

fn put4(at: u32, value: vec4<f32>) {
    if (ADD == 1u) {
        x[at] += value;
    } else {
        x[at] = value;
    }
}

fn put16(at: u32, q: mat4x4<f32>, d: vec4<f32>, m: f32) {
    let offset = vec4<f32>(m * params.scale);
    let factor = d * params.scale;
    put4(at, q[0] * factor + offset);
    put4(at + 1u, q[1] * factor + offset);
    put4(at + 2u, q[2] * factor + offset);
    put4(at + 3u, q[3] * factor + offset);
}

// The row of W that token t of the pass takes.
fn table_row(t: u32) -> u32 {
    if (ROWS == 0u) {
        return ids[t];
    }
    return select(0u, state[STATE_POS] + t, ROWS == 1u);
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let g = id.x * WG + i;
    let t = id.y;
    if (state[STATE_DONE] != 0u || t >= min(params.tokens, state[STATE_N_TOKENS]) || g >= params.groups) {
        return;
    }
    let row = table_row(t) - params.row0; // below row0 it wraps, to more than rows
    if (row >= params.rows) {
        return;
    }
    let w = load_w(0u, params.base + row * params.row_vec4, g, params.groups);
    let at = (t * params.groups + g) * 8u;
    put16(at, w.q0, w.d0, w.m.x);
    put16(at + 4u, w.q1, w.d1, w.m.y);
}
