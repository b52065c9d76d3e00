// The tiles of matmul in packed bytes, for `precision: "fast"`: 64 tokens and 64 rows of 64 columns in 12 KiB. Both are a word for
// four columns; activations are rounded in groups of 32 as the matvec rounds them (parts/weights_i8), so two groups at a time give
// each of the 256 invocations one group to load. Same names and signatures as matmul_tile_f32.

const TILE_TOKENS: u32 = 64u;
const TILE_ROWS: u32 = 64u;
const TILE_GROUPS: u32 = 2u;

// By half group, of which there are four. Neighbours in a row of vec4 lie in different banks: no swizzle.
var<workgroup> tile_x: array<vec4<u32>, 256>;       // [half][token]
var<workgroup> tile_w: array<vec4<u32>, 256>;       // [half][row]
var<workgroup> tile_x_scale: array<vec2<f32>, 256>; // [half][token]: scale, scale * Σ of the half's bytes
var<workgroup> tile_w_scale: array<vec2<f32>, 256>; // [half][row]: d, m

// Column a: token ty + 16 a; component j: row tx + 16 j. hi is not used here.
struct Sums { lo: mat4x4<f32>, hi: mat4x4<f32> }

// The row of the tile whose weights invocation i loads.
fn tile_row(i: u32) -> u32 {
    return i & 63u;
}

// Invocations 0..128 load a group of a row each, the others round a group of a token. Tokens from n on repeat the last. Behind the
// last group come weights of zero.
fn tile_load(i: u32, format: u32, start: u32, g0: u32, t0: u32, n: u32) {
    let lane = i & 63u;
    let second = (i >> 6u) & 1u;
    let g = min(g0 + second, params.groups - 1u);
    let at = second * 128u + lane;
    if (i < 128u) {
        let w = load_w(format, start, g, params.groups);
        let is_there = g0 + second < params.groups;
        tile_w[at] = w.q0;
        tile_w[at + 64u] = w.q1;
        tile_w_scale[at] = select(vec2<f32>(), vec2<f32>(w.d.x, w.m.x), is_there);
        tile_w_scale[at + 64u] = select(vec2<f32>(), vec2<f32>(w.d.y, w.m.y), is_there);
        return;
    }
    let first = (min(t0 + lane, n - 1u) * params.groups + g) * 8u;
    let a = mat4x4<f32>(x[first], x[first + 1u], x[first + 2u], x[first + 3u]);
    let b = mat4x4<f32>(x[first + 4u], x[first + 5u], x[first + 6u], x[first + 7u]);
    let tops = max(
        max(max(abs(a[0]), abs(a[1])), max(abs(a[2]), abs(a[3]))),
        max(max(abs(b[0]), abs(b[1])), max(abs(b[2]), abs(b[3]))),
    );
    let top = max(max(tops.x, tops.y), max(tops.z, tops.w));
    let f = weights_x_factor(top);
    let p = vec4<u32>(pack4x8snorm(a[0] * f), pack4x8snorm(a[1] * f), pack4x8snorm(a[2] * f), pack4x8snorm(a[3] * f));
    let q = vec4<u32>(pack4x8snorm(b[0] * f), pack4x8snorm(b[1] * f), pack4x8snorm(b[2] * f), pack4x8snorm(b[3] * f));
    let scale = weights_x_scale(top);
    tile_x[at] = p;
    tile_x[at + 64u] = q;
    tile_x_scale[at] = vec2<f32>(scale, scale * f32(weights_sum(p)));
    tile_x_scale[at + 64u] = vec2<f32>(scale, scale * f32(weights_sum(q)));
}

// A token's products with four rows of half a group.
fn tile_token(at: u32, w: array<vec4<u32>, 4>, d: vec4<f32>, m: vec4<f32>) -> vec4<f32> {
    let q = tile_x[at];
    let s = tile_x_scale[at];
    let dots = vec4<i32>(weights_dot(w[0], q), weights_dot(w[1], q), weights_dot(w[2], q), weights_dot(w[3], q));
    return s.x * d * vec4<f32>(dots) + s.y * m;
}

fn tile_products(i: u32, sums: Sums) -> Sums {
    var s = sums.lo;
    for (var h = 0u; h < 2u * TILE_GROUPS; h++) {
        let at_w = h * 64u + (i & 15u);
        let at_x = h * 64u + (i >> 4u);
        let w = array<vec4<u32>, 4>(tile_w[at_w], tile_w[at_w + 16u], tile_w[at_w + 32u], tile_w[at_w + 48u]);
        let c0 = tile_w_scale[at_w];
        let c1 = tile_w_scale[at_w + 16u];
        let c2 = tile_w_scale[at_w + 32u];
        let c3 = tile_w_scale[at_w + 48u];
        let d = vec4<f32>(c0.x, c1.x, c2.x, c3.x);
        let m = vec4<f32>(c0.y, c1.y, c2.y, c3.y);
        s = mat4x4<f32>(
            s[0] + tile_token(at_x, w, d, m),
            s[1] + tile_token(at_x + 16u, w, d, m),
            s[2] + tile_token(at_x + 32u, w, d, m),
            s[3] + tile_token(at_x + 48u, w, d, m),
        );
    }
    return Sums(s, sums.hi);
}
