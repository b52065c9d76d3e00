// Q4_K: w = d * scale * q - dmin * minimum. Blocks of 256 weights in 9 vec4: the header, then a vec4 of quants a group.

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let block = row + 9u * (g >> 3u);
    let i = g & 7u;
    let words = weights[block + 1u + i];
    let scales = weights_k_scales(weights[block], i);
    return weights_nibbles(words, scales.xx, -scales.yy);
}
