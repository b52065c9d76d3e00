// What both matvec cores share: bindings, segments, the epilogues. Links with x_each, x_quad, x_quad_i8 or x_added, which load x,
// and with dot_f32 or dot_i8, which say in what form it is multiplied (X32, x_normed, dot32), and with parts/epilogue.
//
//   dot[r] = s * Σ_k W[r, k] * x[k] * norm[k],   s = 1 / sqrt(mean(x²) + eps)
//
// The RMS norm before a matvec costs no dispatch and no pass of its own: its factor s is the same for every row, so
// the sum of squares is gathered beside the dot products and the *result* is scaled (deferred RMS).
//
// Constants from the linker:
//   NORM      1: x is normed with the weights of binding 3; 0: x as it is
//   BIAS      1: binding 3 holds what is added to the dot products; 0: nothing is
//   EPILOGUE  see parts/epilogue; with 2 segments 0 and 1 are gate and up
//   ROWS      rows an invocation (or a workgroup) works on at once: 1, 2 or 4; with EPILOGUE 2 half of them are gate, half up

struct Params {
    groups: u32,     // cols / 32
    segments: u32,   // 1 to 3; 2 with EPILOGUE 2
    workgroups: u32, // over all segments
    grid_x: u32,     // workgroups of the dispatch in x
    eps: f32,
    softcap: f32,    // see parts/epilogue
    x_stride: u32,   // vec4s between the rows of x, of which the pass's last token's is taken; 0: x is one row
    scale: f32,      // see parts/epilogue
    norm_at: u32,    // where the norm's weights start in binding 3, in vec4
    bias_at: u32,    // where the biases start in binding 3, in floats
    pad0: u32,
    pad1: u32,
    segment: array<Segment, 3>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;    // [cols], or [tokens, cols]
@group(0) @binding(3) var<storage, read> norm: array<vec4<f32>>; // a range with the norm's weights and the biases; without them x
@group(0) @binding(4) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;    // [rows over all segments]

// The weights of up to four rows: where each starts, in vec4<u32>.
struct Task {
    starts: vec4<u32>,
    rows: vec4<u32>, // the row within its segment
    segment: u32,
}

// The task whose first row is `row` of segment `s`. Rows beyond the end repeat the last: computed, never written.
fn task_of(s: u32, row: u32) -> Task {
    let last = params.segment[s].rows - 1u;
    if (EPILOGUE == 2u) {
        let r = min(vec4<u32>(row, row, row + 1u, row + 1u), vec4<u32>(last));
        let base = vec2<u32>(params.segment[0].base, params.segment[1].base).xyxy;
        let stride = vec2<u32>(params.segment[0].row_vec4, params.segment[1].row_vec4).xyxy;
        return Task(base + r * stride, r, s);
    }
    let r = min(vec4<u32>(row, row + 1u, row + 2u, row + 3u), vec4<u32>(last));
    return Task(vec4<u32>(params.segment[s].base) + r * params.segment[s].row_vec4, r, s);
}

// Where group g of x starts, in vec4.
fn x_start(g: u32) -> u32 {
    return g * 8u + (max(state[2], 1u) - 1u) * params.x_stride;
}

// The dot products of one group of 32 with the rows of a task.
fn dots(task: Task, g: u32, v: X32) -> vec4<f32> {
    let n = params.groups;
    let f = params.segment[task.segment].format;
    var sums = vec4<f32>();
    sums.x = dot32(load_w(f, task.starts.x, g, n), v);
    if (EPILOGUE == 2u) {
        // Gate and up may differ in format.
        let f_up = params.segment[1].format;
        sums.y = dot32(load_w(f_up, task.starts.y, g, n), v);
        if (ROWS == 4u) {
            sums.z = dot32(load_w(f, task.starts.z, g, n), v);
            sums.w = dot32(load_w(f_up, task.starts.w, g, n), v);
        }
    } else {
        if (ROWS >= 2u) {
            sums.y = dot32(load_w(f, task.starts.y, g, n), v);
        }
        if (ROWS == 4u) {
            sums.z = dot32(load_w(f, task.starts.z, g, n), v);
            sums.w = dot32(load_w(f, task.starts.w, g, n), v);
        }
    }
    return sums;
}

// r counts the rows of all segments.
fn biased(r: u32, dot: f32) -> f32 {
    if (BIAS == 1u) {
        let at = params.bias_at + r;
        return dot + norm[at >> 2u][at & 3u];
    }
    return dot;
}

// Writes the rows from `row` on; `squares` is Σ x² over the whole of x.
fn finish(task: Task, row: u32, sums: vec4<f32>, squares: f32) {
    var v = sums;
    if (NORM == 1u) {
        v *= inverseSqrt(squares / f32(params.groups * 32u) + params.eps);
    }
    let rows = params.segment[task.segment].rows;
    let out = params.segment[task.segment].out_row + row;
    if (EPILOGUE == 2u) {
        let up = params.segment[1].out_row + row;
        if (row < rows) { emit_gated(out, out, v.x, up, v.y); }
        if (ROWS == 4u && row + 1u < rows) { emit_gated(out + 1u, out + 1u, v.z, up + 1u, v.w); }
        return;
    }
    if (row < rows) { emit(out, out, v.x); }
    if (ROWS >= 2u && row + 1u < rows) { emit(out + 1u, out + 1u, v.y); }
    if (ROWS == 4u) {
        if (row + 2u < rows) { emit(out + 2u, out + 2u, v.z); }
        if (row + 3u < rows) { emit(out + 3u, out + 3u, v.w); }
    }
}
