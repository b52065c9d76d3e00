// The codebooks of the IQ formats (src/quant/codebooks.rs), for their parts in quant/. The linker puts the binding behind the
// kernel's own: `const CODEBOOKS`. An index has as many bits as its grid has entries for, so none is read beyond a grid.

@group(0) @binding(CODEBOOKS) var<storage, read> codebooks: array<u32>;

// Where the grids start.
const CODEBOOKS_IQ2_XXS: u32 = 0u;
const CODEBOOKS_IQ2_XS: u32 = 256u;
const CODEBOOKS_IQ2_S: u32 = 768u;
const CODEBOOKS_IQ1: u32 = 1792u;
const CODEBOOKS_IQ3_XXS: u32 = 3840u;
const CODEBOOKS_IQ3_S: u32 = 4096u;
const CODEBOOKS_IQ4: u32 = 4608u;

// The eight signs that seven bits stand for: an even number of weights is negative.
fn codebooks_even_signs(bits: vec4<u32>) -> vec4<u32> {
    let seven = bits & vec4<u32>(127u);
    return seven | ((countOneBits(seven) & vec4<u32>(1u)) << vec4<u32>(7u));
}

// Makes the four bytes of each word negative whose bits are set in the low four of `signs`. Of bytes from 1 to 127, whose
// complements take 1 more without a carry.
fn codebooks_signed(bytes: vec4<u32>, signs: vec4<u32>) -> vec4<u32> {
    let four = signs & vec4<u32>(15u);
    let ones = (four | (four << vec4<u32>(7u)) | (four << vec4<u32>(14u)) | (four << vec4<u32>(21u))) & vec4<u32>(0x01010101u);
    return (bytes ^ (ones * 255u)) + ones;
}

// The codes, a byte each, of two entries of eight weights: words 0 and 1 are of the first.
fn codebooks_codes(at: vec2<u32>) -> vec4<u32> {
    let entries = vec2<u32>(codebooks[at.x], codebooks[at.y]).xxyy;
    return (entries >> vec4<u32>(0u, 4u, 0u, 4u)) & vec4<u32>(0x0f0f0f0fu);
}

// Sixteen weights of IQ2_*, one a signed byte, from where two entries are and their eight signs each.
fn codebooks_iq2(at: vec2<u32>, signs: vec2<u32>) -> vec4<u32> {
    let codes = codebooks_codes(at);
    // 0, 1, 2 stand for 8, 25, 43.
    let magnitudes = vec4<u32>(0x08080808u) + codes * 17u + ((codes >> vec4<u32>(1u)) & vec4<u32>(0x01010101u));
    return codebooks_signed(magnitudes, signs.xxyy >> vec4<u32>(0u, 4u, 0u, 4u));
}

// Sixteen weights of IQ3_*, from where four entries are and four signs each.
fn codebooks_iq3(at: vec4<u32>, signs: vec4<u32>) -> vec4<u32> {
    let magnitudes = vec4<u32>(codebooks[at.x], codebooks[at.y], codebooks[at.z], codebooks[at.w]);
    return codebooks_signed(magnitudes, signs);
}

// Sixteen weights of IQ1_*, in eighths, from where two entries are and for each whether 1/8 is taken away (1) or added (0).
fn codebooks_iq1(at: vec2<u32>, minus: vec2<u32>) -> vec4<u32> {
    // -8, 0, 8 and the eighth, 128 too many so that no byte borrows; that is the sign bit.
    let offset = (vec2<u32>(121u) - 2u * minus) * 0x01010101u;
    return (codebooks_codes(at) * 8u + offset.xxyy) ^ vec4<u32>(0x80808080u);
}

// Sixteen weights of IQ4_*, one a signed byte, from eight bytes with two codes each.
fn codebooks_iq4(codes: vec2<u32>) -> vec4<u32> {
    let bytes = codes.xxyy >> vec4<u32>(0u, 16u, 0u, 16u);
    let a = (bytes & vec4<u32>(255u)) + CODEBOOKS_IQ4;
    let b = ((bytes >> vec4<u32>(8u)) & vec4<u32>(255u)) + CODEBOOKS_IQ4;
    let low = vec4<u32>(codebooks[a.x], codebooks[a.y], codebooks[a.z], codebooks[a.w]);
    let high = vec4<u32>(codebooks[b.x], codebooks[b.y], codebooks[b.z], codebooks[b.w]);
    return low | (high << vec4<u32>(16u));
}
