// Reductions over a workgroup of WG invocations: each subgroup reduces within itself, its first invocation leaves the
// result in workgroup memory, and every subgroup then reduces those. Two barriers instead of log2(WG).
// The subgroup size is known only at run time (4 to 128), and which invocations share a subgroup is not assumed: lane
// and size are counted, and each first invocation writes at its own local index, so that the order of the additions,
// and with it the last bit of the result, does not change from run to run.
// `const WG: u32` comes from the linker. Same signatures and rules as reduce_workgroup.

var<workgroup> reduce_scratch: array<vec4<f32>, WG>;

fn reduce_sum4(v: vec4<f32>, i: u32) -> vec4<f32> {
    let lane = subgroupExclusiveAdd(1u);
    let size = subgroupAdd(1u);
    let part = subgroupAdd(v);
    reduce_scratch[i] = select(vec4<f32>(), part, lane == 0u);
    workgroupBarrier();
    var mine = vec4<f32>();
    for (var s = lane; s < WG; s += size) {
        mine += reduce_scratch[s];
    }
    workgroupBarrier(); // before anyone writes the scratch again
    return subgroupAdd(mine);
}

fn reduce_sum(v: f32, i: u32) -> f32 {
    return reduce_sum4(vec4<f32>(v, 0.0, 0.0, 0.0), i).x;
}

fn reduce_max(v: f32, i: u32) -> f32 {
    let lane = subgroupExclusiveAdd(1u);
    let size = subgroupAdd(1u);
    let part = subgroupMax(v);
    reduce_scratch[i].x = part; // every value of a subgroup is its maximum, so none needs to be left out
    workgroupBarrier();
    var mine = part;
    for (var s = lane; s < WG; s += size) {
        mine = max(mine, reduce_scratch[s].x);
    }
    workgroupBarrier();
    return subgroupMax(mine);
}
