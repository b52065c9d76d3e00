// Q2_K: w = d * scale * q - dmin * minimum, a scale and a minimum for every 16 weights. A row: quants (two words a
// group) | scales and minimums (16 bytes a block of 256, two nibbles each) | d and dmin (two f16 a block).

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row, a multiple of 8.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let pair = weights_words_at(row, g);
    let scales_at = row + (n >> 1u);
    let block = g >> 3u;
    let packed = weights[scales_at + block][(g >> 1u) & 3u] >> (16u * (g & 1u));
    let bytes = vec2<u32>(packed, packed >> 8u);
    let d = weights_half2(weights_word_at(scales_at + (n >> 3u), block));
    let scales = d.x * vec2<f32>(vec2<i32>(bytes & vec2<u32>(15u)));
    let minimums = d.y * vec2<f32>(vec2<i32>((bytes >> vec2<u32>(4u)) & vec2<u32>(15u)));
    return weights_numbers(weights_pairs(pair.x), weights_pairs(pair.y), scales, -minimums);
}
