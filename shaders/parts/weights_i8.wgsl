// Weights as packed signed bytes, for kernels that multiply them with activations rounded to
// bytes: `precision: "fast"`. Same names as weights_f32, as far as there are both.

// 32 consecutive weights of a row: byte c of word j of q0 is weight 4j + c, of q1 16 + 4j + c, signed, and
//   w = d.x * q0 + m.x,   w = d.y * q1 + m.y
struct W32 {
    q0: vec4<u32>,
    q1: vec4<u32>,
    d: vec2<f32>,
    m: vec2<f32>,
}

// 32 weights that are bytes below 128 times a scale, plus an offset, for each sixteen.
fn weights_numbers(q0: vec4<u32>, q1: vec4<u32>, d: vec2<f32>, m: vec2<f32>) -> W32 {
    return W32(q0, q1, d, m);
}

// The same of nibbles: weight i in the low nibble of byte i, weight 16 + i in the high one.
fn weights_nibbles(words: vec4<u32>, d: vec2<f32>, m: vec2<f32>) -> W32 {
    return W32(weights_nibbles0(words), weights_nibbles1(words), d, m);
}

// The same of signed bytes, without an offset.
fn weights_bytes(q0: vec4<u32>, q1: vec4<u32>, d: vec2<f32>) -> W32 {
    return W32(q0, q1, d, vec2<f32>());
}

// Activations are rounded in groups of 32: x = scale * q, q in -127..127, scale = (the largest |x|) / 127. What a group is
// multiplied with before pack4x8snorm rounds it; the scale of a group of zeros does not matter.
fn weights_x_factor(top: f32) -> f32 {
    return 1.0 / max(top, 1e-30);
}

fn weights_x_scale(top: f32) -> f32 {
    return top * (1.0 / 127.0);
}

// The offset m of a row is multiplied with the sum of the *rounded* x. Then an error e of x becomes w * e of the product, and not
// (w - m) * e, which is about twice that: formats with an offset have all their q on one side of zero. (SmolLM2 Q4_1 over 256
// tokens: a divergence of 2.8e-3 from the exact distributions, and of 1.3e-2 with the sum before rounding.)
fn weights_sum(q: vec4<u32>) -> i32 {
    return weights_dot(q, vec4<u32>(0x01010101u));
}

// Sixteen products: at most 16 * 128 * 127.
fn weights_dot(a: vec4<u32>, b: vec4<u32>) -> i32 {
    return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z) + dot4I8Packed(a.w, b.w);
}
