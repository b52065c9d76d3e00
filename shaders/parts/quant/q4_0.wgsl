// Q4_0: w = d * (q - 8). A row: quants (a vec4 a group) | d (f16 a group).

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let words = weights[row + g];
    let d = weights_half_at(row + n, g);
    return weights_nibbles(words, vec2<f32>(d), vec2<f32>(-8.0 * d));
}
