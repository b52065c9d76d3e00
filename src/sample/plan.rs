//! Which part of a chain the two sampling kernels do: all of the common ones. The rest the CPU draws step by step.

use super::options::{Processor, SamplingOptions};

/// The candidates that the kernels keep: top-k up to this is exact on the GPU, and top-p and min-p wherever what they
/// keep is no more than this.
pub const GPU_CANDIDATES: u32 = 64;

/// Entries of the token ring: how many steps may pass before a token must have been read back, and the largest
/// penalty window that the GPU can follow. A power of two.
pub const RING_LEN: u32 = 2048;

/// How the kernels choose a token. The numbers are what `shaders/parts/state.wgsl` calls them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Mode {
    /// The largest processed logit, the lowest id among equals.
    Greedy = 0,
    /// Gumbel-max over the whole vocabulary: an exact draw without a sum or a sort.
    Gumbel = 1,
    /// Top-k, top-p, min-p over the candidates, then the inverse CDF at one uniform.
    Restricted = 2,
    /// Every step is left to the CPU.
    Cpu = 3,
}

/// What the kernels are told about a chain. Bias and penalties run before it, in the default order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// How a token is chosen.
    pub mode: Mode,
    /// 0, or at most [`GPU_CANDIDATES`].
    pub top_k: u32,
    /// 1: off.
    pub top_p: f32,
    /// Top-p's mass is a share of the whole vocabulary's, not of the top-k tokens'.
    pub top_p_of_all: bool,
    /// 0: off.
    pub min_p: f32,
    /// The temperature that top-p and min-p see: 1 where they run before the temperature.
    pub select_temperature: f32,
    /// The temperature of the draw among what they kept.
    pub draw_temperature: f32,
    /// Whether a draw needs the history's counts.
    pub penalties: bool,
}

impl Plan {
    /// The plan for checked options and a vocabulary of `n_vocab`.
    pub fn new(options: &SamplingOptions, n_vocab: u32) -> Self {
        let mut plan = Plan {
            mode: Mode::Gumbel,
            top_k: 0,
            top_p: options.top_p,
            top_p_of_all: true,
            min_p: options.min_p,
            select_temperature: 1.0,
            draw_temperature: options.temperature,
            penalties: options.has_penalties(),
        };
        let top_k = if options.top_k < n_vocab { options.top_k } else { 0 };
        let penalties_seen = options.has_penalties();
        let active: Vec<Processor> = options
            .active()
            .filter(|each| match each {
                Processor::TopK => top_k > 0,
                Processor::RepetitionPenalty | Processor::FrequencyPenalty | Processor::PresencePenalty => penalties_seen,
                _ => true,
            })
            .collect();
        let at = |processor| active.iter().position(|each| *each == processor);
        let follows = |later, earlier| match (at(later), at(earlier)) {
            (Some(later), Some(earlier)) => later > earlier,
            _ => false,
        };
        plan.top_k = top_k;
        if follows(Processor::TopP, Processor::TopK) {
            plan.top_p_of_all = false;
        }
        if follows(Processor::TopP, Processor::Temperature) || follows(Processor::MinP, Processor::Temperature) {
            plan.select_temperature = options.temperature;
        }
        let restricted = [Processor::TopK, Processor::TopP, Processor::MinP].into_iter().any(|each| at(each).is_some());
        // What comes before any selection, in the one order that the kernels know.
        let first = [Processor::LogitBias, Processor::RepetitionPenalty, Processor::FrequencyPenalty, Processor::PresencePenalty];
        let head: Vec<Processor> = active.iter().copied().take_while(|each| first.contains(each)).collect();
        let in_order = head.windows(2).all(|pair| pair[0] as u32 <= pair[1] as u32);
        let none_later = !active[head.len()..].iter().any(|each| first.contains(each));
        // Between them the temperature would be seen by one and not by the other.
        let straddles = (follows(Processor::TopP, Processor::Temperature) && follows(Processor::Temperature, Processor::MinP))
            || (follows(Processor::MinP, Processor::Temperature) && follows(Processor::Temperature, Processor::TopP));
        let greedy = options.is_greedy() && at(Processor::Temperature).is_some();
        let possible = in_order
            && none_later
            && !straddles
            && at(Processor::TypicalP).is_none()
            && !follows(Processor::TopP, Processor::MinP)
            && (greedy || top_k <= GPU_CANDIDATES)
            && (!plan.penalties || options.penalty_window.is_none_or(|window| window < RING_LEN));
        plan.mode = match (possible, greedy, restricted) {
            (false, ..) => Mode::Cpu,
            (_, true, _) => Mode::Greedy, // the largest survives every selection but the typical one
            (_, _, true) => Mode::Restricted,
            (_, _, false) => Mode::Gumbel,
        };
        plan
    }
}
