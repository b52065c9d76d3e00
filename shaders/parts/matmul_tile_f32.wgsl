// The tiles of matmul in f32: 64 tokens and 64 rows of 32 columns, exactly the 16 KiB that every device has. There is no
// room to pad rows against bank conflicts, so the column of row r is stored at c ^ (r & 7): eight neighbouring rows lie in
// eight different banks of 16 bytes. Same names and signatures as matmul_tile_f16.

const TILE_TOKENS: u32 = 64u;
const TILE_ROWS: u32 = 64u;
const TILE_GROUPS: u32 = 1u; // of 32 columns at a time

var<workgroup> tile_x: array<vec4<f32>, 512>; // [token][c ^ (token & 7)], c of 8 vec4
var<workgroup> tile_w: array<vec4<f32>, 512>; // [row][c ^ (row & 7)]

// Column a: token ty + 16 a; component j: row tx + 16 j. hi is not used here.
struct Sums { lo: mat4x4<f32>, hi: mat4x4<f32> }

// The row of the tile whose weights invocation i loads.
fn tile_row(i: u32) -> u32 {
    return min(i, TILE_ROWS - 1u);
}

// Invocations 0..64 decode a row's group each; the other 192 load x meanwhile. Tokens from n on repeat the last.
fn tile_load(i: u32, format: u32, start: u32, g: u32, t0: u32, n: u32) {
    if (i < TILE_ROWS) {
        let w = load_w(format, start, g, params.groups);
        let at = i * 8u;
        let z = i & 7u;
        let m0 = vec4<f32>(w.m.x);
        let m1 = vec4<f32>(w.m.y);
        tile_w[at + z] = w.q0[0] * w.d0 + m0;
        tile_w[at + (1u ^ z)] = w.q0[1] * w.d0 + m0;
        tile_w[at + (2u ^ z)] = w.q0[2] * w.d0 + m0;
        tile_w[at + (3u ^ z)] = w.q0[3] * w.d0 + m0;
        tile_w[at + (4u ^ z)] = w.q1[0] * w.d1 + m1;
        tile_w[at + (5u ^ z)] = w.q1[1] * w.d1 + m1;
        tile_w[at + (6u ^ z)] = w.q1[2] * w.d1 + m1;
        tile_w[at + (7u ^ z)] = w.q1[3] * w.d1 + m1;
        return;
    }
    for (var k = i - TILE_ROWS; k < TILE_TOKENS * 8u; k += 256u - TILE_ROWS) {
        let t = k >> 3u;
        let c = k & 7u;
        tile_x[(t << 3u) + (c ^ (t & 7u))] = x[(min(t0 + t, n - 1u) * params.groups + g) * 8u + c];
    }
}

fn tile_products(i: u32, sums: Sums) -> Sums {
    let tx = i & 15u;
    let ty = i >> 4u;
    var s = sums.lo;
    for (var c = 0u; c < 8u; c++) {
        let at_w = tx * 8u + (c ^ (tx & 7u)); // rows and tokens 16 apart have the same low bits
        let at_x = ty * 8u + (c ^ (ty & 7u));
        let w = mat4x4<f32>(tile_w[at_w], tile_w[at_w + 128u], tile_w[at_w + 256u], tile_w[at_w + 384u]);
        s = mat4x4<f32>(
            s[0] + tile_x[at_x] * w,
            s[1] + tile_x[at_x + 128u] * w,
            s[2] + tile_x[at_x + 256u] * w,
            s[3] + tile_x[at_x + 384u] * w,
        );
    }
    return Sums(s, sums.hi);
}
