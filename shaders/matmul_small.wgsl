// Matrix times a few tokens, on a GPU: short prompts and the ends of long ones. See parts/matmul_core for the formula.
//
// The tiles of matmul would be mostly empty here, and the weights' bytes are what takes the time. So the columns are shared
// out as in a matvec: of a workgroup's WG invocations LANES_K divide the groups of 32 columns among themselves, and each of
// them owns two rows (a gate and an up row in a gated feed-forward). It decodes a weight once for eight tokens, into
// registers, and the loop over columns has no barrier; at the end the LANES_K sums of each product meet in workgroup memory.
// Eight neighbouring invocations have eight rows of the same group: they load the same activations, and the next eight the
// next group of the same rows. More than eight tokens take more workgroups, which run at the same time and so share their
// weights in the cache: decoding them again costs about a seventh of the products, and sums of 32 tokens would cost lavapipe
// 20 s of compiling.
// Constants from the linker: WG and LANES_K, powers of two. Workgroups: x over tokens, y over rows.

const TOKENS: u32 = 8u;
const ROW_LANES: u32 = WG / LANES_K;
const ROWS: u32 = 2u * ROW_LANES;
const PITCH: u32 = TOKENS * ROWS + 8u; // so that the lanes of K that write at the same time lie in different banks

var<workgroup> pieces: array<f32, LANES_K * PITCH>; // [lane of K][token][row]

// The products of four tokens, a component each, with row a and with row b.
struct Quad { a: vec4<f32>, b: vec4<f32> }

// The group's part of one token's products with rows a and b.
fn products(at: u32, a: Row, b: Row) -> vec2<f32> {
    let one = vec4<f32>(1.0);
    let x0 = x[at];
    let x1 = x[at + 1u];
    let x2 = x[at + 2u];
    let x3 = x[at + 3u];
    let x4 = x[at + 4u];
    let x5 = x[at + 5u];
    let x6 = x[at + 6u];
    let x7 = x[at + 7u];
    let of_a = x0 * a.a[0] + x1 * a.a[1] + x2 * a.a[2] + x3 * a.a[3] + x4 * a.b[0] + x5 * a.b[1] + x6 * a.b[2] + x7 * a.b[3];
    let of_b = x0 * b.a[0] + x1 * b.a[1] + x2 * b.a[2] + x3 * b.a[3] + x4 * b.b[0] + x5 * b.b[1] + x6 * b.b[2] + x7 * b.b[3];
    return vec2<f32>(dot(of_a, one), dot(of_b, one));
}

// `sums` and the products of the four tokens whose groups start there. What lies behind the pass's tokens is computed with and
// never written.
fn with_quad(sums: Quad, at: vec4<u32>, a: Row, b: Row) -> Quad {
    let p0 = products(at.x, a, b);
    let p1 = products(at.y, a, b);
    let p2 = products(at.z, a, b);
    let p3 = products(at.w, a, b);
    return Quad(sums.a + vec4<f32>(p0.x, p1.x, p2.x, p3.x), sums.b + vec4<f32>(p0.y, p1.y, p2.y, p3.y));
}

fn share(at: u32, quad: Quad) {
    pieces[at] = quad.a.x;
    pieces[at + ROWS] = quad.a.y;
    pieces[at + 2u * ROWS] = quad.a.z;
    pieces[at + 3u * ROWS] = quad.a.w;
    pieces[at + ROW_LANES] = quad.b.x;
    pieces[at + ROW_LANES + ROWS] = quad.b.y;
    pieces[at + ROW_LANES + 2u * ROWS] = quad.b.z;
    pieces[at + ROW_LANES + 3u * ROWS] = quad.b.w;
}

fn total(at: u32) -> f32 {
    var sum = 0.0;
    for (var k = 0u; k < LANES_K; k++) {
        sum += pieces[k * PITCH + at];
    }
    return sum;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let span = tile_span(id.x, TOKENS);
    let t0 = span.x;
    let n = span.y;
    if (t0 >= n) {
        return;
    }
    let tile = params.first + id.y;
    let s = segment_of(tile);
    let s_b = select(s, 1u, EPILOGUE == 2u);
    let row0 = (tile - params.segment[s].wg_start) * params.wg_rows;
    let k = (i >> 3u) & (LANES_K - 1u);
    let lane = (i & 7u) + 8u * (i / (8u * LANES_K));
    let start_a = row_start(s, row0 + lane);
    let start_b = row_start(s_b, row0 + lane + select(ROW_LANES, 0u, EPILOGUE == 2u));
    let format_a = params.segment[s].format;
    let format_b = params.segment[s_b].format;
    let rows_lo = vec4<u32>(x_row(t0), x_row(t0 + 1u), x_row(t0 + 2u), x_row(t0 + 3u));
    let rows_hi = vec4<u32>(x_row(t0 + 4u), x_row(t0 + 5u), x_row(t0 + 6u), x_row(t0 + 7u));

    var lo = Quad();
    var hi = Quad();
    for (var g = k; g < params.groups; g += LANES_K) {
        let a = weights_row(load_w(format_a, start_a, g, params.groups));
        let b = weights_row(load_w(format_b, start_b, g, params.groups));
        lo = with_quad(lo, rows_lo + g * 8u, a, b);
        if (n - t0 > 4u) {
            hi = with_quad(hi, rows_hi + g * 8u, a, b);
        }
    }
    share(k * PITCH + lane, lo);
    share(k * PITCH + 4u * ROWS + lane, hi);
    workgroupBarrier();

    let width = select(ROWS, ROW_LANES, EPILOGUE == 2u);
    for (var o = i; o < TOKENS * width; o += WG) {
        let t = o / width;
        let row = o % width;
        if (t0 + t >= n || row0 + row >= params.segment[s].rows) {
            continue;
        }
        let sum = total(t * ROWS + row);
        if (EPILOGUE == 2u) {
            put_gated(t0 + t, row0 + row, sum, total(t * ROWS + ROW_LANES + row));
        } else {
            put(t0 + t, params.segment[s].out_row + row0 + row, sum);
        }
    }
}
