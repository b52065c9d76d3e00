// A mixture's matrices for adapters of type CPU, token by token: an invocation owns EACH rows, with GATED of one pick (z),
// without it of all picks, so there is no barrier and no workgroup memory. See parts/experts_core for the formula.
// Workgroups: x over rows, y over tokens, z over picks.

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let t = params.first + id.y;
    if (t >= pass_tokens()) {
        return;
    }
    // Rows beyond the end are computed too: the invocations of a quad need one another.
    let row = (id.x * WG + i) * EACH;
    let lane = x_lane();
    let groups = params.groups + state[STATE_DONE]; // which is 0 here; see matvec_rows
    let begin = select(0u, id.z, GATED == 1u);
    let end = select(params.slots, id.z + 1u, GATED == 1u);
    var total = vec4<f32>();
    for (var s = begin; s < end; s++) {
        let pick = pick_of(t, s);
        if (pick.bound < params.experts) {
            x_begin = x_begin_of(t, s);
            let at = starts(pick.bound, row);
            var sums = vec4<f32>();
            var squares = 0.0;
            for (var g = 0u; g < groups; g++) {
                let v = load_x(g, lane);
                sums += dots(at, g, v);
                squares += v.squares;
            }
            if (GATED == 1u) {
                put_gated(t, s, pick.expert, row, sums, x_squares(squares));
            } else {
                total += pick.weight * (sums + biases(pick.expert, row));
            }
        }
    }
    if (GATED == 0u) {
        add(t, row, total);
    }
}
