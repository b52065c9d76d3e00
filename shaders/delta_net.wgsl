// Gated delta net on a GPU, a workgroup a value head. Its memory stays in registers from the first token of the pass to the
// last: LANES invocations share the rows of four columns, two barriers a token. See parts/delta_net for the formula.
// Workgroup memory: 14.3 KiB for the widest heads, 11 KiB for those of 128.

const WG: u32 = V4 * LANES;
const ROWS: u32 = (KEY_WIDTH + LANES - 1u) / LANES;

// In turn for this token and the next:
var<workgroup> qk: array<vec2<f32>, 2u * KEY_WIDTH>; // q and k
var<workgroup> products: array<vec4<f32>, 2u * K4>;  // q·q, k·k and q·k, in parts
// For this token:
var<workgroup> q_part: array<vec4<f32>, WG>;         // q S and k S, in parts
var<workgroup> k_part: array<vec4<f32>, WG>;
var<workgroup> squares: array<f32, V4>;              // of o, in parts

fn stage(t: u32, head: u32, i: u32) {
    let turn = t & 1u;
    let at = q_at(t, head);
    for (var j = i; j < K4; j += WG) {
        let q = qkv[at + j];
        let k = qkv[at + KEY_HEADS * K4 + j];
        for (var e = 0u; e < 4u; e++) {
            qk[turn * KEY_WIDTH + 4u * j + e] = vec2<f32>(q[e], k[e]);
        }
        products[turn * K4 + j] = vec4<f32>(dot(q, q), dot(k, k), dot(q, k), 0.0);
    }
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let tokens = pass_tokens();
    if (tokens == 0u) {
        return;
    }
    let head = params.first + workgroup.y;
    let column = i % V4;
    let lane = i / V4;
    let first = head * KEY_WIDTH * V4 + column;
    var s: array<vec4<f32>, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        let row = lane + r * LANES;
        s[r] = vec4<f32>();
        if (state[STATE_POS] != 0u && row < KEY_WIDTH) {
            s[r] = memory[first + row * V4];
        }
    }
    stage(0u, head, i);
    workgroupBarrier();
    for (var t = 0u; t < tokens; t++) {
        let turn = (t & 1u) * KEY_WIDTH;
        var with_q = vec4<f32>();
        var with_k = vec4<f32>();
        for (var r = 0u; r < ROWS; r++) {
            let x = qk[turn + min(lane + r * LANES, KEY_WIDTH - 1u)]; // a row that is not there is zero in s
            with_q += x.x * s[r];
            with_k += x.y * s[r];
        }
        q_part[i] = with_q;
        k_part[i] = with_k;
        workgroupBarrier();
        with_q = vec4<f32>();
        with_k = vec4<f32>();
        for (var l = 0u; l < LANES; l++) {
            with_q += q_part[l * V4 + column];
            with_k += k_part[l * V4 + column];
        }
        var product = vec4<f32>();
        for (var j = 0u; j < params.k4; j++) {
            product += products[(t & 1u) * K4 + j];
        }
        let q_scale = over_length(product.x) * params.q_scale;
        let k_scale = over_length(product.y);
        let kept = decay(t, head);
        let lacks = beta(t, head) * (qkv[v_at(t, head) + column] - (kept * k_scale) * with_k);
        for (var r = 0u; r < ROWS; r++) {
            let row = lane + r * LANES;
            if (row < KEY_WIDTH) {
                s[r] = kept * s[r] + (k_scale * qk[turn + row].y) * lacks;
            }
        }
        let o = q_scale * (kept * with_q + (product.z * k_scale) * lacks);
        if (lane == 0u) {
            squares[column] = dot(o, o);
        }
        if (t + 1u < tokens) {
            stage(t + 1u, head, i);
        }
        workgroupBarrier();
        if (lane == 0u) {
            var sum = 0.0;
            for (var c = 0u; c < V4; c++) {
                sum += squares[c];
            }
            let scale = inverseSqrt(sum / f32(VALUE_WIDTH) + params.eps);
            out[(t * VALUE_HEADS + head) * V4 + column] = gated4(o, scale, t, head, column);
        }
    }
    for (var r = 0u; r < ROWS; r++) {
        let row = lane + r * LANES;
        if (row < KEY_WIDTH) {
            memory[first + row * V4] = s[r];
        }
    }
}
