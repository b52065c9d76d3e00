// The heads of q and k as attention wants them: RMS-normed where the model does that, then rotated (RoPE).
// From the linker: ROT_DIM, ROPE, QK_NORM (0: no norm). A kernel declares `qkv`, `rope_table` and `qk_norm`:
//   rope_table: vec2(cos, sin) [context, ROT_DIM / 2], made in f64: a device's own sin is off by 1e-4 and worse
//   qk_norm:    vec4 [q | k][HEAD_DIM / 4]
// `head` is where the head starts in `qkv`, `w` where its norm weights start (0 or D4), both in vec4; `r` comes from
// norm_factor.

const ROPE_NONE: u32 = 0u;
const ROPE_INTERLEAVED: u32 = 1u; // pairs (2i, 2i + 1)
const ROPE_NEOX: u32 = 2u;        // pairs (i, i + ROT_DIM / 2), ROT_DIM a multiple of 8
const ROPE_NEOX_ODD: u32 = 3u;    // the same, for other ROT_DIM: one number at a time
const HALF: u32 = ROT_DIM / 2u;

// sum_squares: of the head's numbers.
fn norm_factor(sum_squares: f32) -> f32 {
    return 1.0 / sqrt(sum_squares / f32(HEAD_DIM) + params.eps);
}

fn normed4(head: u32, w: u32, r: f32, d: u32) -> vec4<f32> {
    if (QK_NORM == 0u) {
        return qkv[head + d];
    }
    return qkv[head + d] * r * qk_norm[w + d];
}

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

// Numbers 4d..4d+4 of the head at position `pos`.
fn rotated4(head: u32, w: u32, r: f32, d: u32, pos: u32) -> vec4<f32> {
    if (ROPE == ROPE_NEOX_ODD) {
        let i = 4u * d;
        return vec4<f32>(
            rotated1(head, w, r, i, pos),
            rotated1(head, w, r, i + 1u, pos),
            rotated1(head, w, r, i + 2u, pos),
            rotated1(head, w, r, i + 3u, pos),
        );
    }
    let x = normed4(head, w, r, d);
    if (ROPE == ROPE_NONE || 4u * d >= ROT_DIM) {
        return x;
    }
    if (ROPE == ROPE_INTERLEAVED) {
        let t = pos * HALF + 2u * d;
        let a = rope_table[t];
        // Where ROT_DIM is 2 modulo 4, the last two of its last vec4 stay as they are.
        var b = vec2<f32>(1.0, 0.0);
        if (4u * d + 2u < ROT_DIM) {
            b = rope_table[t + 1u];
        }
        return vec4<f32>(x.x * a.x - x.y * a.y, x.x * a.y + x.y * a.x, x.z * b.x - x.w * b.y, x.z * b.y + x.w * b.x);
    }
    let first = d < HALF / 4u;
    let pair = select(d - HALF / 4u, d, first);
    let y = normed4(head, w, r, select(pair, pair + HALF / 4u, first));
    let t = pos * HALF + 4u * pair;
    let t0 = rope_table[t];
    let t1 = rope_table[t + 1u];
    let t2 = rope_table[t + 2u];
    let t3 = rope_table[t + 3u];
    let c = vec4<f32>(t0.x, t1.x, t2.x, t3.x);
    let s = vec4<f32>(t0.y, t1.y, t2.y, t3.y);
    return x * c + select(y, -y, first) * s;
}
