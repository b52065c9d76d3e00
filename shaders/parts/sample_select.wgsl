// The CANDIDATES largest of many entries by a radix select in workgroup memory: seven passes of a byte each, over the
// key and then over the inverted id, so that among equal keys the lowest ids win, exactly and whatever the order of the
// atomics. (A bitonic sort of 1024 entries takes 55 steps with a barrier each; this takes 28 barriers for any number.)
// `const WG: u32 = 256` comes from the linker; the kernel declares
//     fn entry(e: u32) -> vec2<u32>   // key and MAX_ID - id of entry e

var<workgroup> select_bins: array<atomic<u32>, 256>;
var<workgroup> select_choice: vec2<u32>; // digit, how many are still wanted within it

// The least (key, inverted id) among the CANDIDATES largest of n entries; (0, 0) where there are fewer.
// In uniform control flow; `i` is the local index, `n` uniform.
fn select_least(n: u32, i: u32) -> vec2<u32> {
    var least = vec2<u32>();
    var mask = vec2<u32>(); // the bits of `least` that are known
    var wanted = CANDIDATES;
    for (var pass_no = 0u; pass_no < 7u; pass_no++) {
        let in_key = pass_no < 4u;
        let shift = select(48u - pass_no * 8u, 24u - pass_no * 8u, in_key);
        atomicStore(&select_bins[i], 0u);
        if (i == 0u) {
            select_choice = vec2<u32>(0u, wanted);
        }
        workgroupBarrier();
        for (var e = i; e < n; e += WG) {
            let at = entry(e);
            if (all((at & mask) == least)) {
                atomicAdd(&select_bins[(select(at.y, at.x, in_key) >> shift) & 255u], 1u);
            }
        }
        workgroupBarrier();
        var above = 0u;
        for (var bin = i + 1u; bin < 256u; bin++) {
            above += atomicLoad(&select_bins[bin]);
        }
        if (above < wanted && above + atomicLoad(&select_bins[i]) >= wanted) {
            select_choice = vec2<u32>(i, wanted - above);
        }
        let choice = workgroupUniformLoad(&select_choice);
        wanted = choice.y;
        if (in_key) {
            least.x |= choice.x << shift;
            mask.x |= 255u << shift;
        } else {
            least.y |= choice.x << shift;
            mask.y |= 255u << shift;
        }
    }
    return least;
}

fn selected(at: vec2<u32>, least: vec2<u32>) -> bool {
    return at.x != 0u && (at.x > least.x || (at.x == least.x && at.y >= least.y));
}
