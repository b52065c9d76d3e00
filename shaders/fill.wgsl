// Fills a buffer with noise: word j of the buffer becomes hash(j, seed) & mask | bits. Weights of synthetic models are made
// with it where they are to lie: the mask leaves only bits with which every f16 and f32 is finite and small.
// hash: the RXS-M-XS output of a 32-bit PCG (O'Neill 2014), of j spread by the golden ratio.
// An invocation writes one vec4; a workgroup WG of them. It is run while loading, when there is no state yet.

struct Params {
    vec4s: u32,  // of the buffer
    seed: u32,
    mask: u32,
    bits: u32,
    grid_x: u32, // workgroups in a row of the grid
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> words: array<vec4<u32>>;

fn hash(v: vec4<u32>) -> vec4<u32> {
    let state = v * 747796405u + 2891336453u;
    let word = ((state >> ((state >> vec4<u32>(28u)) + 4u)) ^ state) * 277803737u;
    return (word >> vec4<u32>(22u)) ^ word;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let at = (id.y * params.grid_x + id.x) * WG + i;
    if (at >= params.vec4s) {
        return;
    }
    let j = vec4<u32>(4u * at) + vec4<u32>(0u, 1u, 2u, 3u);
    words[at] = (hash((j ^ vec4<u32>(params.seed)) * 0x9e3779b9u) & vec4<u32>(params.mask)) | vec4<u32>(params.bits);
}
