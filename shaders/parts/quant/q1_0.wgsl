// Q1_0: w = d or -d. A row: signs (a word a group, set for d) | d (f16 a block of 128). A set bit becomes 16.

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row, a multiple of 4.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let signs = weights_word_at(row, g);
    let d = weights_half_at(row + (n >> 2u), g >> 2u);
    let scale = 0.125 * d;
    return weights_numbers(weights_fifth0(signs), weights_fifth1(signs), vec2<f32>(scale), vec2<f32>(-d));
}
