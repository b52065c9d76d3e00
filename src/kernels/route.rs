//! A mixture's router: which experts a token takes, and how much each counts: `shaders/route.wgsl` (a workgroup a token) and
//! `shaders/route_single.wgsl` (an invocation a token, for CPU adapters). The logits are an ordinary matrix's.

use super::{Binding, Cost, Dispatch, MAX_WORKGROUPS, Source, Variant, state};
use crate::err;
use crate::error::Result;
use crate::source;
use crate::tensor::Tier;

const CORE: Source = source!("parts/route_core");
const WORKGROUP: Source = source!("route");
const SINGLE: Source = source!("route_single");
/// Tokens of a workgroup of `route_single`.
const CPU_WG: u32 = 8;

/// The most experts of a layer. The largest models in use have 512.
pub const MOST_EXPERTS: u32 = 512;
/// The most experts of a token. The most in use are 22.
pub const MOST_USED: u32 = 32;

/// How a router's logits become weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gating {
    /// A softmax over all experts.
    Softmax,
    /// Each logit's sigmoid.
    Sigmoid,
}

/// An expert that every token takes beside those that it picks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    /// There is none.
    None,
    /// With a weight of 1.
    Always,
    /// With the sigmoid of one more logit, behind the experts'.
    Gated,
}

/// What a router does with a token's logits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Router {
    /// Experts to choose from, at most [`MOST_EXPERTS`].
    pub experts: u32,
    /// Experts that a token takes, at most [`MOST_USED`].
    pub used: u32,
    /// How logits become weights.
    pub gating: Gating,
    /// Whether the weights of a token's experts are made to add up to 1. With a softmax: one over the picked.
    pub normed: bool,
    /// What the weights are multiplied with at the end.
    pub scale: f32,
    /// The shared expert.
    pub shared: Shared,
}

impl Router {
    /// Floats in a token's row of logits.
    pub fn logits(&self) -> u32 {
        self.experts + u32::from(self.shared == Shared::Gated)
    }

    /// Picks in a token's row: the experts that it takes, by weight, and then the shared one.
    pub fn picks(&self) -> u32 {
        self.used + u32::from(self.shared != Shared::None)
    }
}

/// What a router is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// The state buffer: done, and how many of the tokens are there.
    pub state: Binding,
    /// f32\[tokens, [`Router::logits`]\]
    pub logits: Binding,
    /// f32\[experts\], added to the sigmoids while experts are picked, and to no weight. For [`Gating::Sigmoid`].
    pub selection: Option<Binding>,
    /// \[tokens, [`Router::picks`]\] of (expert, weight), both f32
    pub picks: Binding,
    /// The most tokens of a pass.
    pub tokens: u32,
}

/// Each token's picks.
///
/// # Errors
/// `internal` where the numbers are beyond the limits or the bindings too small.
pub fn route(tier: Tier, router: &Router, io: Io) -> Result<Dispatch> {
    let &Router { experts, used, gating, normed, scale, shared } = router;
    let tokens = u64::from(io.tokens);
    let fits = (1..=MOST_EXPERTS).contains(&experts)
        && (1..=MOST_USED.min(experts)).contains(&used)
        && (1..=MAX_WORKGROUPS).contains(&io.tokens)
        && io.logits.bytes >= tokens * u64::from(router.logits()) * 4
        && io.picks.bytes >= tokens * u64::from(router.picks()) * 8
        && io.selection.is_none_or(|s| gating == Gating::Sigmoid && s.bytes >= u64::from(experts) * 4);
    if !fits {
        return Err(err!(Internal, "route: {router:?} does not fit {io:?}"));
    }
    let shared = match shared {
        Shared::None => 0,
        Shared::Always => 1,
        Shared::Gated => 2,
    };
    let base = Variant::new(if tier.cpu { SINGLE } else { WORKGROUP }, &[state::STATE, CORE])
        .constant("GATING", u32::from(gating == Gating::Sigmoid))
        .constant("NORMED", u32::from(normed))
        .constant("SELECTION", u32::from(io.selection.is_some()))
        .constant("SHARED", shared);
    let (variant, workgroups) = if tier.cpu {
        (base.constant("WG", CPU_WG), io.tokens.div_ceil(CPU_WG))
    } else {
        (base.with_reduce(tier, experts.next_power_of_two().clamp(32, 256)), io.tokens)
    };
    Ok(Dispatch {
        variant,
        params: vec![experts, used, io.tokens, scale.to_bits()],
        bindings: vec![io.state, io.logits, io.selection.unwrap_or(io.logits), io.picks],
        workgroups: [workgroups, 1, 1],
        cost: Cost { fixed: tokens * u64::from(experts) * u64::from(used), per_key: 0 },
        continues: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::BufferId;

    #[test]
    fn what_does_not_fit_is_refused() {
        let all = |floats: u64| Binding::read(BufferId(0), 0, floats * 4);
        let router = Router { experts: 8, used: 2, gating: Gating::Softmax, normed: true, scale: 1.0, shared: Shared::Gated };
        let io = Io { state: all(64), logits: all(9 * 3), selection: None, picks: all(3 * 2 * 3), tokens: 3 };
        let refused = |router: Router, io: Io| route(Tier::BASE, &router, io).is_err();
        assert!(!refused(router, io));
        assert!(refused(Router { used: 0, ..router }, io));
        assert!(refused(Router { used: 9, ..router }, io), "more than there are");
        assert!(refused(Router { used: 3, ..router }, io), "too few picks are bound");
        assert!(refused(Router { experts: MOST_EXPERTS + 1, ..router }, Io { logits: all(9999), ..io }));
        assert!(refused(router, Io { logits: all(8 * 3), ..io }), "no logit of the shared expert");
        assert!(refused(router, Io { selection: Some(all(8)), ..io }), "by softmax experts are picked by their logits");
    }
}
