// IQ2_XS: w = d * (1 + 2 * scale) / 8 * ±magnitude, a scale for every 16 weights. A row: four u16 of an index and signs a group |
// scales (two times 4 bits a group) | d (f16 a block of 256).

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row, a multiple of 8.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let pair = weights[row + (g >> 1u)];
    let fields = select(pair.xy, pair.zw, (g & 1u) == 1u).xxyy >> vec4<u32>(0u, 16u, 0u, 16u);
    let at = (fields & vec4<u32>(511u)) + CODEBOOKS_IQ2_XS;
    let signs = codebooks_even_signs(fields >> vec4<u32>(9u));
    let scales_at = row + (n >> 1u);
    let scales = vec2<u32>(weights_word_at(scales_at, g >> 2u)) >> (vec2<u32>(0u, 4u) + 8u * (g & 3u));
    let d = weights_half_at(scales_at + ((n + 15u) >> 4u), g >> 3u) * (vec2<f32>(vec2<i32>(scales & vec2<u32>(15u))) + 0.5) * 0.25;
    return weights_bytes(codebooks_iq2(at.xy, signs.xy), codebooks_iq2(at.zw, signs.zw), d);
}
