// TQ1_0: w = d * (digit - 1). A row: base-3 digits (3 vec4 a block of 256: a half of a group is one digit of the bytes of a
// vec4) | the digits of the last 16 weights (a word a block) | d (f16 a block). See src/quant/tq1_0.rs for the digits.

// 3^i, i below 5.
fn qa_power(i: u32) -> u32 {
    return select((0x1b090301u >> (8u * (i & 3u))) & 0xffu, 81u, i >= 4u);
}

// A digit of each byte: the byte times a power of 3, modulo 256, is the fraction left after the digits before it; three times
// that over 256 is the digit. Bytes 0 and 2 of each word, then 1 and 3, in the halves of a word, which do not overflow.
fn qa_digits(words: vec4<u32>, powers: vec4<u32>) -> vec4<u32> {
    let lanes = vec4<u32>(0x00ff00ffu);
    let even = (((words & lanes) * powers) & lanes) * 3u;
    let odd = ((((words >> vec4<u32>(8u)) & lanes) * powers) & lanes) * 3u;
    return ((even >> vec4<u32>(8u)) & vec4<u32>(0x00030003u)) | (odd & vec4<u32>(0x03000300u));
}

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row, a multiple of 8.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let at = row + 3u * (g >> 3u);
    let last_at = row + 3u * (n >> 3u);
    let i = g & 7u;
    let block = g >> 3u;
    let paired = i < 5u; // both vec4 hold a half each, as the same digit
    let first = weights[at + select(2u, 0u, paired)];
    var second = weights[at + select(2u, 1u, paired)];
    let n0 = select(2u * (i - 5u), i, paired);
    var powers = vec4<u32>(qa_power(select(n0 + 1u, i, paired)));
    if (i == 7u) {
        second = vec4<u32>(weights_word_at(last_at, block));
        powers = vec4<u32>(1u, 3u, 9u, 27u);
    }
    let d = weights_half_at(last_at + ((n + 31u) >> 5u), block);
    return weights_numbers(qa_digits(first, vec4<u32>(qa_power(n0))), qa_digits(second, powers), vec2<f32>(d), vec2<f32>(-d));
}
