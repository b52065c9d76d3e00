// Rotary embedding of the pairs (i, i + ROT_DIM / 2), for ROT_DIM a multiple of 8 (else: rope_neox_any).
// From the linker: ROT_DIM. A kernel declares `rope_table`: vec2(cos, sin) [context, ROT_DIM / 2], made in f64, since a
// device's own sin is off by 1e-4 and worse.
// Same signature in all parts/rope_*: numbers 4d..4d+4 of a normed head (parts/qk_norm) at position `pos`.

const HALF4: u32 = ROT_DIM / 8u; // half of what is rotated, in vec4

fn rotated4(head: u32, w: u32, r: f32, d: u32, pos: u32) -> vec4<f32> {
    let x = normed4(head, w, r, d);
    if (d >= 2u * HALF4) {
        return x;
    }
    let first = d < HALF4;
    let pair = select(d - HALF4, d, first);
    let y = normed4(head, w, r, select(pair, pair + HALF4, first));
    let t = 4u * (pos * HALF4 + pair);
    let t0 = rope_table[t];
    let t1 = rope_table[t + 1u];
    let t2 = rope_table[t + 2u];
    let t3 = rope_table[t + 3u];
    let c = vec4<f32>(t0.x, t1.x, t2.x, t3.x);
    let s = vec4<f32>(t0.y, t1.y, t2.y, t3.y);
    return x * c + select(y, -y, first) * s;
}
