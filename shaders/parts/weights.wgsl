// What the parts in quant/ share: the type they hand to kernels, and the unpacking of bytes and block scales.
// A kernel declares `weights: array<vec4<u32>>` (storage, read). A row of n groups of 32 weights is up to four streams one
// after another, each padded to a vec4: quants | high bits | scales | block scales (src/quant/mod.rs).

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

// The two f16 of a word. Block scales of small weights are subnormal in f16 (below 6.1e-5), and WGSL lets a device flush
// those in unpack2x16float, which would silently zero whole blocks: they are converted as integers. (lavapipe and SwiftShader
// flush nothing; the care costs no measurable time.)
fn weights_half2(word: u32) -> vec2<f32> {
    let bits = vec2<u32>(word, word >> 16u);
    let magnitude = bits & vec2<u32>(0x7fffu);
    let small = vec2<f32>(vec2<i32>(magnitude)) * 5.9604644775390625e-8; // 2^-24, a subnormal's unit
    let signed_small = select(small, -small, (bits & vec2<u32>(0x8000u)) != vec2<u32>(0u));
    return select(unpack2x16float(word), signed_small, magnitude < vec2<u32>(0x0400u));
}

// The f16 in the low half of a word.
fn weights_half(word: u32) -> f32 {
    let magnitude = word & 0x7fffu;
    let small = f32(i32(magnitude)) * 5.9604644775390625e-8;
    let signed_small = select(small, -small, (word & 0x8000u) != 0u);
    return select(unpack2x16float(word).x, signed_small, magnitude < 0x0400u);
}

// The f16 at position i of a stream of f16 that begins at vec4 `start`.
fn weights_half_at(start: u32, i: u32) -> f32 {
    return weights_half(weights[start + (i >> 3u)][(i >> 1u) & 3u] >> (16u * (i & 1u)));
}

// The word at position i of a stream of words that begins at vec4 `start`.
fn weights_word_at(start: u32, i: u32) -> u32 {
    return weights[start + (i >> 2u)][i & 3u];
}

const WEIGHTS_FIFTH: vec4<u32> = vec4<u32>(0x10101010u);

// A group's low nibbles, one a byte: weight i in the low nibble of byte i, weight 16 + i in the high one.
fn weights_nibbles0(words: vec4<u32>) -> vec4<u32> {
    return words & vec4<u32>(0x0f0f0f0fu);
}

fn weights_nibbles1(words: vec4<u32>) -> vec4<u32> {
    return (words >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
}

// The same as numbers: weights_u8x16 of them with one mask instead of two.
fn weights_u4(word: u32) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(vec4<u32>(word) & vec4<u32>(0xfu, 0xf00u, 0xf0000u, 0xf000000u)));
}

fn weights_u4x16(words: vec4<u32>) -> mat4x4<f32> {
    return mat4x4<f32>(weights_u4(words.x), weights_u4(words.y), weights_u4(words.z), weights_u4(words.w));
}

// A group's fifth bits, moved to bit 4 of the byte of their weight: bit 8b + c of `high` belongs to weight 4c + b.
fn weights_fifth0(high: u32) -> vec4<u32> {
    return (vec4<u32>(high) << vec4<u32>(4u, 3u, 2u, 1u)) & WEIGHTS_FIFTH;
}

fn weights_fifth1(high: u32) -> vec4<u32> {
    return (vec4<u32>(high) >> vec4<u32>(0u, 1u, 2u, 3u)) & WEIGHTS_FIFTH;
}

// The six-bit scale and minimum of group i (0..8) of a K block, from its header: d and dmin (f16) in x, then twelve
// bytes: six bits of scale for groups 0..4, six of minimum for 0..4 (the top two bits of both are the top of groups
// 4..8), four bits each of scale and minimum for 4..8. Gives d * scale and dmin * minimum.
fn weights_k_scales(head: vec4<u32>, i: u32) -> vec2<f32> {
    let shift = 8u * (i & 3u);
    let packed = head.yzw >> vec3<u32>(shift);
    let low = packed.xy & vec2<u32>(63u);
    let high = (vec2<u32>(packed.z, packed.z >> 4u) & vec2<u32>(15u)) | ((packed.xy >> vec2<u32>(2u)) & vec2<u32>(48u));
    return weights_half2(head.x) * vec2<f32>(select(low, high, i >= 4u));
}
