// Weights as floats. Same names as weights_i8, as far as there are both.

// 32 consecutive weights of a row: component c of column j of q0 is weight 4j + c, of q1 16 + 4j + c, and
//   w = d0[c] * q0[j][c] + m.x,   w = d1[c] * q1[j][c] + m.y
// A kernel that sums x * w multiplies by d and m once for 16 weights: dot(d0, sum_j q0[j] * x[j]) + m.x * sum(x).
struct W32 {
    q0: mat4x4<f32>,
    q1: mat4x4<f32>,
    d0: vec4<f32>,
    d1: vec4<f32>,
    m: vec2<f32>,
}

// Bytes are masked and not shifted: byte c of a word becomes a number 256^c times too large, which costs nothing, since its
// component of d takes that back, exactly. A shift of every byte would cost a SIMD CPU a scalar shift for every lane: a matvec
// on SwiftShader took twice the time. By way of i32, since not every CPU converts u32 to f32 in one instruction.
const WEIGHTS_BYTE: vec4<f32> = vec4<f32>(1.0, 0x1p-8, 0x1p-16, 0x1p-24);

// d for bytes.
fn weights_byte_scale(d: f32) -> vec4<f32> {
    return d * WEIGHTS_BYTE;
}

// The four bytes of a word, unsigned (below 128) and signed.
fn weights_u8(word: u32) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(vec4<u32>(word) & vec4<u32>(0xffu, 0xff00u, 0xff0000u, 0xff000000u)));
}

// The lower three as byte + 128 first, since a mask cannot extend a sign.
fn weights_i8(word: u32) -> vec4<f32> {
    return weights_u8(word ^ 0x00808080u) - vec4<f32>(128.0, 32768.0, 8388608.0, 0.0);
}

// Sixteen consecutive weights, one a byte.
fn weights_u8x16(words: vec4<u32>) -> mat4x4<f32> {
    return mat4x4<f32>(weights_u8(words.x), weights_u8(words.y), weights_u8(words.z), weights_u8(words.w));
}

fn weights_i8x16(words: vec4<u32>) -> mat4x4<f32> {
    return mat4x4<f32>(weights_i8(words.x), weights_i8(words.y), weights_i8(words.z), weights_i8(words.w));
}

// Nibbles as numbers: weights_u8x16 of weights_nibbles0 with one mask instead of two.
fn weights_u4(word: u32) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(vec4<u32>(word) & vec4<u32>(0xfu, 0xf00u, 0xf0000u, 0xf000000u)));
}

fn weights_u4x16(words: vec4<u32>) -> mat4x4<f32> {
    return mat4x4<f32>(weights_u4(words.x), weights_u4(words.y), weights_u4(words.z), weights_u4(words.w));
}

// 32 weights that are bytes below 128 times a scale, plus an offset, for each sixteen.
fn weights_numbers(q0: vec4<u32>, q1: vec4<u32>, d: vec2<f32>, m: vec2<f32>) -> W32 {
    return W32(weights_u8x16(q0), weights_u8x16(q1), weights_byte_scale(d.x), weights_byte_scale(d.y), m);
}

// The same of nibbles: weight i in the low nibble of byte i, weight 16 + i in the high one.
fn weights_nibbles(words: vec4<u32>, d: vec2<f32>, m: vec2<f32>) -> W32 {
    let high = weights_u4x16(words >> vec4<u32>(4u));
    return W32(weights_u4x16(words), high, weights_byte_scale(d.x), weights_byte_scale(d.y), m);
}

// The same of signed bytes, without an offset.
fn weights_bytes(q0: vec4<u32>, q1: vec4<u32>, d: vec2<f32>) -> W32 {
    return W32(weights_i8x16(q0), weights_i8x16(q1), weights_byte_scale(d.x), weights_byte_scale(d.y), vec2<f32>());
}

// 32 decoded weights of a row: columns 4j .. 4j + 4 of the group are a[j], and b[j] from 16 on.
struct Row { a: mat4x4<f32>, b: mat4x4<f32> }

fn weights_scaled(q: mat4x4<f32>, d: vec4<f32>, m: f32) -> mat4x4<f32> {
    let offset = vec4<f32>(m);
    return mat4x4<f32>(q[0] * d + offset, q[1] * d + offset, q[2] * d + offset, q[3] * d + offset);
}

fn weights_row(w: W32) -> Row {
    return Row(weights_scaled(w.q0, w.d0, w.m.x), weights_scaled(w.q1, w.d1, w.m.y));
}
