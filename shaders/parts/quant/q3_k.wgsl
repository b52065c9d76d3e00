// Q3_K: w = d * (scale - 32) * (q - 4), a scale for every 16 weights. A row: low bits (two words a group) | third bits (a word
// a group) | scales (three words a block of 256: a byte a group of low nibbles, four bits of upper pairs) | d (f16 a block).

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row, a multiple of 8.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let pair = weights_words_at(row, g);
    let third_at = row + (n >> 1u);
    let third = weights_word_at(third_at, g);
    let scales_at = third_at + (n >> 2u);
    let block = g >> 3u;
    let i = g & 7u;
    let low = weights_word_at(scales_at, 3u * block + (i >> 2u)) >> (8u * (i & 3u));
    let high = weights_word_at(scales_at, 3u * block + 2u) >> (4u * i);
    let bits = (vec2<u32>(low, low >> 4u) & vec2<u32>(15u)) | (vec2<u32>(high << 4u, high << 2u) & vec2<u32>(48u));
    let scales = vec2<f32>(vec2<i32>(bits) - vec2<i32>(32));
    let d = weights_half_at(scales_at + ((3u * (n >> 3u) + 3u) >> 2u), block) * scales;
    return weights_numbers(
        weights_pairs(pair.x) | (weights_fifth0(third) >> vec4<u32>(2u)),
        weights_pairs(pair.y) | (weights_fifth1(third) >> vec4<u32>(2u)),
        d,
        -4.0 * d,
    );
}
