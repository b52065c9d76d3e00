//! How much the device is given at once: dispatches of a prefill submit, decode steps of a group. Both adapt to times that
//! the host's clock measures from answer to answer, which is all that a page can see.

use std::collections::VecDeque;

use crate::gpu::Part;
use crate::kernels::Cost;

/// What a prefill submit should take; a page must be able to paint between two, so twice that is the bound.
const SUBMIT_MS: f64 = 50.0;

/// What a dispatch costs apart from its multiply-adds, in multiply-adds.
const DISPATCH_COST: u64 = 100_000;

/// Milliseconds a multiply-add before anything was measured: a slow device of the kind, so that the first submits are short.
const FIRST_MS: f64 = 1.0 / 50e6;
const FIRST_MS_CPU: f64 = 1.0 / 1e6;

/// By how much the estimate may fall at once: one measurement is of a few kernels only.
const FALL: f64 = 4.0;

/// How often the answers come that are measured: a device whose answers are polled for tells less than its clock says.
const RESOLUTION: f64 = 4.0;

/// Cuts passes into submits.
pub(super) struct Pacer {
    /// Milliseconds for a multiply-add, as far as is known.
    rate: f64,
    /// Whether that was measured.
    adapted: bool,
    /// How long a trivial readback takes.
    latency_ms: f64,
}

/// Submits of which the last one's answer tells when they were done.
#[derive(Clone, Copy, Default)]
struct Stretch {
    cost: u64,
    /// Of the largest submit.
    largest: u64,
    /// Whether the submits were sized by a measured rate.
    adapted: bool,
}

/// One prefill as the device plays it.
pub(super) struct Flow {
    /// Submitted, and nothing asked back yet.
    open: Stretch,
    /// Asked back, the oldest first, with the time of the submit.
    flying: VecDeque<(Stretch, f64)>,
    /// When the last answer came.
    answered: f64,
    /// Answers too near each other to be told apart by the clock.
    window: (f64, Stretch),
    /// Submits so far.
    pub submits: u32,
    /// The longest submit in milliseconds, of those sized by measured times.
    pub longest_ms: Option<f64>,
}

impl Flow {
    pub fn new() -> Self {
        Self {
            open: Stretch::default(),
            flying: VecDeque::new(),
            answered: f64::NEG_INFINITY,
            window: Default::default(),
            submits: 0,
            longest_ms: None,
        }
    }

    /// A submit was made whose answer is awaited.
    pub fn asked(&mut self, now: f64) {
        self.flying.push_back((std::mem::take(&mut self.open), now));
    }
}

impl Pacer {
    pub fn new(cpu: bool, latency_ms: f64) -> Self {
        Self { rate: if cpu { FIRST_MS_CPU } else { FIRST_MS }, adapted: false, latency_ms }
    }

    fn cost(cost: &Cost, keys: u32) -> u64 {
        cost.at(keys) + DISPATCH_COST
    }

    /// Takes the dispatches of the next submit off `work`, at least one, where the last token sees `keys` keys.
    pub fn cut<'a>(&self, work: &mut VecDeque<Part<'a>>, keys: u32, flow: &mut Flow) -> Vec<Part<'a>> {
        let budget = (SUBMIT_MS / self.rate) as u64;
        let mut total = 0;
        let mut submit = Vec::new();
        while let Some(part) = work.front_mut() {
            let all = part.costs().len();
            let mut n = 0;
            for cost in part.costs() {
                let cost = Self::cost(cost, keys);
                if total > 0 && total + cost > budget {
                    break;
                }
                total += cost;
                n += 1;
            }
            submit.push(part.split_off(n));
            if n < all {
                break;
            }
            work.pop_front();
        }
        submit.retain(|part| !part.costs().is_empty());
        flow.submits += 1;
        flow.open.cost += total;
        flow.open.largest = flow.open.largest.max(total);
        flow.open.adapted = self.adapted;
        submit
    }

    /// Whether enough has been submitted that an answer to it tells something.
    pub fn worth_asking(&self, flow: &Flow) -> bool {
        flow.open.cost as f64 * self.rate >= (SUBMIT_MS / 2.0).max(self.latency_ms)
    }

    /// The oldest answer came at `now`.
    pub fn answered(&mut self, flow: &mut Flow, now: f64) {
        let Some((stretch, submitted)) = flow.flying.pop_front() else { return };
        let busy = (now - submitted.max(flow.answered)).max(0.0);
        flow.answered = now;
        let (ms, window) = &mut flow.window;
        *ms += busy;
        window.cost += stretch.cost;
        window.largest = window.largest.max(stretch.largest);
        window.adapted = stretch.adapted;
        // Idle time and the wait for the answer are in it, so this is an upper bound.
        let rate = *ms / window.cost.max(1) as f64;
        if *ms >= RESOLUTION * self.latency_ms {
            if window.adapted {
                flow.longest_ms = Some(flow.longest_ms.unwrap_or(0.0).max(rate * window.largest as f64));
            }
            let fallen = if self.adapted { (self.rate + rate) / 2.0 } else { rate };
            self.rate = if rate > self.rate { rate } else { fallen.max(self.rate / FALL) };
            self.adapted = true;
            flow.window = Default::default();
        } else {
            self.rate = self.rate.min(rate.max(self.rate / FALL));
        }
    }
}

/// The interval of groups that a stream still looks smooth at, and an abort need not wait for.
const GROUP_MS: f64 = 40.0;

/// Steps of a group at most; the state's output ring holds those of two.
pub(super) const GROUP_MAX: u32 = 16;

/// Groups under way at once: while one runs, the next one waits in the device's queue.
pub(super) const GROUPS: usize = 2;

/// How many decode steps go into a group: one at first, then as few as keep the device busy and the answers apart.
pub(super) struct GroupSize {
    target_ms: f64,
    steps: u32,
    /// When the last answers came and how many steps there had been by then, the oldest first.
    answers: VecDeque<(f64, u32)>,
}

impl GroupSize {
    /// `latency_ms`: how long a trivial readback takes.
    pub fn new(latency_ms: f64) -> Self {
        Self { target_ms: GROUP_MS.max(2.0 * latency_ms), steps: 1, answers: VecDeque::new() }
    }

    /// Steps of the next group.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// A step was taken out of turn: what was measured does not count.
    pub fn restart(&mut self) {
        self.steps = 1;
        self.answers.clear();
    }

    /// An answer came at `now`; there have been `taken` steps in all.
    pub fn answered(&mut self, now: f64, taken: u32) {
        self.answers.push_back((now, taken));
        // Where answers are polled for, those of all groups under way come at once: so the time of as many is looked at.
        if self.answers.len() > GROUPS + 1 {
            self.answers.pop_front();
        }
        let Some(&(then, before)) = self.answers.front() else { return };
        if taken > before {
            let step_ms = (now - then) / f64::from(taken - before);
            let wanted = (self.target_ms / step_ms).round().clamp(1.0, f64::from(GROUP_MAX)) as u32;
            self.steps = wanted.min(self.steps * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that takes `step_ms` a step and whose answers are seen at multiples of `poll_ms`; the size it ends with, and
    /// its share of busy time.
    fn simulate(step_ms: f64, poll_ms: f64, latency_ms: f64) -> (u32, f64) {
        let mut size = GroupSize::new(latency_ms);
        let (mut now, mut free_at, mut taken, mut busy) = (0.0f64, 0.0f64, 0, 0.0);
        let mut flying = VecDeque::new();
        while now < 20_000.0 {
            while flying.len() < GROUPS {
                let steps = size.steps();
                let ms = f64::from(steps) * step_ms;
                free_at = free_at.max(now) + ms;
                busy += ms;
                flying.push_back((steps, (free_at / poll_ms).ceil() * poll_ms));
            }
            let (steps, seen) = flying.pop_front().unwrap();
            now = f64::max(now, seen);
            taken += steps;
            size.answered(now, taken);
        }
        (size.steps(), busy / free_at)
    }

    #[test]
    fn groups_are_as_small_as_keeps_the_device_busy() {
        let (steps, busy) = simulate(300.0, 1.0, 1.5);
        assert!(steps == 1 && busy > 0.99, "SwiftShader: {steps} {busy}");
        let (steps, busy) = simulate(5.0, 1.0, 1.5);
        assert!((7..=9).contains(&steps) && busy > 0.99, "a GPU in Chromium: {steps} {busy}");
        let (steps, busy) = simulate(2.0, 100.0, 100.0);
        assert!(steps == 16 && busy > 0.6, "a fast GPU in Firefox: {steps} {busy}");
        let (steps, busy) = simulate(12.0, 100.0, 100.0);
        assert!(steps == 16 && busy > 0.95, "a slower one: {steps} {busy}");
        let (steps, busy) = simulate(60.0, 100.0, 100.0);
        assert!((3..=4).contains(&steps) && busy > 0.99, "lavapipe in Firefox: {steps} {busy}");
    }

    /// A device of `ms` per multiply-add whose answers are seen at multiples of `poll_ms` plays submits of any size.
    fn settle(ms: f64, poll_ms: f64) -> (f64, Option<f64>) {
        let mut pacer = Pacer::new(false, poll_ms);
        let mut flow = Flow::new();
        let (mut now, mut free_at) = (0.0f64, 0.0f64);
        let mut done = VecDeque::new();
        for _ in 0..400 {
            let cost = (SUBMIT_MS / pacer.rate) as u64;
            flow.open.cost += cost;
            flow.open.largest = flow.open.largest.max(cost);
            flow.open.adapted = pacer.adapted;
            free_at = free_at.max(now) + cost as f64 * ms;
            if pacer.worth_asking(&flow) {
                flow.asked(now);
                done.push_back((free_at / poll_ms).ceil() * poll_ms);
            }
            if flow.flying.len() == 2 {
                now = now.max(done.pop_front().unwrap());
                pacer.answered(&mut flow, now);
            }
        }
        (SUBMIT_MS / pacer.rate * ms, flow.longest_ms)
    }

    #[test]
    fn submits_grow_to_their_length_and_not_beyond() {
        for (ms, poll) in [(1e-9, 1.0), (1e-9, 100.0), (1e-7, 1.0), (1e-7, 100.0), (2e-6, 1.0)] {
            let (submit_ms, longest) = settle(ms, poll);
            assert!((20.0..=60.0).contains(&submit_ms), "{ms} {poll}: {submit_ms}");
            assert!(longest.unwrap() < 100.0, "{ms} {poll}: {longest:?}");
        }
    }
}
