// Q5_K: w = d * scale * q - dmin * minimum. Blocks of 256 weights in 11 vec4: the header, a word of fifth bits a group,
// a vec4 of low bits a group.

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let block = row + 11u * (g >> 3u);
    let i = g & 7u;
    let words = weights[block + 3u + i];
    let high = weights_word_at(block + 1u, i);
    let scales = weights_k_scales(weights[block], i);
    return weights_numbers(
        weights_nibbles0(words) | weights_fifth0(high),
        weights_nibbles1(words) | weights_fifth1(high),
        scales.xx,
        -scales.yy,
    );
}
