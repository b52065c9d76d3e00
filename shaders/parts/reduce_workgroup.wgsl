// Reductions over a workgroup of WG invocations by a tree in workgroup memory: for devices without subgroups.
// `const WG: u32` comes from the linker and is a power of two. Every invocation of the workgroup must call these, in
// uniform control flow; `i` is its local index. The result is the same in all of them.

var<workgroup> reduce_scratch: array<vec4<f32>, WG>;

fn reduce_sum4(v: vec4<f32>, i: u32) -> vec4<f32> {
    reduce_scratch[i] = v;
    for (var step = WG / 2u; step > 0u; step >>= 1u) {
        workgroupBarrier();
        if (i < step) {
            reduce_scratch[i] += reduce_scratch[i + step];
        }
    }
    workgroupBarrier();
    let total = reduce_scratch[0];
    workgroupBarrier(); // before anyone writes the scratch again
    return total;
}

fn reduce_sum(v: f32, i: u32) -> f32 {
    return reduce_sum4(vec4<f32>(v, 0.0, 0.0, 0.0), i).x;
}

fn reduce_max(v: f32, i: u32) -> f32 {
    reduce_scratch[i].x = v;
    for (var step = WG / 2u; step > 0u; step >>= 1u) {
        workgroupBarrier();
        if (i < step) {
            reduce_scratch[i].x = max(reduce_scratch[i].x, reduce_scratch[i + step].x);
        }
    }
    workgroupBarrier();
    let top = reduce_scratch[0].x;
    workgroupBarrier();
    return top;
}
