// An item of work is one invocation, for CPU adapters; `const WG: u32` items to a workgroup.
// Same signatures as lanes_workgroup.

const LANES: u32 = 1u;

fn lanes_item(workgroup: u32, i: u32) -> u32 {
    return workgroup * WG + i;
}

fn lanes_lane(i: u32) -> u32 {
    return 0u;
}

fn lanes_sum(v: f32, i: u32) -> f32 {
    return v;
}

fn lanes_fence() {}
