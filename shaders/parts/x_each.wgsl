// A matvec's input: every invocation loads a group of x itself. Same signatures as x_quad and, on GPUs, x_added.

fn x_lane() -> u32 {
    return 0u;
}

fn x_prepare(wg: u32, i: u32) {
}

fn load_x(g: u32, lane: u32) -> X32 {
    let at = x_start(g);
    return x_normed(
        g,
        mat4x4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]),
        mat4x4<f32>(x[at + 4u], x[at + 5u], x[at + 6u], x[at + 7u]),
    );
}

fn x_squares(share: f32) -> f32 {
    return share;
}
