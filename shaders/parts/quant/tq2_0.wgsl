// TQ2_0: w = d * (q - 1). A row: quants (two words a group) | d (f16 a block of 256).

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row, a multiple of 8.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let pair = weights_words_at(row, g);
    let d = weights_half_at(row + (n >> 1u), g >> 3u);
    return weights_numbers(weights_pairs(pair.x), weights_pairs(pair.y), vec2<f32>(d), vec2<f32>(-d));
}
