// Q4_K as packed bytes: see quant/q4_k for the layout.

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let block = row + 9u * (g >> 3u);
    let i = g & 7u;
    let words = weights[block + 1u + i];
    let scales = weights_k_scales(weights[block], i);
    return W32(weights_nibbles0(words), weights_nibbles1(words), scales.xx, -scales.yy);
}
