// IQ2_XXS: w = d * (1 + 2 * scale) / 8 * ±magnitude. A row: four indices, and signs and scale (a word each a group) | d (f16 a block
// of 256).

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row, a multiple of 8.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let pair = weights[row + (g >> 1u)];
    let words = select(pair.xy, pair.zw, (g & 1u) == 1u);
    let at = ((vec4<u32>(words.x) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u)) + CODEBOOKS_IQ2_XXS;
    let signs = codebooks_even_signs(vec4<u32>(words.y) >> vec4<u32>(0u, 7u, 14u, 21u));
    let d = weights_half_at(row + (n >> 1u), g >> 3u) * (f32(i32(words.y >> 28u)) + 0.5) * 0.25;
    return weights_bytes(codebooks_iq2(at.xy, signs.xy), codebooks_iq2(at.zw, signs.zw), vec2<f32>(d));
}
