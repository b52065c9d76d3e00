// Q5_1: w = d * q + m. A row: low bits (a vec4 a group) | fifth bits (a word a group) | d and m (two f16 a group).

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let words = weights[row + g];
    let high = weights_word_at(row + n, g);
    let scales = weights_half2(weights_word_at(row + n + ((n + 3u) >> 2u), g));
    return weights_numbers(
        weights_nibbles0(words) | weights_fifth0(high),
        weights_nibbles1(words) | weights_fifth1(high),
        scales.xx,
        scales.yy,
    );
}
