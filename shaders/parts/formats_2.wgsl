// Weights of two formats in one kernel: `f` chooses, and is uniform in a workgroup.
fn load_w(f: u32, row: u32, g: u32, n: u32) -> W32 {
    if (f == 1u) {
        return qb_load(row, g, n);
    }
    return qa_load(row, g, n);
}
