//! The state buffer's layout (`shaders/parts/state.wgsl`), and what the CPU writes into it: the header when a request
//! starts, and a patch where the sampler left one step to the CPU.

use super::Source;
use crate::error::Result;
use crate::sample::{Plan, RING_LEN, SamplingOptions};
use crate::source;

/// The constants of the layout, for kernels that read the state.
pub const STATE: Source = source!("parts/state");

/// Non-zero: kernels return early. See [`Done`].
pub const DONE: usize = 0;
/// Position of the first token of this pass: the tokens in the KV cache before it.
pub const POS: usize = 1;
/// Tokens of this pass, in `ids`.
pub const N_TOKENS: usize = 2;
/// Tokens sampled so far in this request.
pub const STEP: usize = 3;
/// Tokens that may still be sampled.
pub const REMAINING: usize = 4;
pub(crate) const SEED_LO: usize = 5;
pub(crate) const SEED_HI: usize = 6;
pub(crate) const MODE: usize = 7;
pub(crate) const FLAGS: usize = 8;
pub(crate) const TOP_K: usize = 9;
pub(crate) const TOP_P: usize = 10;
pub(crate) const LOG_MIN_P: usize = 11;
pub(crate) const SELECT_SCALE: usize = 12;
pub(crate) const DRAW_SCALE: usize = 13;
pub(crate) const REPETITION: usize = 14;
pub(crate) const FREQUENCY: usize = 15;
pub(crate) const PRESENCE: usize = 16;
pub(crate) const WINDOW: usize = 17;
pub(crate) const HISTORY: usize = 18;
pub(crate) const N_END: usize = 19;
pub(crate) const END: usize = 32;
/// Where the sampled tokens lie: [`OUT_LEN`] pairs (token, f32 bits of its logprob), step s at pair s % [`OUT_LEN`].
pub const OUT: usize = 64;
/// The most steps between two readbacks.
pub const OUT_LEN: usize = 32;
/// Words of the header, which the CPU writes at request start.
pub const HEADER_WORDS: usize = OUT;
/// Words of the whole buffer.
pub const STATE_WORDS: usize = OUT + 2 * OUT_LEN;
/// Bytes of the whole buffer.
pub const STATE_BYTES: u64 = STATE_WORDS as u64 * 4;
/// The most end-of-generation ids; models have one to ten.
pub const MAX_END_IDS: usize = OUT - END;

// The bits of the word at FLAGS.
pub(crate) const FLAG_BIAS: u32 = 1;
pub(crate) const FLAG_PENALTIES: u32 = 2;
pub(crate) const FLAG_TOP_P_OF_ALL: u32 = 4;

/// What a bias of minus infinity is on the GPU, where shaders may assume that there are no infinities. Scores at or
/// below a tenth of it count as banned.
pub const BANNED: f32 = -1e38;

/// Why the kernels stopped: the word at [`DONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Done {
    /// Not stopped.
    Running = 0,
    /// The last token is an end-of-generation token.
    End = 1,
    /// The CPU must sample this step; nothing has advanced and the logits are intact.
    Cpu = 2,
    /// Nothing remains to be sampled.
    Length = 3,
}

impl Done {
    /// The meaning of the word at [`DONE`]; unknown words mean a defect and count as stopped.
    pub fn from_word(word: u32) -> Self {
        match word {
            0 => Done::Running,
            1 => Done::End,
            2 => Done::Cpu,
            _ => Done::Length,
        }
    }
}

/// A request's header.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Position of the first token of the next pass.
    pub pos: u32,
    /// Tokens of the next pass.
    pub n_tokens: u32,
    /// Tokens sampled so far; 0 at the start of a request.
    pub step: u32,
    /// Tokens that may still be sampled; at least 1.
    pub remaining: u32,
    /// Tokens before step 0, in number: the prompt's, as the penalties see it.
    pub prompt_len: u32,
    /// Checked options.
    pub options: &'a SamplingOptions,
    /// The plan made of them.
    pub plan: Plan,
    /// The seed ([`crate::sample::CpuSampler::seed`]).
    pub seed: u64,
    /// Tokens after which generation ends; at most [`MAX_END_IDS`]. Empty with `ignoreEos`.
    pub end_ids: &'a [u32],
}

impl Request<'_> {
    /// The header's words: one write at offset 0 of the state buffer.
    pub fn header(&self) -> Result<[u32; HEADER_WORDS]> {
        if self.end_ids.len() > MAX_END_IDS {
            let found = self.end_ids.len();
            return Err(crate::err!(Internal, "sampling: expected at most {MAX_END_IDS} end-of-generation ids, found {found}"));
        }
        let (plan, options) = (&self.plan, self.options);
        let scale = |temperature: f32| (1.0 / f64::from(temperature.max(SamplingOptions::MIN_TEMPERATURE))) as f32;
        let log_min_p = if plan.min_p > 0.0 { f64::from(plan.min_p).ln() as f32 } else { -1e30 };
        let flags = [
            (!options.logit_bias.is_empty(), FLAG_BIAS),
            (plan.penalties, FLAG_PENALTIES),
            (plan.top_p_of_all, FLAG_TOP_P_OF_ALL),
        ];
        let mut words = [0; HEADER_WORDS];
        words[DONE] = if self.remaining == 0 { Done::Length } else { Done::Running } as u32;
        words[POS] = self.pos;
        words[N_TOKENS] = self.n_tokens;
        words[STEP] = self.step;
        words[REMAINING] = self.remaining;
        words[SEED_LO] = self.seed as u32;
        words[SEED_HI] = (self.seed >> 32) as u32;
        words[MODE] = plan.mode as u32;
        words[FLAGS] = flags.into_iter().filter(|flag| flag.0).map(|flag| flag.1).sum();
        words[TOP_K] = plan.top_k;
        words[TOP_P] = plan.top_p.to_bits();
        words[LOG_MIN_P] = log_min_p.to_bits();
        words[SELECT_SCALE] = scale(plan.select_temperature).to_bits();
        words[DRAW_SCALE] = scale(plan.draw_temperature).to_bits();
        words[REPETITION] = options.repetition_penalty.to_bits();
        words[FREQUENCY] = options.frequency_penalty.to_bits();
        words[PRESENCE] = options.presence_penalty.to_bits();
        words[WINDOW] = options.penalty_window.unwrap_or(u32::MAX);
        words[HISTORY] = self.prompt_len;
        words[N_END] = self.end_ids.len() as u32;
        words[END..END + self.end_ids.len()].copy_from_slice(self.end_ids);
        Ok(words)
    }
}

/// The dense `bias` buffer for a request: one f32 for each of `n_vocab` tokens. Written only where there is a bias.
pub fn dense_bias(options: &SamplingOptions, n_vocab: u32) -> Vec<f32> {
    let mut dense = vec![0.0; n_vocab as usize];
    for (id, bias) in &options.logit_bias {
        if let Some(slot) = dense.get_mut(*id as usize) {
            *slot = bias.max(BANNED);
        }
    }
    dense
}

/// The `counts` buffer for a request whose history is `history`: how often each token occurs in the penalties' window.
/// Written only where there are penalties.
pub fn counts(options: &SamplingOptions, history: &[u32], n_vocab: u32) -> Vec<u32> {
    let mut counts = vec![0; n_vocab as usize];
    for id in options.window(history) {
        if let Some(count) = counts.get_mut(*id as usize) {
            *count += 1;
        }
    }
    counts
}

/// The `ring` buffer ([`RING_LEN`] words) for a request whose prompt is `prompt` at step 0: the token of step s lies at
/// s % RING_LEN, the prompt's last at -1, and so on down. Only penalties with a window read it.
pub fn ring(prompt: &[u32]) -> Vec<u32> {
    let mut ring = vec![0; RING_LEN as usize];
    for (back, id) in prompt.iter().rev().take(RING_LEN as usize).enumerate() {
        ring[RING_LEN as usize - 1 - back] = *id;
    }
    ring
}

/// What to write after the CPU sampled the step at which the kernels stopped with [`Done::Cpu`]: what the second kernel
/// would have written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuStep {
    /// The words from [`DONE`] to [`REMAINING`], at offset 0 of the state buffer.
    pub header: [u32; 5],
    /// At word `OUT + 2 * (step % OUT_LEN)` of the state buffer (token, logprob bits).
    pub out: (usize, [u32; 2]),
    /// The word of `ring` to write: (index, token). Needed only with penalties that have a window.
    pub ring: (usize, u32),
    /// The words of `counts` to write: (token, count). Empty without penalties.
    pub counts: Vec<(u32, u32)>,
    /// `ids[0]`.
    pub token: u32,
}

impl CpuStep {
    /// The step for `token`, drawn by the CPU after `history` (prompt and answer, without `token`). `header` is the state
    /// as it was read back, at least its first five words.
    pub fn new(header: &[u32], token: u32, logprob: f32, history: &[u32], request: &Request<'_>) -> Result<Self> {
        let [_, pos, n_tokens, step, remaining] = header else {
            return match header.first_chunk::<5>() {
                Some(first) => Self::new(first, token, logprob, history, request),
                None => Err(crate::err!(Internal, "sampling: expected 5 words of state, found {}", header.len())),
            };
        };
        let left = remaining.saturating_sub(1);
        let done = match (request.end_ids.contains(&token), left) {
            (true, _) => Done::End,
            (_, 0) => Done::Length,
            _ => Done::Running,
        };
        let mut counts = Vec::new();
        if request.plan.penalties {
            let mut after = history.to_vec();
            after.push(token);
            let seen = request.options.window(&after);
            let count = |id: u32| (id, seen.iter().filter(|each| **each == id).count() as u32);
            counts.push(count(token));
            let left_window = after.len() - seen.len();
            if let Some(old) = left_window.checked_sub(1).and_then(|at| after.get(at)).filter(|old| **old != token) {
                counts.push(count(*old));
            }
        }
        Ok(Self {
            header: [done as u32, pos.wrapping_add(*n_tokens), 1, step.wrapping_add(1), left],
            out: (OUT + 2 * (*step as usize % OUT_LEN), [token, logprob.to_bits()]),
            ring: ((step % RING_LEN) as usize, token),
            counts,
            token,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Mode;

    #[test]
    fn the_shader_has_the_same_numbers() {
        let value = |name: &str| {
            let line = STATE.text.lines().find(|line| line.starts_with(&format!("const {name}:"))).expect(name);
            let number = line.split("= ").nth(1).expect("a value").split('u').next().expect("a number");
            number.parse::<usize>().expect("a number")
        };
        let rows = [
            ("STATE_DONE", DONE),
            ("STATE_POS", POS),
            ("STATE_N_TOKENS", N_TOKENS),
            ("STATE_STEP", STEP),
            ("STATE_REMAINING", REMAINING),
            ("STATE_SEED_LO", SEED_LO),
            ("STATE_SEED_HI", SEED_HI),
            ("STATE_MODE", MODE),
            ("STATE_FLAGS", FLAGS),
            ("STATE_TOP_K", TOP_K),
            ("STATE_TOP_P", TOP_P),
            ("STATE_LOG_MIN_P", LOG_MIN_P),
            ("STATE_SELECT_SCALE", SELECT_SCALE),
            ("STATE_DRAW_SCALE", DRAW_SCALE),
            ("STATE_REPETITION", REPETITION),
            ("STATE_FREQUENCY", FREQUENCY),
            ("STATE_PRESENCE", PRESENCE),
            ("STATE_WINDOW", WINDOW),
            ("STATE_HISTORY", HISTORY),
            ("STATE_N_END", N_END),
            ("STATE_END", END),
            ("STATE_OUT", OUT),
            ("STATE_OUT_LEN", OUT_LEN),
            ("DONE_END", Done::End as usize),
            ("DONE_CPU", Done::Cpu as usize),
            ("DONE_LENGTH", Done::Length as usize),
            ("MODE_GREEDY", Mode::Greedy as usize),
            ("MODE_GUMBEL", Mode::Gumbel as usize),
            ("MODE_RESTRICTED", Mode::Restricted as usize),
            ("MODE_CPU", Mode::Cpu as usize),
            ("FLAG_BIAS", FLAG_BIAS as usize),
            ("FLAG_PENALTIES", FLAG_PENALTIES as usize),
            ("FLAG_TOP_P_OF_ALL", FLAG_TOP_P_OF_ALL as usize),
        ];
        for (name, expected) in rows {
            assert_eq!(value(name), expected, "{name}");
        }
        assert_eq!(STATE.text.lines().filter(|line| line.starts_with("const ")).count(), rows.len());
    }
}
