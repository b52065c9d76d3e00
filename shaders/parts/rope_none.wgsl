// No rotary embedding. A kernel declares `rope_table` and does not read it.
// Same signature in all parts/rope_*: numbers 4d..4d+4 of a normed head (parts/qk_norm) at position `pos`.

fn rotated4(head: u32, w: u32, r: f32, d: u32, pos: u32) -> vec4<f32> {
    return normed4(head, w, r, d);
}
