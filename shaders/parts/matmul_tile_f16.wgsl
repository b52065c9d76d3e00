// The tiles of matmul in f16: 64 tokens and 128 rows of 32 columns in 12.25 KiB. Same names and signatures as
// matmul_tile_f32, where the swizzle is explained.
// Gemma's activations exceed f16's range, and so do sums of products: each token's group of 32 is divided by its largest
// magnitude, four products of numbers below 1 and weights are summed in f16, and all further sums are in f32. (Eight took a
// tiny Gemma 2 from the tolerance of 5e-2 on a logit to 5.4e-2.)

const TILE_TOKENS: u32 = 64u;
const TILE_ROWS: u32 = 128u;
const TILE_GROUPS: u32 = 1u; // of 32 columns at a time

var<workgroup> tile_x: array<vec4<f16>, 512>;  // [token][c ^ (token & 7)], x / scale
var<workgroup> tile_w: array<vec4<f16>, 1024>; // [row][c ^ (row & 7)]
var<workgroup> tile_scale: array<f32, 64>;     // [token]

// Column a: token ty + 16 a; component j: row tx + 16 j (lo), tx + 64 + 16 j (hi).
struct Sums { lo: mat4x4<f32>, hi: mat4x4<f32> }

// The row of the tile whose weights invocation i loads: those of 64 and up do.
fn tile_row(i: u32) -> u32 {
    return clamp(i, TILE_TOKENS, TILE_TOKENS + TILE_ROWS - 1u) - TILE_TOKENS;
}

// Invocations 0..64 load a token's group each, 64..192 decode a row's. Tokens from n on repeat the last.
fn tile_load(i: u32, format: u32, start: u32, g: u32, t0: u32, n: u32) {
    let z = i & 7u;
    if (i < TILE_TOKENS) {
        let first = (min(t0 + i, n - 1u) * params.groups + g) * 8u;
        let a = mat4x4<f32>(x[first], x[first + 1u], x[first + 2u], x[first + 3u]);
        let b = mat4x4<f32>(x[first + 4u], x[first + 5u], x[first + 6u], x[first + 7u]);
        let top4 = max(
            max(max(abs(a[0]), abs(a[1])), max(abs(a[2]), abs(a[3]))),
            max(max(abs(b[0]), abs(b[1])), max(abs(b[2]), abs(b[3]))),
        );
        let top = max(max(top4.x, top4.y), max(top4.z, top4.w));
        let factor = 1.0 / max(top, 1e-30);
        let at = i * 8u;
        tile_scale[i] = top;
        tile_x[at + z] = vec4<f16>(a[0] * factor);
        tile_x[at + (1u ^ z)] = vec4<f16>(a[1] * factor);
        tile_x[at + (2u ^ z)] = vec4<f16>(a[2] * factor);
        tile_x[at + (3u ^ z)] = vec4<f16>(a[3] * factor);
        tile_x[at + (4u ^ z)] = vec4<f16>(b[0] * factor);
        tile_x[at + (5u ^ z)] = vec4<f16>(b[1] * factor);
        tile_x[at + (6u ^ z)] = vec4<f16>(b[2] * factor);
        tile_x[at + (7u ^ z)] = vec4<f16>(b[3] * factor);
    } else if (i < TILE_TOKENS + TILE_ROWS) {
        let w = load_w(format, start, g, params.groups);
        let at = (i - TILE_TOKENS) * 8u;
        let m0 = vec4<f32>(w.m.x);
        let m1 = vec4<f32>(w.m.y);
        tile_w[at + z] = vec4<f16>(w.q0[0] * w.d0 + m0);
        tile_w[at + (1u ^ z)] = vec4<f16>(w.q0[1] * w.d0 + m0);
        tile_w[at + (2u ^ z)] = vec4<f16>(w.q0[2] * w.d0 + m0);
        tile_w[at + (3u ^ z)] = vec4<f16>(w.q0[3] * w.d0 + m0);
        tile_w[at + (4u ^ z)] = vec4<f16>(w.q1[0] * w.d1 + m1);
        tile_w[at + (5u ^ z)] = vec4<f16>(w.q1[1] * w.d1 + m1);
        tile_w[at + (6u ^ z)] = vec4<f16>(w.q1[2] * w.d1 + m1);
        tile_w[at + (7u ^ z)] = vec4<f16>(w.q1[3] * w.d1 + m1);
    }
}

fn four_rows(at: u32) -> mat4x4<f16> {
    return mat4x4<f16>(tile_w[at], tile_w[at + 128u], tile_w[at + 256u], tile_w[at + 384u]);
}

fn tile_products(i: u32, sums: Sums) -> Sums {
    let tx = i & 15u;
    let ty = i >> 4u;
    var lo = mat4x4<f32>(); // of this group alone, before the scale
    var hi = mat4x4<f32>();
    for (var c = 0u; c < 8u; c++) {
        let w = tx * 8u + (c ^ (tx & 7u)); // rows and tokens 16 apart have the same low bits
        let x_w = ty * 8u + (c ^ (ty & 7u));
        let w_lo = four_rows(w);
        let w_hi = four_rows(w + 512u);
        lo = mat4x4<f32>(
            lo[0] + vec4<f32>(tile_x[x_w] * w_lo),
            lo[1] + vec4<f32>(tile_x[x_w + 128u] * w_lo),
            lo[2] + vec4<f32>(tile_x[x_w + 256u] * w_lo),
            lo[3] + vec4<f32>(tile_x[x_w + 384u] * w_lo),
        );
        hi = mat4x4<f32>(
            hi[0] + vec4<f32>(tile_x[x_w] * w_hi),
            hi[1] + vec4<f32>(tile_x[x_w + 128u] * w_hi),
            hi[2] + vec4<f32>(tile_x[x_w + 256u] * w_hi),
            hi[3] + vec4<f32>(tile_x[x_w + 384u] * w_hi),
        );
    }
    let scale = vec4<f32>(tile_scale[ty], tile_scale[ty + 16u], tile_scale[ty + 32u], tile_scale[ty + 48u]);
    return Sums(
        mat4x4<f32>(
            sums.lo[0] + lo[0] * scale.x,
            sums.lo[1] + lo[1] * scale.y,
            sums.lo[2] + lo[2] * scale.z,
            sums.lo[3] + lo[3] * scale.w,
        ),
        mat4x4<f32>(
            sums.hi[0] + hi[0] * scale.x,
            sums.hi[1] + hi[1] * scale.y,
            sums.hi[2] + hi[2] * scale.z,
            sums.hi[3] + hi[3] * scale.w,
        ),
    );
}
