// IQ3_XXS: w = d * (1 + 2 * scale) / 4 * ±magnitude. A row: indices (8 bytes a group) | signs and scale (a word a group) | d (f16 a
// block of 256).

// Sixteen weights from four indices and four times four signs.
fn qa_bytes(indices: u32, signs: vec2<u32>) -> vec4<u32> {
    let index = (vec4<u32>(indices) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
    return codebooks_iq3(index + CODEBOOKS_IQ3_XXS, signs.xxyy >> vec4<u32>(0u, 4u, 0u, 4u));
}

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row, a multiple of 8.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let pair = weights[row + (g >> 1u)];
    let indices = select(pair.xy, pair.zw, (g & 1u) == 1u);
    let word = weights_word_at(row + (n >> 1u), g);
    let signs = codebooks_even_signs(vec4<u32>(word) >> vec4<u32>(0u, 7u, 14u, 21u));
    let d = weights_half_at(row + (n >> 1u) + (n >> 2u), g >> 3u) * (f32(i32(word >> 28u)) + 0.5) * 0.5;
    return weights_bytes(qa_bytes(indices.x, signs.xy), qa_bytes(indices.y, signs.zw), vec2<f32>(d));
}
