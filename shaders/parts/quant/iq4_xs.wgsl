// IQ4_XS: w = d * (scale - 32) * (one of sixteen numbers). A row: codes (a vec4 a group, neighbours in a byte) | heads (two
// words a block of 256: d, the upper two bits of the eight scales, their lower four).

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row, a multiple of 8.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let codes = weights[row + g];
    let head = weights_words_at(row + n, g >> 3u);
    let i = g & 7u;
    let scale = ((head.y >> (4u * i)) & 15u) | (((head.x >> (16u + 2u * i)) & 3u) << 4u);
    let d = weights_half(head.x) * f32(i32(scale) - 32);
    return weights_bytes(codebooks_iq4(codes.xy), codebooks_iq4(codes.zw), vec2<f32>(d));
}
