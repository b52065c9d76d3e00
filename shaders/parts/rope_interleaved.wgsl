// Rotary embedding of the pairs (2i, 2i + 1).
// From the linker: ROT_DIM. A kernel declares `rope_table`: vec2(cos, sin) [context, ROT_DIM / 2], made in f64, since a
// device's own sin is off by 1e-4 and worse.
// Same signature in all parts/rope_*: numbers 4d..4d+4 of a normed head (parts/qk_norm) at position `pos`.

fn rotated4(head: u32, w: u32, r: f32, d: u32, pos: u32) -> vec4<f32> {
    let x = normed4(head, w, r, d);
    if (4u * d >= ROT_DIM) {
        return x;
    }
    let t = pos * (ROT_DIM / 2u) + 2u * d;
    let a = rope_table[t];
    // Where ROT_DIM is 2 modulo 4, the last two of its last vec4 stay as they are.
    var b = vec2<f32>(1.0, 0.0);
    if (4u * d + 2u < ROT_DIM) {
        b = rope_table[t + 1u];
    }
    return vec4<f32>(x.x * a.x - x.y * a.y, x.x * a.y + x.y * a.x, x.z * b.x - x.w * b.y, x.z * b.y + x.w * b.x);
}
