// A GPU matvec's input where what the matrix before made, d, is still to be normed and added to x (Gemma's norms after a block):
//
//   x' = x + d * w / sqrt(mean(d²) + eps)
//
// Each workgroup takes mean(d²) itself, over what its loads bring into the cache anyway: a reduction instead of a
// dispatch. (The factor could be deferred like that of the norm behind it; then each row has two dot products.) The first
// workgroup stores x', in another buffer since others still read x. Same signatures as x_each.

@group(0) @binding(6) var<storage, read> added: array<vec4<f32>>;           // d [cols]
@group(0) @binding(7) var<storage, read> added_norm: array<vec4<f32>>;      // w [cols]
@group(0) @binding(8) var<storage, read_write> x_next: array<vec4<f32>>;    // x' [cols]

var<private> added_factor: f32;
var<private> stores_x: bool;

// In uniform control flow.
fn x_prepare(wg: u32, i: u32) {
    var squares = 0.0;
    for (var k = i; k < params.groups * 8u; k += WG) {
        squares += dot(added[k], added[k]);
    }
    added_factor = inverseSqrt(reduce_sum(squares, i) / f32(params.groups * 32u) + params.eps);
    stores_x = wg == 0u;
}

fn x_sum(at: u32) -> vec4<f32> {
    let sum = x[at] + added[at] * added_factor * added_norm[at];
    if (stores_x) {
        x_next[at] = sum;
    }
    return sum;
}

fn load_x(g: u32, lane: u32) -> X32 {
    let at = g * 8u;
    return x_normed(
        g,
        mat4x4<f32>(x_sum(at), x_sum(at + 1u), x_sum(at + 2u), x_sum(at + 3u)),
        mat4x4<f32>(x_sum(at + 4u), x_sum(at + 5u), x_sum(at + 6u), x_sum(at + 7u)),
    );
}
