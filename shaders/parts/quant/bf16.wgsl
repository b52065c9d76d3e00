// BF16 weights as they are, the upper half of an f32 each: 4 vec4 a group.

fn qa_low(words: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(words << vec4<u32>(16u));
}

fn qa_high(words: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(words & vec4<u32>(0xffff0000u));
}

fn qa_sixteen(at: u32) -> mat4x4<f32> {
    let a = weights[at];
    let b = weights[at + 1u];
    let even = mat2x4<f32>(qa_low(a), qa_low(b));
    let odd = mat2x4<f32>(qa_high(a), qa_high(b));
    return mat4x4<f32>(
        vec4<f32>(even[0].x, odd[0].x, even[0].y, odd[0].y),
        vec4<f32>(even[0].z, odd[0].z, even[0].w, odd[0].w),
        vec4<f32>(even[1].x, odd[1].x, even[1].y, odd[1].y),
        vec4<f32>(even[1].z, odd[1].z, even[1].w, odd[1].w),
    );
}

// row: vec4 index of the row's start; g: group of 32 weights; n: groups in the row.
fn qa_load(row: u32, g: u32, n: u32) -> W32 {
    let at = row + 4u * g;
    return W32(qa_sixteen(at), qa_sixteen(at + 2u), vec4<f32>(1.0), vec4<f32>(1.0), vec2<f32>());
}
