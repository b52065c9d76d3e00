// F16 weights as they are: 4 vec4 a group. (A device may flush subnormal weights to zero: an error below 6.1e-5 each.)

fn qa_two(words: vec4<u32>) -> array<vec4<f32>, 2> {
    return array<vec4<f32>, 2>(
        vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y)),
        vec4<f32>(unpack2x16float(words.z), unpack2x16float(words.w)),
    );
}

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let at = row + 4u * g;
    let a = qa_two(weights[at]);
    let b = qa_two(weights[at + 1u]);
    let c = qa_two(weights[at + 2u]);
    let e = qa_two(weights[at + 3u]);
    let one = vec4<f32>(1.0);
    return W32(mat4x4<f32>(a[0], a[1], b[0], b[1]), mat4x4<f32>(c[0], c[1], e[0], e[1]), one, one, vec2<f32>());
}
