// What the parts in quant/ share: the unpacking of bytes and block scales. Links with weights_f32 or weights_i8, which say in
// what form the parts hand their weights to kernels: both have weights_numbers, weights_nibbles and weights_bytes.
// A kernel declares `weights: array<vec4<u32>>` (storage, read). A row of n groups of 32 weights is up to four streams one
// after another, each padded to a vec4: quants | high bits | scales | block scales (src/quant/mod.rs).

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

// The two words at position i of a stream of pairs of words that begins at vec4 `start`.
fn weights_words_at(start: u32, i: u32) -> vec2<u32> {
    let words = weights[start + (i >> 1u)];
    return select(words.xy, words.zw, (i & 1u) == 1u);
}

// The two bits each of sixteen weights, one a byte: bits 8b + 2c and the next of the word belong to weight 4c + b.
fn weights_pairs(word: u32) -> vec4<u32> {
    return (vec4<u32>(word) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(0x03030303u);
}

const WEIGHTS_FIFTH: vec4<u32> = vec4<u32>(0x10101010u);

// A group's low nibbles, one a byte: weight i in the low nibble of byte i, weight 16 + i in the high one.
fn weights_nibbles0(words: vec4<u32>) -> vec4<u32> {
    return words & vec4<u32>(0x0f0f0f0fu);
}

fn weights_nibbles1(words: vec4<u32>) -> vec4<u32> {
    return (words >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
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
