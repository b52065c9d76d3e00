// An item of work is one workgroup of WG invocations, for GPUs. Links after a reduce part. Every invocation of the
// workgroup must call lanes_sum and lanes_fence, in uniform control flow.

const LANES: u32 = WG;

fn lanes_item(workgroup: u32, i: u32) -> u32 {
    return workgroup;
}

fn lanes_lane(i: u32) -> u32 {
    return i;
}

fn lanes_sum(v: f32, i: u32) -> f32 {
    return reduce_sum(v, i);
}

// All lanes have read what they need, before any of them overwrites it.
fn lanes_fence() {
    storageBarrier();
}
