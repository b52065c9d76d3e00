// x_quad for dot_i8: the four of a quad load, norm and round two vec4 each and show one another two words instead of eight numbers.
// Must be called in uniform control flow, with the same g. Same signatures as x_each.

fn x_lane() -> u32 {
    return subgroupExclusiveAdd(1u) & 3u;
}

fn x_quad_sum(v: vec2<f32>) -> vec2<f32> {
    let pair = v + quadSwapX(v);
    return pair + quadSwapY(pair);
}

fn x_quad_words(word: u32) -> vec4<u32> {
    return vec4<u32>(quadBroadcast(word, 0u), quadBroadcast(word, 1u), quadBroadcast(word, 2u), quadBroadcast(word, 3u));
}

fn load_x(g: u32, lane: u32) -> X32 {
    let k = params.norm_at + g * 8u + lane;
    let at = x_start(g) + lane;
    var p = x[at];
    var q = x[at + 4u];
    var v: X32;
    if (NORM == 1u) {
        v.squares = dot(p, p) + dot(q, q);
        p *= norm[k];
        q *= norm[k + 4u];
    }
    let tops = max(abs(p), abs(q));
    let own = max(max(tops.x, tops.y), max(tops.z, tops.w));
    let pair = max(own, quadSwapX(own));
    let top = max(pair, quadSwapY(pair));
    v.a = x_quad_words(pack4x8snorm(p * weights_x_factor(top)));
    v.b = x_quad_words(pack4x8snorm(q * weights_x_factor(top)));
    v.scale = weights_x_scale(top);
    v.sums = vec2<f32>(vec2<i32>(weights_sum(v.a), weights_sum(v.b)));
    return v;
}

fn x_squares(share: f32) -> f32 {
    return x_quad_sum(vec2<f32>(share)).x;
}
