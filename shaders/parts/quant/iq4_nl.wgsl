// IQ4_NL: w = d * (one of sixteen numbers). A row: codes (a vec4 a group, neighbours in a byte) | d (f16 a group).

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let codes = weights[row + g];
    return weights_bytes(codebooks_iq4(codes.xy), codebooks_iq4(codes.zw), vec2<f32>(weights_half_at(row + n, g)));
}
