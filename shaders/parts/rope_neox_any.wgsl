// Rotary embedding of the pairs (i, i + ROT_DIM / 2), for any even ROT_DIM (StableLM rotates 20 of 80): one number at a time.
// From the linker: ROT_DIM. A kernel declares `rope_table`: vec2(cos, sin) [context, ROT_DIM / 2], made in f64, since a
// device's own sin is off by 1e-4 and worse.
// Same signature in all parts/rope_*: numbers 4d..4d+4 of a normed head (parts/qk_norm) at position `pos`.

const HALF: u32 = ROT_DIM / 2u;

fn normed1(head: u32, w: u32, r: f32, i: u32) -> f32 {
    return normed4(head, w, r, i >> 2u)[i & 3u];
}

fn rotated1(head: u32, w: u32, r: f32, i: u32, pos: u32) -> f32 {
    let x = normed1(head, w, r, i);
    if (i >= ROT_DIM) {
        return x;
    }
    let first = i < HALF;
    let pair = select(i - HALF, i, first);
    let y = normed1(head, w, r, select(pair, pair + HALF, first));
    let turn = rope_table[pos * HALF + pair];
    return x * turn.x + select(y, -y, first) * turn.y;
}

fn rotated4(head: u32, w: u32, r: f32, d: u32, pos: u32) -> vec4<f32> {
    let i = 4u * d;
    return vec4<f32>(
        rotated1(head, w, r, i, pos),
        rotated1(head, w, r, i + 1u, pos),
        rotated1(head, w, r, i + 2u, pos),
        rotated1(head, w, r, i + 3u, pos),
    );
}
