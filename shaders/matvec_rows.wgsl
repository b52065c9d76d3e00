// Matrix times vector for adapters of type CPU: an invocation owns whole rows, so there is no barrier and no workgroup
// memory, which cost such an adapter 6 to 22 times the arithmetic. See parts/matvec_core for the formula.
// Variants: how x is loaded (parts/x_each, parts/x_quad).

override WG_ROWS: u32 = 16u;

@compute @workgroup_size(WG_ROWS)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let wg = id.y * params.grid_x + id.x;
    if (state[0] != 0u || wg >= params.workgroups) {
        return;
    }
    let s = segment_of(wg);
    let per_invocation = select(ROWS, ROWS / 2u, EPILOGUE == 2u);
    let row = ((wg - params.segment[s].wg_start) * WG_ROWS + i) * per_invocation;
    // Rows beyond the end are computed too: the invocations of a quad need one another.
    let task = task_of(s, row);
    let lane = x_lane();
    var sums = vec4<f32>();
    var squares = 0.0;
    // state[0] is 0 here. Without it lavapipe (Mesa 22.3) makes a variant of its own for each value of the uniform, unrolls the
    // loop, and does so again at every dispatch.
    let groups = params.groups + state[0];
    for (var g = 0u; g < groups; g++) {
        let v = load_x(g, lane);
        sums += dots(task, g, v);
        squares += v.squares;
    }
    finish(task, row, sums, x_squares(squares));
}
