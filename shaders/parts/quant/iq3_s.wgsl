// IQ3_S: w = d * (1 + 2 * scale) * ±magnitude. A row: indices (8 bytes a group) | signs (a word a group) | ninth bits of the
// indices (a byte a group) | scales (4 bits a group) | d (f16 a block of 256).

// Sixteen weights from four indices, their ninth bits and sixteen signs.
fn qa_bytes(low: u32, high: u32, signs: u32) -> vec4<u32> {
    let index = ((vec4<u32>(low) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u))
        | (((vec4<u32>(high) >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(1u)) << vec4<u32>(8u));
    return codebooks_iq3(index + CODEBOOKS_IQ3_S, vec4<u32>(signs) >> vec4<u32>(0u, 4u, 8u, 12u));
}

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row, a multiple of 8.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let pair = weights[row + (g >> 1u)];
    let low = select(pair.xy, pair.zw, (g & 1u) == 1u);
    let high_at = row + (n >> 1u) + (n >> 2u);
    let scales_at = high_at + ((n + 15u) >> 4u);
    let signs = weights_word_at(row + (n >> 1u), g);
    let high = weights_word_at(high_at, g >> 2u) >> (8u * (g & 3u));
    let scale = (weights_word_at(scales_at, g >> 3u) >> (4u * (g & 7u))) & 15u;
    let d = weights_half_at(scales_at + ((n + 31u) >> 5u), g >> 3u) * f32(i32(1u + 2u * scale));
    return weights_bytes(qa_bytes(low.x, high, signs), qa_bytes(low.y, high >> 4u, signs >> 16u), vec2<f32>(d));
}
