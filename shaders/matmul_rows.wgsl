// Matrix times the tokens of a prefill, for adapters of type CPU: no barrier, no workgroup memory. See parts/matmul_core
// for the formula.
//
// An invocation owns 8 rows (4 of gate and 4 of up in a gated feed-forward) and up to TILE tokens. For each group of 32
// columns it decodes its weights once, into 64 vectors, and then runs through the tokens one by one. Such adapters make a
// load for every lane and component, 10 to 100 times the cost of a multiplication, and compile whatever is unrolled: so
// the loop over tokens stays a loop, with its sums in memory. Measured on all matrices of SmolLM2-135M with 64 tokens:
// unrolled register tiles of 4 rows by 4 to 16 tokens gave 12 to 18 tokens/s on SwiftShader and 52 to 60 on lavapipe;
// this gives 37 and 127, with subgroups (parts/x32_quad) 47 and 190. 16 rows gain another fifth and compile five times
// longer. TILE below 32 makes lavapipe's compiler turn the array into chains of selects, a hundred times slower.
// Workgroups: x over tokens, y over rows.

const TILE: u32 = 32u;

var<private> sums: array<mat2x4<f32>, TILE>; // of each token: rows 0..4, rows 4..8 (gate, up)

// 32 columns of four rows: column r of c_j holds columns 4j .. 4j + 4 of row r, so that x * c_j is four dot products.
struct Block {
    c0: mat4x4<f32>,
    c1: mat4x4<f32>,
    c2: mat4x4<f32>,
    c3: mat4x4<f32>,
    c4: mat4x4<f32>,
    c5: mat4x4<f32>,
    c6: mat4x4<f32>,
    c7: mat4x4<f32>,
}

fn load_block(s: u32, row: u32, g: u32) -> Block {
    let f = params.segment[s].format;
    let r0 = weights_row(load_w(f, row_start(s, row), g, params.groups));
    let r1 = weights_row(load_w(f, row_start(s, row + 1u), g, params.groups));
    let r2 = weights_row(load_w(f, row_start(s, row + 2u), g, params.groups));
    let r3 = weights_row(load_w(f, row_start(s, row + 3u), g, params.groups));
    return Block(
        mat4x4<f32>(r0.a[0], r1.a[0], r2.a[0], r3.a[0]),
        mat4x4<f32>(r0.a[1], r1.a[1], r2.a[1], r3.a[1]),
        mat4x4<f32>(r0.a[2], r1.a[2], r2.a[2], r3.a[2]),
        mat4x4<f32>(r0.a[3], r1.a[3], r2.a[3], r3.a[3]),
        mat4x4<f32>(r0.b[0], r1.b[0], r2.b[0], r3.b[0]),
        mat4x4<f32>(r0.b[1], r1.b[1], r2.b[1], r3.b[1]),
        mat4x4<f32>(r0.b[2], r1.b[2], r2.b[2], r3.b[2]),
        mat4x4<f32>(r0.b[3], r1.b[3], r2.b[3], r3.b[3]),
    );
}

fn dots(v: X32, w: Block) -> vec4<f32> {
    return v.a[0] * w.c0 + v.a[1] * w.c1 + v.a[2] * w.c2 + v.a[3] * w.c3
        + v.b[0] * w.c4 + v.b[1] * w.c5 + v.b[2] * w.c6 + v.b[3] * w.c7;
}

// Writes y[t, row] .. of four rows of segment `s` that begin at `row`.
fn put4(s: u32, t: u32, row: u32, dots: vec4<f32>) {
    let rows = params.segment[s].rows;
    let r = params.segment[s].out_row + row;
    if (row < rows) { put(t, r, dots.x); }
    if (row + 1u < rows) { put(t, r + 1u, dots.y); }
    if (row + 2u < rows) { put(t, r + 2u, dots.z); }
    if (row + 3u < rows) { put(t, r + 3u, dots.w); }
}

// The same of gate and up.
fn put4_gated(t: u32, row: u32, gate: vec4<f32>, up: vec4<f32>) {
    let rows = params.segment[0].rows;
    if (row < rows) { put_gated(t, row, gate.x, up.x); }
    if (row + 1u < rows) { put_gated(t, row + 1u, gate.y, up.y); }
    if (row + 2u < rows) { put_gated(t, row + 2u, gate.z, up.z); }
    if (row + 3u < rows) { put_gated(t, row + 3u, gate.w, up.w); }
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let span = tile_span(id.x, TILE);
    let t0 = span.x;
    let n = span.y;
    if (t0 >= n) {
        return;
    }
    let workgroup = params.first + id.y;
    let s = segment_of(workgroup);
    let s_b = select(s, 1u, EPILOGUE == 2u);
    let per_invocation = select(8u, 4u, EPILOGUE == 2u);
    let row = (workgroup - params.segment[s].wg_start) * params.wg_rows + i * per_invocation;
    let row_b = select(row + 4u, row, EPILOGUE == 2u);
    let tile = min(TILE, n - t0);
    let lane = x32_lane();
    for (var g = 0u; g < params.groups; g++) {
        let w_a = load_block(s, row, g);
        let w_b = load_block(s_b, row_b, g);
        for (var t = 0u; t < tile; t++) {
            let v = x32_load(x_row(t0 + t) + g * 8u, lane);
            let sum = sums[t];
            sums[t] = mat2x4<f32>(sum[0] + dots(v, w_a), sum[1] + dots(v, w_b));
        }
    }
    for (var t = 0u; t < tile; t++) {
        let sum = sums[t];
        if (EPILOGUE == 2u) {
            put4_gated(t0 + t, row, sum[0], sum[1]);
        } else {
            put4(s, t0 + t, row, sum[0]);
            put4(s, t0 + t, row_b, sum[1]);
        }
    }
}
