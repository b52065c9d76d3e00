// Q6_K: w = d * scale * (q - 32), a scale for every 16 weights. A row: low bits (a vec4 a group) | high bits (two words a
// group) | scales (16 signed bytes a block of 256) | d (f16 a block).

// The high bits of sixteen weights, moved to bits 4 and 5 of their bytes: bits 8b + 2c and the next are those of 4c + b.
fn qa_high(high: u32) -> vec4<u32> {
    return vec4<u32>(high << 4u, high << 2u, high, high >> 2u) & vec4<u32>(0x30303030u);
}

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row, a multiple of 8.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let words = weights[row + g];
    let high = weights_words_at(row + n, g);
    let scales_at = row + n + (n >> 1u);
    let block = g >> 3u;
    // Two signed bytes, the scales of the group's halves.
    let bytes = vec2<u32>(weights[scales_at + block][(g >> 1u) & 3u]) << (vec2<u32>(24u, 16u) - vec2<u32>(16u * (g & 1u)));
    let scales = vec2<f32>(bitcast<vec2<i32>>(bytes) >> vec2<u32>(24u));
    let d = weights_half_at(scales_at + (n >> 3u), block) * scales;
    return weights_numbers(weights_nibbles0(words) | qa_high(high.x), weights_nibbles1(words) | qa_high(high.y), d, -32.0 * d);
}
