// F32 weights as they are: 8 vec4 a group.

fn qa_four(at: u32) -> mat4x4<f32> {
    return mat4x4<f32>(
        bitcast<vec4<f32>>(weights[at]),
        bitcast<vec4<f32>>(weights[at + 1u]),
        bitcast<vec4<f32>>(weights[at + 2u]),
        bitcast<vec4<f32>>(weights[at + 3u]),
    );
}

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let at = row + 8u * g;
    return W32(qa_four(at), qa_four(at + 4u), vec4<f32>(1.0), vec4<f32>(1.0), vec2<f32>());
}
