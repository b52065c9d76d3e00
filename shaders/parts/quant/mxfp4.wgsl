// MXFP4: w = 2^(e - 128) * (a whole number of -12 to 12). A row: codes (a vec4 a group) | e (a byte a group).

// The codes of sixteen weights, one a byte, to their values plus 12. Codes 0 to 7 are 0, 1, 2, 3, 4, 6, 8, 12, and 8 to 15 the
// same below zero: 5 is one more than the code and 6 two more, 7 is both and another two.
fn qa_values(codes: vec4<u32>) -> vec4<u32> {
    let ones = vec4<u32>(0x01010101u);
    let top = codes >> vec4<u32>(2u);
    let one = codes & top & ones;
    let two = (codes >> vec4<u32>(1u)) & top & ones;
    let magnitude = (codes & vec4<u32>(0x07070707u)) + one + ((two + (one & two)) << vec4<u32>(1u));
    let sign = (codes >> vec4<u32>(3u)) & ones;
    let below = magnitude & ((sign << vec4<u32>(4u)) - sign);
    return vec4<u32>(0x0c0c0c0cu) + magnitude - (below << vec4<u32>(1u));
}

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let words = weights[row + g];
    let e = (weights_word_at(row + n, g >> 2u) >> (8u * (g & 3u))) & 0xffu;
    let d = bitcast<f32>(select((e - 1u) << 23u, 0x00200000u << (e & 1u), e < 2u));
    return weights_numbers(
        qa_values(weights_nibbles0(words)),
        qa_values(weights_nibbles1(words)),
        vec2<f32>(d),
        vec2<f32>(-12.0 * d),
    );
}
