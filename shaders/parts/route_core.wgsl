// What both routers share: of a token's logits, one an expert, the `used` largest, and how much each of their experts counts.
//
//   GATING 0 (softmax)   weight = scale * exp(l - top) / total,   top: the largest logit
//   GATING 1 (sigmoid)   weight = scale * sigmoid(l) / total
//
// Constants from the linker:
//   NORMED     1: total is that of the picked; 0: that of all experts' exponentials with the softmax, 1 with the sigmoid
//   SELECTION  1: experts are picked by sigmoid(l) + selection[e], which changes no weight; 0: by l
//   SHARED     0: nothing more; 1: one more pick, of expert 0 with the weight 1: the shared expert, in matrices of its own;
//              2: the same with the weight sigmoid(the logit behind the experts')
// Of equal experts the lower comes first, and the picks are in the order of their scores.

struct Params {
    experts: u32, // at most 512
    used: u32,    // at most 32 and at most experts
    tokens: u32,  // the most tokens of a pass
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;           // [tokens, experts], with SHARED 2 [tokens, experts + 1]
@group(0) @binding(3) var<storage, read> selection: array<f32>;        // [experts]; without SELECTION bound to logits, not read
@group(0) @binding(4) var<storage, read_write> picks: array<vec2<f32>>; // [tokens, used (+ 1)] of (expert, weight)

// The tokens of this pass: 0 where generation is done.
fn pass_tokens() -> u32 {
    return select(0u, min(params.tokens, state[STATE_N_TOKENS]), state[STATE_DONE] == 0u);
}

fn logit(t: u32, e: u32) -> f32 {
    return logits[t * (params.experts + select(0u, 1u, SHARED == 2u)) + e];
}

fn sigmoid(l: f32) -> f32 {
    return 1.0 / (1.0 + exp(min(-l, 80.0)));
}

// What expert e of token t is picked by.
fn score(t: u32, e: u32) -> f32 {
    if (SELECTION == 1u) {
        return sigmoid(logit(t, e)) + selection[e];
    }
    return logit(t, e);
}

// A weight before it is divided by the total.
fn share(l: f32, top: f32) -> f32 {
    if (GATING == 1u) {
        return sigmoid(l);
    }
    return exp(clamp(l - top, -80.0, 0.0));
}

// Sigmoids may all be next to nothing; a softmax's total is at least 1.
fn factor(total: f32) -> f32 {
    return params.scale / max(total, 6e-5);
}

fn pick_at(t: u32, slot: u32) -> u32 {
    return t * (params.used + select(0u, 1u, SHARED > 0u)) + slot;
}

fn put_pick(t: u32, slot: u32, e: u32, weight: f32) {
    picks[pick_at(t, slot)] = vec2<f32>(f32(e), weight);
}

fn put_shared(t: u32) {
    if (SHARED == 2u) {
        put_pick(t, params.used, 0u, sigmoid(logit(t, params.experts)));
    } else if (SHARED == 1u) {
        put_pick(t, params.used, 0u, 1.0);
    }
}
