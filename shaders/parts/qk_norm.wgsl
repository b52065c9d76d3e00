// Heads of q and k as they lie in `qkv`, RMS-normed where the model does that (Gemma 3, Qwen 3).
// From the linker: QK_NORM (0: no norm). A kernel declares `qkv` and `qk_norm`: vec4 [q | k][HEAD_DIM / 4].
// `head` is where the head starts in `qkv`, `w` where its norm weights start (0 or D4), both in vec4; `r` comes from
// norm_factor.

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
