// IQ2_S: w = d * (1 + 2 * scale) / 8 * ±magnitude, a scale for every 16 weights. A row: four indices, and 32 signs (a word each a
// group) | two high bits of the indices, and scales (a byte each a group) | d (f16 a block of 256).

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row, a multiple of 8.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let pair = weights[row + (g >> 1u)];
    let words = select(pair.xy, pair.zw, (g & 1u) == 1u);
    let high_at = row + (n >> 1u);
    let high = weights_word_at(high_at, g >> 1u) >> (16u * (g & 1u));
    let at = (((vec4<u32>(words.x) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u))
        | (((vec4<u32>(high) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u)) << vec4<u32>(8u))) + CODEBOOKS_IQ2_S;
    let signs = vec4<u32>(words.y) >> vec4<u32>(0u, 8u, 16u, 24u);
    let scales = (vec2<u32>(high) >> vec2<u32>(8u, 12u)) & vec2<u32>(15u);
    let d = weights_half_at(high_at + (n >> 3u), g >> 3u) * (vec2<f32>(vec2<i32>(scales)) + 0.5) * 0.25;
    return weights_bytes(codebooks_iq2(at.xy, signs.xy), codebooks_iq2(at.zw, signs.zw), d);
}
