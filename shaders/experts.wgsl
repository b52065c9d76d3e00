// A mixture's matrices on a GPU, token by token. See parts/experts_core for the formula.
// A workgroup owns EACH rows: with GATED of one pick (z), and its invocations share the columns; without it of all picks, and
// they share picks and columns.
// Workgroups: x over rows, y over tokens, z over picks.

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let t = params.first + id.y;
    if (t >= pass_tokens()) {
        return;
    }
    let row = id.x * EACH;
    var sums = vec4<f32>();
    if (GATED == 1u) {
        let pick = pick_of(t, id.z);
        if (pick.bound >= params.experts) {
            return;
        }
        x_begin = x_begin_of(t, 0u);
        let at = starts(pick.bound, row);
        var squares = 0.0;
        for (var g = i; g < params.groups; g += WG) {
            let v = load_x(g, 0u);
            sums += dots(at, g, v);
            squares += v.squares;
        }
        sums = reduce_sum4(sums, i);
        if (NORM == 1u) {
            squares = reduce_sum(squares, i);
        }
        if (i == 0u) {
            put_gated(t, id.z, pick.expert, row, sums, squares);
        }
        return;
    }
    for (var j = i; j < params.slots * params.groups; j += WG) {
        let s = j / params.groups;
        let pick = pick_of(t, s);
        if (pick.bound < params.experts) {
            let g = j - s * params.groups;
            x_begin = x_begin_of(t, s);
            var v = dots(starts(pick.bound, row), g, load_x(g, 0u));
            if (g == 0u) {
                v += biases(pick.expert, row);
            }
            sums += pick.weight * v;
        }
    }
    sums = reduce_sum4(sums, i);
    if (i == 0u) {
        add(t, row, sums);
    }
}
