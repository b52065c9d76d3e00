// IQ1_M: w = d * (1 + 2 * scale) * (weight ± 1/8), a scale for every 16 weights. A row: low bits of four indices (a word a group) |
// their high bits and the sign of the eighth of each (4 bits each) | scales and d (four u16 a block of 256: four scales of
// three bits, and four bits of d's f16 on top).

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row, a multiple of 8.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let low = weights_word_at(row, g);
    let high_at = row + (n >> 2u);
    let high = vec4<u32>(weights_word_at(high_at, g >> 1u) >> (16u * (g & 1u))) >> vec4<u32>(0u, 4u, 8u, 12u);
    let at = (((vec4<u32>(low) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u)) | ((high & vec4<u32>(7u)) << vec4<u32>(8u)))
        + CODEBOOKS_IQ1;
    let minus = (high >> vec4<u32>(3u)) & vec4<u32>(1u);
    let block = g >> 3u;
    let pair = weights[high_at + (n >> 3u) + (block >> 1u)];
    let fields = select(pair.xy, pair.zw, (block & 1u) == 1u);
    let bits = (fields >> vec2<u32>(12u)) & vec2<u32>(0xfu);
    let top = (fields >> vec2<u32>(24u)) & vec2<u32>(0xf0u);
    let d = weights_half((bits.x | top.x) | ((bits.y | top.y) << 8u));
    let scales = vec2<u32>(fields[(g >> 2u) & 1u]) >> (vec2<u32>(0u, 3u) + 16u * ((g >> 1u) & 1u) + 6u * (g & 1u));
    let factors = vec2<f32>(vec2<i32>((scales & vec2<u32>(7u)) * 2u + 1u)) * 0.125;
    return weights_bytes(codebooks_iq1(at.xy, minus.xy), codebooks_iq1(at.zw, minus.zw), d * factors);
}
