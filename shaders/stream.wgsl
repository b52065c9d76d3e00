// Reads a buffer once and does next to nothing with it: what a device's memory gives at most, by which decoding is judged.
// sums[t] = the exclusive or of all words that invocation t reads.
// A workgroup reads WG * LOADS vec4s that follow one another, its invocations side by side; LOADS is a multiple of 4.
// It is run on its own, when there is no state.

struct Params {
    vec4s: u32, // of the buffer, a multiple of WG * LOADS
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> data: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> sums: array<u32>; // [vec4s / LOADS]

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let first = id.x * WG * LOADS + i;
    if (first >= params.vec4s) {
        return;
    }
    var a = vec4<u32>(0u);
    var b = vec4<u32>(0u);
    for (var k = 0u; k < LOADS; k += 4u) {
        let at = first + k * WG;
        a ^= data[at] ^ data[at + WG];
        b ^= data[at + 2u * WG] ^ data[at + 3u * WG];
    }
    a ^= b;
    sums[id.x * WG + i] = a.x ^ a.y ^ a.z ^ a.w;
}
