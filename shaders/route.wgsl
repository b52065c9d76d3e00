// A mixture's router on a GPU: a workgroup a token. See parts/route_core for the formula.
// Each invocation counts how many experts come before its own; that many first picks are others'. Of 512 experts in 256
// invocations that takes 1,024 comparisons each and no barrier, where k rounds of a reduction would take 8 barriers a pick.

const MOST_EXPERTS: u32 = 512u;
const MOST_USED: u32 = 32u;

var<workgroup> scores: array<f32, MOST_EXPERTS>;
var<workgroup> picked: array<u32, MOST_USED>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let t = id.x;
    if (t >= pass_tokens()) {
        return;
    }
    let n = params.experts;
    for (var e = i; e < n; e += WG) {
        scores[e] = score(t, e);
    }
    workgroupBarrier();
    for (var e = i; e < n; e += WG) {
        let own = scores[e];
        var rank = 0u;
        for (var j = 0u; j < n; j++) {
            let other = scores[j];
            // Not a number comes where its index is, so that no two experts have one rank.
            if (other > own || (!(other < own) && j < e)) {
                rank++;
            }
        }
        if (rank < params.used) {
            picked[rank] = e;
        }
    }
    workgroupBarrier();
    let top = logit(t, picked[0]);
    var total = 1.0;
    if (NORMED == 1u) {
        total = 0.0;
        for (var s = 0u; s < params.used; s++) {
            total += share(logit(t, picked[s]), top);
        }
    } else if (GATING == 0u) {
        var sum = 0.0;
        for (var e = i; e < n; e += WG) {
            sum += share(logit(t, e), top);
        }
        total = reduce_sum(sum, i);
    }
    for (var s = i; s < params.used; s += WG) {
        put_pick(t, s, picked[s], share(logit(t, picked[s]), top) * factor(total));
    }
    if (i == 0u) {
        put_shared(t);
    }
}
