//! The feed-forward half of a block where each token passes the few experts that a router picks for it, and perhaps one that
//! every token passes.

use super::Architecture;
use super::builder::{Builder, Rows};
use super::forward::Pass;
use super::layer::{Linear, Norms};
use super::plan::Slot;
use crate::err;
use crate::error::Result;
use crate::kernels::expert_sum::{self, expert_sum};
use crate::kernels::experts::{Io, Picks, Place, Run, Step, experts};
use crate::kernels::gathered::{self, gathered, tile};
use crate::kernels::matvec::Epilogue;
use crate::kernels::route::{self, Gating, MOST_EXPERTS, MOST_USED, Router, Shared, route};
use crate::kernels::tiles::{Tiling, tiles};
use crate::kernels::tuning::Role;
use crate::kernels::{Access, BINDING_ALIGNMENT, Binding};

/// A model's mixture, as data. Names as in GGUF.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Experts {
    /// Experts of a layer.
    pub count: u32,
    /// Experts that a token takes.
    pub used: u32,
    /// Width of an expert's feed-forward.
    pub n_ff: u32,
    /// Width of the shared expert's, in layers that have one.
    pub n_ff_shared: u32,
    /// How the router's logits become weights.
    pub gating: Gating,
    /// Whether a token's weights are made to add up to 1.
    pub normed: bool,
    /// What they are multiplied with at the end.
    pub scale: f32,
}

impl Experts {
    /// Checks what the kernels rely on. Errors: `bad-file`, `unsupported-architecture`.
    pub(super) fn check(&self, name: &str) -> Result<()> {
        let bounded = |what: &str, value: u32, max: u32| match (1..=max).contains(&value) {
            true => Ok(()),
            false => Err(err!(BadFile, "{name} {what}: expected 1 to {max}, found {value}")),
        };
        bounded("expert_count", self.count, MOST_EXPERTS)?;
        bounded("expert_used_count", self.used, MOST_USED.min(self.count))?;
        for (what, width) in [("expert_feed_forward_length", self.n_ff), ("expert_shared_feed_forward_length", self.n_ff_shared)]
        {
            bounded(what, width, super::architecture::limit::WIDTH)?;
            if !width.is_multiple_of(32) {
                return Err(err!(UnsupportedArchitecture, "{name}: expected {what} to be a multiple of 32, found {width}"));
            }
        }
        if !self.scale.is_finite() {
            return Err(err!(BadFile, "{name} expert_weights_scale: expected a number, found {}", self.scale));
        }
        Ok(())
    }

    /// Floats that a token's gated products take, the shared expert's behind the others'.
    pub(super) fn gated_width(&self) -> u32 {
        self.used * self.n_ff + self.n_ff_shared
    }

    /// Makes room for what all layers share.
    pub(super) fn slots(&self, b: &mut Builder<'_>, n_embd: u32) -> Result<ExpertSlots> {
        let tokens = b.options.max_prefill.max(1);
        let rows = |width: u64| width * 4 * u64::from(tokens);
        // With the shared expert a layer may have one more logit and one more pick.
        let (logits, picks) = (u64::from(self.count) + 1, u64::from(self.used) + 1);
        let tiling = Tiling { experts: self.count, picks: tokens * self.used, tile: tile(b.options.tier) };
        Ok(ExpertSlots {
            logits: b.slot("router", rows(logits))?,
            picks: b.slot("picks", rows(2 * picks))?,
            lists: b.slot("picks by expert", 2 * tiling.bytes().next_multiple_of(BINDING_ALIGNMENT))?,
            given: b.slot("given by experts", rows(u64::from(self.used) * u64::from(n_embd)))?,
        })
    }
}

/// The buffers that all layers with experts share.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExpertSlots {
    /// A router's logits.
    pub logits: Slot,
    /// Which experts a token takes.
    pub picks: Slot,
    /// A prefill's picks, by expert: of those that the router picked, and of the shared one.
    pub lists: Slot,
    /// What a prefill's experts gave, each for itself.
    pub given: Slot,
}

/// Picks an expert, on average, from which on a weight is better decoded once for several tokens.
const WORTH_SORTING: u32 = 4;

/// A layer's mixture.
#[derive(Debug, Clone)]
pub(super) struct Moe {
    norms: Norms,
    /// A row for each expert, and perhaps one more for the shared expert.
    router: Linear,
    /// What is added while experts are picked.
    selection: Option<Binding>,
    routing: Router,
    /// Those that are picked, and perhaps the shared one.
    feeds: Vec<Feed>,
    /// The width of a token's row of gated products.
    width: u32,
}

/// Experts of one width, and the picks that are theirs.
#[derive(Debug, Clone)]
struct Feed {
    gate_up: Vec<Run>,
    gate_up_bias: Option<Binding>,
    down: Vec<Run>,
    down_bias: Option<Binding>,
    experts: u32,
    n_ff: u32,
    /// The first pick of a token, and how many.
    first: u32,
    slots: u32,
    /// Where the gated products begin in a token's row.
    at: u32,
}

impl Moe {
    /// The tensor that a layer with experts has, and one without has not.
    pub fn tensor(index: u32) -> String {
        format!("blk.{index}.ffn_gate_inp.weight")
    }

    pub fn read(b: &mut Builder<'_>, a: &Architecture, e: &Experts, index: u32) -> Result<Self> {
        let name = |part: &str| format!("blk.{index}.{part}");
        if a.ffn_norms.added.is_some() || a.ffn_norms.after.is_some() || !a.gated {
            return Err(err!(UnsupportedArchitecture, "{}: experts without a gate, or with norms behind them", a.name));
        }
        let (shared, shared_gate) = (b.has(&name("ffn_up_shexp.weight")), name("ffn_gate_inp_shexp.weight"));
        let routing = Router {
            experts: e.count,
            used: e.used,
            gating: e.gating,
            normed: e.normed,
            scale: e.scale,
            shared: match (shared, b.has(&shared_gate)) {
                (false, _) => Shared::None,
                (true, false) => Shared::Always,
                (true, true) => Shared::Gated,
            },
        };
        let mut logits = vec![Rows::all(Self::tensor(index), e.count)];
        if routing.shared == Shared::Gated {
            logits.push(Rows::all(shared_gate, 1));
        }
        let selection = name("exp_probs_b.bias");
        let selection = b.has(&selection).then(|| b.vector(&selection, e.count)).transpose()?;
        if selection.is_some() && e.gating == Gating::Softmax {
            return Err(err!(UnsupportedArchitecture, "{}: a bias of the choice among experts with a softmax", a.name));
        }
        let mut feeds = vec![Feed::read(b, a, index, "exps", (e.count, e.n_ff), (0, e.used, 0))?];
        if shared {
            feeds.push(Feed::read(b, a, index, "shexp", (1, e.n_ff_shared), (e.used, 1, e.used * e.n_ff))?);
        }
        Ok(Self {
            norms: b.norms(a, &a.ffn_norms, index)?,
            // A small error of a logit may be another expert.
            router: Linear { exact: true, ..b.linear(name("router"), a.n_embd, &logits)? },
            selection,
            routing,
            feeds,
            width: e.gated_width(),
        })
    }

    pub fn inner(&self, p: &mut Pass<'_>) -> Result<()> {
        let (ids, a) = (&p.plan.ids, &p.plan.architecture);
        p.normed(Role::GateUp, &self.router, &self.norms, ids.experts.logits, Epilogue::STORE)?;
        let (x, norm) = p.input(&self.norms)?;
        let (state, tier, tokens) = (ids.state.read(), p.plan.options.tier, p.tokens);
        let picks = ids.experts.picks.write();
        let io = route::Io { state, logits: ids.experts.logits.read(), selection: self.selection, picks, tokens };
        p.recording.push(route(tier, &self.routing, io)?);
        for feed in &self.feeds {
            let input = Place { binding: x.read(), stride: a.n_embd, at: 0 };
            let y = Place { binding: ids.gated.write(), stride: self.width, at: feed.at };
            let bias = feed.gate_up_bias.map(|bias| (bias, feed.experts));
            let picks = self.picks(p, feed);
            if let Some(tiling) = feed.tiling(p) {
                let list = feed.list(p);
                p.recording.push(tiles(&tiling, state, &picks, list, tokens)?);
                let list = Binding { access: Access::Read, ..list };
                let io = gathered::Io { state, x: input, x_slot: 0, list, tiling, slots: feed.slots, bias, y };
                for run in &feed.gate_up {
                    p.recording.extend(gathered(tier, run, io, Some(a.activation))?);
                }
                continue;
            }
            let io = Io { state, x: input, norm, picks, bias, y, tokens };
            for run in &feed.gate_up {
                p.recording.extend(experts(tier, run, io, Step::Gated(a.activation))?);
            }
        }
        Ok(())
    }

    pub fn outer(&self, p: &mut Pass<'_>) -> Result<()> {
        let (ids, a, tier, tokens) = (&p.plan.ids, &p.plan.architecture, p.plan.options.tier, p.tokens);
        let (state, stream) = (ids.state.read(), p.stream().write());
        for feed in &self.feeds {
            let x = Place { binding: ids.gated.read(), stride: self.width, at: feed.at };
            let bias = feed.down_bias.map(|bias| (bias, feed.experts));
            let picks = self.picks(p, feed);
            if let Some(tiling) = feed.tiling(p) {
                let list = Binding { access: Access::Read, ..feed.list(p) };
                let y = Place { binding: ids.experts.given.write(), stride: feed.slots * a.n_embd, at: 0 };
                let io = gathered::Io { state, x, x_slot: feed.n_ff, list, tiling, slots: feed.slots, bias, y };
                for run in &feed.down {
                    p.recording.extend(gathered(tier, run, io, None)?);
                }
                let given = ids.experts.given.read();
                let io = expert_sum::Io { state, picks, given, x: stream, tokens, cols: a.n_embd };
                p.recording.push(expert_sum(io, a.residual_scale)?);
                continue;
            }
            let io = Io { state, x, norm: None, picks, bias, y: Place { binding: stream, stride: a.n_embd, at: 0 }, tokens };
            for run in &feed.down {
                p.recording.extend(experts(tier, run, io, Step::Down { scale: a.residual_scale })?);
            }
        }
        p.added(&self.norms)
    }

    fn picks(&self, p: &Pass<'_>, feed: &Feed) -> Picks {
        Picks { binding: p.plan.ids.experts.picks.read(), row: self.routing.picks(), first: feed.first, slots: feed.slots }
    }

    /// Bytes of weights that are read for one token: of the experts those that it picks.
    pub fn bytes_per_token(&self) -> u64 {
        let expert = |runs: &[Run]| runs.first().map_or(0, |run| run.matrices.iter().map(|m| m.bytes()).sum());
        let feed = |f: &Feed| u64::from(f.slots) * (expert(&f.gate_up) + expert(&f.down));
        self.feeds.iter().map(feed).chain(self.router.matrices.iter().map(|m| m.bytes())).sum()
    }
}

impl Feed {
    /// The tensors that end in `kind`: of so many experts of a width, at a place among the picks and in the gated products.
    fn read(
        b: &mut Builder<'_>,
        a: &Architecture,
        index: u32,
        kind: &str,
        (experts, n_ff): (u32, u32),
        (first, slots, at): (u32, u32, u32),
    ) -> Result<Self> {
        let names = |parts: &[&str]| -> Vec<String> { parts.iter().map(|p| format!("blk.{index}.ffn_{p}_{kind}")).collect() };
        let (gate_up, down) = (names(&["gate", "up"]), names(&["down"]));
        Ok(Self {
            gate_up_bias: b.expert_biases(&gate_up, n_ff, experts)?,
            gate_up: b.experts(&gate_up, n_ff, a.n_embd, experts)?,
            down_bias: b.expert_biases(&down, a.n_embd, experts)?,
            down: b.experts(&down, a.n_embd, n_ff, experts)?,
            experts,
            n_ff,
            first,
            slots,
            at,
        })
    }

    /// How a prefill's picks are sorted, where its tokens are so many that experts have several each.
    fn tiling(&self, p: &Pass<'_>) -> Option<Tiling> {
        let picks = p.tokens * self.slots;
        let worth = p.positions.is_none() && picks >= WORTH_SORTING * self.experts;
        worth.then(|| Tiling { experts: self.experts, picks, tile: tile(p.plan.options.tier) })
    }

    /// Where the sorted picks are: the shared expert's behind the others'.
    fn list(&self, p: &Pass<'_>) -> Binding {
        let Slot { id, bytes } = p.plan.ids.experts.lists;
        Binding::read_write(id, if self.first > 0 { bytes / 2 } else { 0 }, bytes / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::{Header, Metadata, Value};
    use crate::kernels::attention::{KvType, SplitRule};
    use crate::model::{Plan, PlanOptions, read};
    use crate::tensor::{Format, Tier};

    /// A layer of sixteen experts, two of which a token takes; `change` may spoil a key or a tensor.
    fn header(change: impl Fn(&str) -> Option<Vec<u64>>) -> Header {
        let entry = |(key, value): (&str, u32)| {
            let changed = change(key).and_then(|v| v.first().copied()).map_or(value, |v| v as u32);
            (format!("qwen3moe.{key}"), Value::U32(changed))
        };
        let mut entries: Vec<_> = [
            ("block_count", 1),
            ("embedding_length", 64),
            ("feed_forward_length", 32),
            ("attention.head_count", 2),
            ("expert_count", 16),
            ("expert_used_count", 2),
            ("expert_gating_func", 1),
            ("expert_group_count", 1),
        ]
        .map(entry)
        .into();
        entries.push(("general.architecture".into(), Value::String("qwen3moe".into())));
        entries.push(("qwen3moe.attention.layer_norm_rms_epsilon".into(), Value::F32(1e-6)));
        let tensor = |(name, shape): (&str, &[u64])| {
            let matrix = shape.len() > 1 && !name.contains("inp");
            let format = if matrix { Format::Q8_0 } else { Format::F32 };
            (name.to_owned(), format, change(name).unwrap_or_else(|| shape.to_vec()))
        };
        let tensors = [
            ("token_embd.weight", &[64u64, 16][..]),
            ("output_norm.weight", &[64]),
            ("blk.0.attn_norm.weight", &[64]),
            ("blk.0.ffn_norm.weight", &[64]),
            ("blk.0.attn_q_norm.weight", &[32]),
            ("blk.0.attn_k_norm.weight", &[32]),
            ("blk.0.attn_q.weight", &[64, 64]),
            ("blk.0.attn_k.weight", &[64, 64]),
            ("blk.0.attn_v.weight", &[64, 64]),
            ("blk.0.attn_output.weight", &[64, 64]),
            ("blk.0.ffn_gate_inp.weight", &[64, 16]),
            ("blk.0.ffn_gate_exps.weight", &[64, 32, 16]),
            ("blk.0.ffn_up_exps.weight", &[64, 32, 16]),
            ("blk.0.ffn_down_exps.weight", &[32, 64, 16]),
        ];
        Header::lay_out(Metadata::from_entries(entries), tensors.map(tensor).into()).unwrap()
    }

    fn plan(header: &Header, max_binding_bytes: u64) -> Result<Plan> {
        let tier = Tier { max_binding_bytes, ..Tier::BASE };
        let (context_length, kv, max_prefill, split_rule) = (64, KvType::F32, 4, SplitRule::of(tier));
        Plan::new(read(header)?, header, PlanOptions { tier, context_length, kv, max_prefill, split_rule })
    }

    #[test]
    fn what_metadata_say_of_experts_is_bounded() {
        let cases: [(&str, &[u64], &str); 9] = [
            ("expert_used_count", &[0], "bad-file"),
            ("expert_used_count", &[17], "bad-file"),
            ("expert_count", &[u32::MAX as u64], "bad-file"),
            ("expert_count", &[3], "bad-file"),
            ("feed_forward_length", &[33], "unsupported-architecture"),
            ("expert_gating_func", &[9], "unsupported-architecture"),
            ("expert_group_count", &[2], "unsupported-architecture"),
            ("blk.0.ffn_down_exps.weight", &[32, 64, 15], "bad-file"),
            ("blk.0.ffn_up_exps.weight", &[64, 64, 16], "bad-file"),
        ];
        assert!(plan(&header(|_| None), 1 << 20).is_ok());
        for (changed, to, code) in cases {
            let header = header(|name| (name == changed).then(|| to.to_vec()));
            assert_eq!(plan(&header, 1 << 20).unwrap_err().code.as_str(), code, "{changed} = {to:?}");
        }
    }

    #[test]
    fn experts_beyond_a_binding_are_bound_in_runs() {
        let header = header(|_| None);
        let runs = |max: u64| {
            let plan = plan(&header, max)?;
            let names = plan.decode(1)?.dispatches.into_iter().filter(|d| d.variant.kernel.name == "experts");
            Ok::<_, crate::error::Error>((names.count(), plan.weight_bytes_per_token()))
        };
        let (whole, bytes) = runs(1 << 20).unwrap();
        // Gate and up of an expert have 2 · 32 rows of 80 bytes, and down 64 of 48: nine and sixteen of them fit.
        let (split, same) = runs(50_000).unwrap();
        assert_eq!((whole, split, bytes), (2, 3, same));
        let matrices = 4 * 64 * 80 + 16 * 256 + 2 * 64 * (80 + 48);
        assert_eq!(bytes, matrices + 16 * 80 + 80, "two experts of sixteen, and the head");
    }
}
