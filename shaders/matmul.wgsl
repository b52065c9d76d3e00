// Matrix times the tokens of a prefill, on a GPU. See parts/matmul_core for the formula.
//
// A workgroup of 256 owns a tile of 64 tokens by TILE_ROWS rows (in a gated feed-forward half of them gate, half up). For
// TILE_GROUPS groups of 32 columns it brings activations and decoded weights into workgroup memory, each weight decoded once for
// 64 tokens, and then every invocation (tx, ty) multiplies 4 tokens ty + 16 a with 4 or 8 rows tx + 16 j. Neighbours have
// neighbouring rows, so that they write neighbouring results.
// Variants: parts/matmul_tile_f32 (64 rows, 16 KiB), parts/matmul_tile_f16 (128 rows, 12 KiB) and, for `precision: "fast"`,
// parts/matmul_tile_i8 (64 rows, 12 KiB).
// Workgroups: x over tokens, y over rows: those that run at the same time share their weights in the cache.

const HALF: u32 = TILE_ROWS / 2u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let n = pass_tokens();
    let t0 = id.x * TILE_TOKENS;
    if (t0 >= n) {
        return;
    }
    let tile = params.first + id.y;
    let s = segment_of(tile);
    let row0 = (tile - params.segment[s].wg_start) * params.wg_rows;

    // The weights that this invocation loads, if it loads any: row `i` of the tile (or `i` less those that load x).
    let r = tile_row(i);
    let is_up = EPILOGUE == 2u && r >= HALF;
    let s_load = select(s, 1u, is_up);
    let start = row_start(s_load, row0 + select(r, r - HALF, is_up));
    let format = params.segment[s_load].format;

    var sums = Sums();
    for (var g = 0u; g < params.groups; g += TILE_GROUPS) {
        tile_load(i, format, start, g, t0, n);
        workgroupBarrier();
        sums = tile_products(i, sums);
        workgroupBarrier();
    }

    let row = row0 + (i & 15u);
    let t = t0 + (i >> 4u);
    write(s, t, row, n, sums.lo[0], sums.hi[0]);
    write(s, t + 16u, row, n, sums.lo[1], sums.hi[1]);
    write(s, t + 32u, row, n, sums.lo[2], sums.hi[2]);
    write(s, t + 48u, row, n, sums.lo[3], sums.hi[3]);
}

// Rows row, row + 16, .. of token t: four in lo, and with 128 rows four more in hi.
fn write(s: u32, t: u32, row: u32, n: u32, lo: vec4<f32>, hi: vec4<f32>) {
    if (t >= n) {
        return;
    }
    let rows = params.segment[s].rows;
    if (EPILOGUE == 2u) {
        // The first half of the tile is gate, the second up.
        if (TILE_ROWS == 64u) {
            if (row < rows) { put_gated(t, row, lo.x, lo.z); }
            if (row + 16u < rows) { put_gated(t, row + 16u, lo.y, lo.w); }
        } else {
            if (row < rows) { put_gated(t, row, lo.x, hi.x); }
            if (row + 16u < rows) { put_gated(t, row + 16u, lo.y, hi.y); }
            if (row + 32u < rows) { put_gated(t, row + 32u, lo.z, hi.z); }
            if (row + 48u < rows) { put_gated(t, row + 48u, lo.w, hi.w); }
        }
        return;
    }
    write4(s, t, row, rows, lo);
    if (TILE_ROWS == 128u) {
        write4(s, t, row + 64u, rows, hi);
    }
}

fn write4(s: u32, t: u32, row: u32, rows: u32, dots: vec4<f32>) {
    let r = params.segment[s].out_row + row;
    if (row < rows) { put(t, r, dots.x); }
    if (row + 16u < rows) { put(t, r + 16u, dots.y); }
    if (row + 32u < rows) { put(t, r + 32u, dots.z); }
    if (row + 48u < rows) { put(t, r + 48u, dots.w); }
}
