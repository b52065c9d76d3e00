// A mixture's router for adapters of type CPU: an invocation a token, so no barrier. See parts/route_core for the formula.
// Each pick is the best of those that come after the one before it.

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let t = id.x * WG + i;
    if (t >= pass_tokens()) {
        return;
    }
    // The state's word is 0 here; see matvec_rows.
    let n = params.experts + state[STATE_DONE];
    let used = params.used + state[STATE_DONE];
    var last = 0.0;
    var last_e = 0u;
    var top = 0.0;
    var total = 0.0;
    for (var s = 0u; s < used; s++) {
        var best = 0.0;
        var best_e = n;
        for (var e = 0u; e < n; e++) {
            let own = score(t, e);
            let is_left = s == 0u || own < last || (own == last && e > last_e);
            if (is_left && (best_e == n || own > best)) {
                best = own;
                best_e = e;
            }
        }
        last = best;
        last_e = min(best_e, n - 1u); // none is left only where scores are no numbers
        let l = logit(t, last_e);
        if (s == 0u) {
            top = l;
        }
        let mine = share(l, top);
        total += mine;
        put_pick(t, s, last_e, mine);
    }
    if (NORMED == 0u) {
        total = 1.0;
        if (GATING == 0u) {
            total = 0.0;
            for (var e = 0u; e < n; e++) {
                total += share(logit(t, e), top);
            }
        }
    }
    for (var s = 0u; s < used; s++) {
        let at = pick_at(t, s);
        picks[at].y *= factor(total);
    }
    put_shared(t);
}
