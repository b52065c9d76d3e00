// Matrix times vector on a GPU: a workgroup owns ROWS rows, its invocations share their columns, group by group of 32,
// and one reduction at the end adds up (by subgroups or by a tree: parts/reduce_*). See parts/matvec_core for the formula.
// Variants: what x is (parts/x_each, parts/x_added).

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let wg = id.y * params.grid_x + id.x;
    if (state[0] != 0u || wg >= params.workgroups) {
        return;
    }
    let s = segment_of(wg);
    let per_workgroup = select(ROWS, ROWS / 2u, EPILOGUE == 2u);
    let row = (wg - params.segment[s].wg_start) * per_workgroup;
    let task = task_of(s, row);
    x_prepare(wg, i);
    var sums = vec4<f32>();
    var squares = 0.0;
    for (var g = i; g < params.groups; g += WG) {
        let v = load_x(g, 0u);
        sums += dots(task, g, v);
        squares += v.squares;
    }
    sums = reduce_sum4(sums, i);
    if (NORM == 1u) {
        squares = reduce_sum(squares, i);
    }
    if (i == 0u) {
        finish(task, row, sums, squares);
    }
}
