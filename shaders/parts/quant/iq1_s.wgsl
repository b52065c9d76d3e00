// IQ1_S: w = d * (1 + 2 * scale) * (weight ± 1/8). A row: low bits of four indices (a word a group) | their high bits, the scale
// and the eighth's sign (a u16 a group) | d (f16 a block of 256).

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row, a multiple of 8.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let low = weights_word_at(row, g);
    let high_at = row + (n >> 2u);
    let high = weights_word_at(high_at, g >> 1u) >> (16u * (g & 1u));
    let at = (((vec4<u32>(low) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u))
        | (((vec4<u32>(high) >> vec4<u32>(0u, 3u, 6u, 9u)) & vec4<u32>(7u)) << vec4<u32>(8u))) + CODEBOOKS_IQ1;
    let minus = vec2<u32>((high >> 15u) & 1u);
    let d = weights_half_at(high_at + (n >> 3u), g >> 3u) * f32(i32(1u + 2u * ((high >> 12u) & 7u))) * 0.125;
    return weights_bytes(codebooks_iq1(at.xy, minus), codebooks_iq1(at.zw, minus), vec2<f32>(d));
}
