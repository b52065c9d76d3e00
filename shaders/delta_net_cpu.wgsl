// Gated delta net for adapters of type CPU: a workgroup a value head, an invocation four columns of its memory, which it
// walks over twice a token. Only the norm of a head needs all columns: it comes last, for all tokens, behind the one barrier.
// See parts/delta_net for the formula.

@compute @workgroup_size(V4)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) column: u32) {
    let tokens = pass_tokens();
    if (tokens == 0u) {
        return;
    }
    let head = params.first + workgroup.y;
    let first = head * KEY_WIDTH * V4 + column;
    // The loops' end is no constant for lavapipe, see matvec_rows: state[STATE_DONE] is 0 here.
    let k4 = params.k4 + state[STATE_DONE];
    for (var t = 0u; t < tokens; t++) {
        let q_row = q_at(t, head);
        let k_row = q_row + KEY_HEADS * K4;
        let fresh = vec4<bool>(t == 0u && state[STATE_POS] == 0u);
        var with_q = vec4<f32>();
        var with_k = vec4<f32>();
        var product = vec3<f32>();
        for (var j = 0u; j < k4; j++) {
            let q = qkv[q_row + j];
            let k = qkv[k_row + j];
            let at = first + 4u * j * V4;
            let s = mat4x4<f32>(memory[at], memory[at + V4], memory[at + 2u * V4], memory[at + 3u * V4]);
            with_q += s * q;
            with_k += s * k;
            product += vec3<f32>(dot(q, q), dot(k, k), dot(q, k));
        }
        with_q = select(with_q, vec4<f32>(), fresh);
        with_k = select(with_k, vec4<f32>(), fresh);
        let q_scale = over_length(product.x) * params.q_scale;
        let k_scale = over_length(product.y);
        let kept = decay(t, head);
        let lacks = beta(t, head) * (qkv[v_at(t, head) + column] - (kept * k_scale) * with_k);
        for (var j = 0u; j < k4; j++) {
            let k = k_scale * qkv[k_row + j];
            for (var e = 0u; e < 4u; e++) {
                let at = first + (4u * j + e) * V4;
                memory[at] = select(kept * memory[at], vec4<f32>(), fresh) + k[e] * lacks;
            }
        }
        out[(t * VALUE_HEADS + head) * V4 + column] = q_scale * (kept * with_q + (product.z * k_scale) * lacks);
    }
    storageBarrier();
    for (var t = column; t < tokens; t += V4) {
        let row = (t * VALUE_HEADS + head) * V4;
        var squares = 0.0;
        for (var c = 0u; c < V4; c++) {
            let o = out[row + c];
            squares += dot(o, o);
        }
        let scale = inverseSqrt(squares / f32(VALUE_WIDTH) + params.eps);
        for (var c = 0u; c < V4; c++) {
            out[row + c] = gated4(out[row + c], scale, t, head, c);
        }
    }
}
