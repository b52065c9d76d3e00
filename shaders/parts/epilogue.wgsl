// What becomes of the dot products of matvec and matmul, which declare `biased`, `params` and `y`.
// EPILOGUE, from the linker:
//   0  y = softcap(scale * (dot + bias)), with softcap(v) = softcap * tanh(v / softcap) where it is not 0
//   1  y += scale * (dot + bias): onto the residual stream
//   2  y = gated(gate + bias, up + bias)
//   3  y = activate(dot + bias)

// Of row r, counted over all matrices, into y[at].
fn emit(at: u32, r: u32, dot: f32) {
    let value = biased(r, dot);
    if (EPILOGUE == 3u) {
        y[at] = activate(value);
    } else if (EPILOGUE == 1u) {
        y[at] += params.scale * value;
    } else if (params.softcap != 0.0) {
        // tanh(90) is NaN on SwiftShader
        y[at] = params.softcap * tanh(clamp(params.scale * value / params.softcap, -15.0, 15.0));
    } else {
        y[at] = params.scale * value;
    }
}

// The same of a gate and an up row.
fn emit_gated(at: u32, gate_row: u32, gate: f32, up_row: u32, up: f32) {
    y[at] = gated(biased(gate_row, gate), biased(up_row, up));
}
