// A gate, number by number: out[t, i] = gated(gate[t, i], value[t, i]) for the n tokens of a pass, gated being that of the
// linked activation (parts/act_*). The rows of each lie a stride apart, from an offset on.
// From the linker: VALUE, 0: as bound; 1: what is in out; 2: there is none, out[t, i] = activate(gate[t, i]). WG.
// Workgroups: x over the numbers of a row, y over tokens.

struct Params {
    tokens: u32, // the most tokens of a pass
    cols: u32,   // numbers in a row
    gate_offset: u32, // where the first row starts, in floats
    gate_stride: u32, // from a row to the next, in floats
    value_offset: u32,
    value_stride: u32,
    out_offset: u32,
    out_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> gate: array<f32>;
@group(0) @binding(3) var<storage, read> value: array<f32>; // with another VALUE than 0 the gate's, and not read
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = id.x * WG + lane;
    let t = id.y;
    if (state[STATE_DONE] != 0u || t >= min(params.tokens, state[STATE_N_TOKENS]) || i >= params.cols) {
        return;
    }
    let at = params.out_offset + t * params.out_stride + i;
    let g = gate[params.gate_offset + t * params.gate_stride + i];
    if (VALUE == 0u) {
        out[at] = gated(g, value[params.value_offset + t * params.value_stride + i]);
    } else if (VALUE == 1u) {
        out[at] = gated(g, out[at]);
    } else {
        out[at] = activate(g);
    }
}
