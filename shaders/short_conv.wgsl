// A causal depthwise convolution over the tokens of a pass, with what its layer does to each channel around it:
//   GATED 1 (LFM2):      out[t, c] = C * sum_j w[c, j] * (B * x)[t - TAPS + 1 + j, c]     a row of `rows` is B | C | x
//   GATED 0 (delta net): out[t, c] = silu(sum_j w[c, j] * x[t - TAPS + 1 + j, c])         x lies in front in a row
// `past` holds the last TAPS - 1 inputs before the pass, and afterwards the last of it; at position 0 they are zeros, whatever
// lies there. An invocation owns a channel and walks over the tokens, so nobody waits for anybody.
// From the linker: WG, TAPS, GATED, and activate = SiLU.

struct Params {
    channels: u32,
    stride: u32, // of a token's row, in floats
    tokens: u32, // the most of a pass
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> rows: array<f32>;         // [tokens, stride]
@group(0) @binding(3) var<storage, read> weights: array<f32>;      // [channels, TAPS], the newest token's last
@group(0) @binding(4) var<storage, read_write> past: array<f32>;   // [TAPS - 1, channels], the oldest first
@group(0) @binding(5) var<storage, read_write> out: array<f32>;    // [tokens, channels]

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let c = id.x;
    if (state[STATE_DONE] != 0u || c >= params.channels) {
        return;
    }
    var w: array<f32, TAPS>;
    var seen: array<f32, TAPS>; // the last inputs, the newest last
    for (var j = 0u; j < TAPS; j++) {
        w[j] = weights[c * TAPS + j];
        seen[j] = 0.0;
        if (j > 0u && state[STATE_POS] != 0u) {
            seen[j] = past[(j - 1u) * params.channels + c];
        }
    }
    let tokens = min(params.tokens, state[STATE_N_TOKENS]);
    for (var t = 0u; t < tokens; t++) {
        let row = t * params.stride + c;
        var x = rows[row];
        if (GATED == 1u) {
            x *= rows[row + 2u * params.channels];
        }
        var sum = w[TAPS - 1u] * x;
        for (var j = 1u; j < TAPS; j++) {
            seen[j - 1u] = seen[j];
            sum += w[j - 1u] * seen[j];
        }
        seen[TAPS - 1u] = x;
        if (GATED == 1u) {
            out[t * params.channels + c] = rows[row + params.channels] * sum;
        } else {
            out[t * params.channels + c] = activate(sum);
        }
    }
    for (var j = 1u; j < TAPS; j++) {
        past[(j - 1u) * params.channels + c] = seen[j];
    }
}
