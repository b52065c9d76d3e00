// The matrices of one dispatch of matvec or matmul: one to three, each a segment of the workgroups and of y's rows.
// `params.segments` and `params.segment` are the kernel's; EPILOGUE comes from the linker, and with 2 the segments 0 and 1
// are gate and up, worked on together.

struct Segment {
    base: u32,     // of row 0, in vec4<u32>
    row_vec4: u32, // of a row, in vec4<u32>
    rows: u32,
    format: u32,   // which decoder: 0, 1 or 2
    out_row: u32,  // where this segment's rows start in y, or in a row of y
    wg_start: u32, // the first workgroup that works on it
    pad0: u32,
    pad1: u32,
}

// The segment that workgroup `wg` works on. Uniform in a workgroup.
fn segment_of(wg: u32) -> u32 {
    if (EPILOGUE == 2u) {
        return 0u;
    }
    var s = 0u;
    if (params.segments > 1u && wg >= params.segment[1].wg_start) {
        s = 1u;
    }
    if (params.segments > 2u && wg >= params.segment[2].wg_start) {
        s = 2u;
    }
    return s;
}
