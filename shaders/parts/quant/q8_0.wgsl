// Q8_0: w = d * q. A row: quants (2 vec4 a group, signed bytes in order) | d (f16 a group).

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let at = row + 2u * g;
    let d = weights_half_at(row + 2u * n, g);
    return weights_bytes(weights[at], weights[at + 1u], vec2<f32>(d));
}
