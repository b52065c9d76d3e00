// Weights of one format: `f` is not needed.
fn load_w(f: u32, row: u32, g: u32, n: u32) -> W32 {
    return qa_load(row, g, n);
}
