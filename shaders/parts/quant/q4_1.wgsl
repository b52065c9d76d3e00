// Q4_1: w = d * q + m. A row: quants (a vec4 a group) | d and m (two f16 a group).

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let words = weights[row + g];
    let scales = weights_half2(weights_word_at(row + n, g));
    return weights_nibbles(words, scales.xx, scales.yy);
}
