//! The twin of `sample_draw` and `sample_draw_single`, and the cases of both halves of sampling.

use super::Memory;
use super::case::{Case, Noise};
use super::sample_candidates::score;
use crate::error::Result;
use crate::kernels::sample::{SampleBuffers, sample};
use crate::kernels::state::{self, Done, Request};
use crate::kernels::{Dispatch, Recording};
use crate::sample::{CpuSampler, GPU_CANDIDATES, Mode, Plan, RING_LEN, SamplingOptions, uniform};
use crate::tensor::Tier;

/// Draws a token from the blocks and advances the state; or leaves the step to the CPU.
pub fn sample_draw(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let header = m.binding(d, 1)?.to_vec();
    if header[state::DONE] != 0 {
        return Ok(());
    }
    let records = m.binding(d, 2)?.to_vec();
    let mode = header[state::MODE];
    let float = |word: u32| f64::from(f32::from_bits(word));
    let most = |at: usize| records.chunks(8).map(|record| float(record[at])).fold(-1e38, f64::max);
    let (raw_max, highest, best) = (most(0), most(2), most(4));
    let scale = float(header[state::SELECT_SCALE]);
    let raw_sum: f64 = records.chunks(8).map(|r| float(r[1]) * (float(r[0]) - raw_max).exp()).sum();
    let sum: f64 = records.chunks(8).map(|r| float(r[3]) * ((float(r[2]) - highest) * scale).exp()).sum();
    let n_all: u32 = records.chunks(8).map(|r| r[6]).sum();
    let bad: u32 = records.chunks(8).map(|r| r[7]).sum();
    let mut token = records.chunks(8).filter(|r| float(r[4]) == best).map(|r| r[5]).min();
    if mode == Mode::Restricted as u32 {
        let mut top: Vec<(u32, u32)> = m.binding(d, 3)?.chunks(2).map(|c| (c[0], c[1])).filter(|c| c.0 > 0).collect();
        top.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        top.truncate(GPU_CANDIDATES as usize);
        let distance: Vec<f64> = top.iter().map(|(key, _)| f64::from(score(*key)) - highest).collect();
        token = choose(&header, &distance, n_all, sum).map(|place| top[place].1);
    }
    let token = token.filter(|_| mode != Mode::Cpu as u32 && bad == 0 && n_all > 0);
    let Some(token) = token else {
        m.binding_mut(d, 1)?[state::DONE] = Done::Cpu as u32;
        return Ok(());
    };

    let step = header[state::STEP];
    if header[state::FLAGS] & state::FLAG_PENALTIES != 0 {
        let window = header[state::WINDOW];
        if window != u32::MAX && header[state::HISTORY] + step >= window {
            let old = m.binding(d, 7)?[(step.wrapping_sub(window) % RING_LEN) as usize];
            m.binding_mut(d, 6)?[old as usize] -= 1;
        }
        m.binding_mut(d, 6)?[token as usize] += 1;
    }
    m.binding_mut(d, 7)?[(step % RING_LEN) as usize] = token;
    m.binding_mut(d, 5)?[0] = token;
    let logprob = f64::from(m.floats(d, 4)?[token as usize]) - raw_max - raw_sum.ln();
    let words = m.binding_mut(d, 1)?;
    let slot = state::OUT + 2 * (step as usize % state::OUT_LEN);
    words[slot] = token;
    words[slot + 1] = (logprob as f32).to_bits();
    words[state::POS] += words[state::N_TOKENS];
    words[state::N_TOKENS] = 1;
    words[state::STEP] += 1;
    words[state::REMAINING] = words[state::REMAINING].saturating_sub(1);
    let ends = words[state::END..][..header[state::N_END] as usize].contains(&token);
    words[state::DONE] = match (ends, words[state::REMAINING]) {
        (true, _) => Done::End,
        (_, 0) => Done::Length,
        _ => Done::Running,
    } as u32;
    Ok(())
}

/// The place drawn among candidates whose scores lie `distance` (at most 0) from the highest; `None` where top-p or
/// min-p may keep more than the candidates.
fn choose(header: &[u32], distance: &[f64], n_all: u32, sum_all: f64) -> Option<usize> {
    let float = |at: usize| f64::from(f32::from_bits(header[at]));
    let top_k = header[state::TOP_K] as usize;
    let scale = float(state::SELECT_SCALE);
    let mut keep = if top_k == 0 { distance.len() } else { top_k.min(distance.len()) };
    let mut enough = top_k != 0 || distance.len() == n_all as usize;
    let share: Vec<f64> = distance.iter().map(|distance| (distance * scale).exp()).collect();
    if float(state::TOP_P) < 1.0 {
        let of_all = header[state::FLAGS] & state::FLAG_TOP_P_OF_ALL != 0;
        let wanted = float(state::TOP_P) * if of_all { sum_all } else { share[..keep].iter().sum() };
        let mut mass = 0.0;
        let reached = share[..keep].iter().position(|share| {
            mass += share;
            mass >= wanted
        });
        if let Some(last) = reached {
            (keep, enough) = (last + 1, true);
        }
    }
    if let Some(first) = distance[..keep].iter().position(|distance| distance * scale < float(state::LOG_MIN_P)) {
        (keep, enough) = (first, true);
    }
    if !enough {
        return None;
    }
    let weight: Vec<f64> = distance[..keep].iter().map(|d| (d * float(state::DRAW_SCALE)).exp()).collect();
    let seed = u64::from(header[state::SEED_HI]) << 32 | u64::from(header[state::SEED_LO]);
    let wanted = f64::from(uniform(seed, header[state::STEP])) * weight.iter().sum::<f64>();
    let mut mass = 0.0;
    let place = weight.iter().position(|weight| {
        mass += weight;
        wanted < mass
    });
    place.or(keep.checked_sub(1))
}

/// A request that samples: the buffers before its first token, and the recording of some tokens from the same logits.
pub struct Run {
    /// The two kernels, once for each token.
    pub recording: Recording,
    /// The buffers, written as a request's start writes them.
    pub memory: Memory,
    /// Which is which.
    pub buffers: SampleBuffers,
}

/// Some `tokens` of a request with these options over constant logits.
pub fn run(
    tier: Tier,
    logits: &[f32],
    prompt: &[u32],
    options: &SamplingOptions,
    seed: u64,
    end_ids: &[u32],
    tokens: u32,
) -> Result<Run> {
    let n_vocab = logits.len() as u32;
    let request = Request {
        pos: prompt.len() as u32 - 1,
        n_tokens: 1,
        step: 0,
        remaining: tokens + 1,
        prompt_len: prompt.len() as u32,
        options,
        plan: Plan::new(options, n_vocab),
        seed,
        end_ids,
    };
    let mut header = request.header()?.to_vec();
    header.resize(state::STATE_WORDS, 0);
    let [_, _, _, blocks, candidates] = SampleBuffers::specs(tier, n_vocab);
    let mut memory = Memory::default();
    let buffers = SampleBuffers {
        state: memory.push(header),
        logits: memory.push_f32(logits),
        ids: memory.push(vec![u32::MAX; 4]),
        bias: memory.push_f32(&state::dense_bias(options, n_vocab)),
        counts: memory.push(state::counts(options, prompt, n_vocab)),
        ring: memory.push(state::ring(prompt)),
        blocks: memory.push(vec![0; blocks.bytes as usize / 4]),
        candidates: memory.push(vec![0; candidates.bytes as usize / 4]),
    };
    let mut recording = Recording::default();
    for _ in 0..tokens {
        recording.dispatches.extend(sample(tier, n_vocab, &buffers)?);
    }
    Ok(Run { recording, memory, buffers })
}

/// Both halves over odd vocabularies in every mode. Tokens, counts and ring must be equal, so the seeds are chosen such
/// that no draw comes near a border; logprobs are good to 2e-5 of f32 arithmetic.
pub fn cases(tier: Tier) -> Result<Vec<Case>> {
    let base = SamplingOptions::default();
    let penalized = SamplingOptions {
        repetition_penalty: 1.3,
        frequency_penalty: 0.2,
        presence_penalty: 0.4,
        logit_bias: vec![(0, 2.5)],
        penalty_window: Some(4),
        ..base.clone()
    };
    let chains = [
        ("greedy", SamplingOptions { temperature: 0.0, ..penalized.clone() }),
        ("whole", SamplingOptions { temperature: 0.7, ..base.clone() }),
        ("penalized", SamplingOptions { temperature: 1.2, ..penalized.clone() }),
        ("top-k", SamplingOptions { top_k: 40, top_p: 0.9, min_p: 0.02, temperature: 0.8, ..penalized }),
        ("top-p", SamplingOptions { top_p: 0.5, temperature: 0.3, ..base.clone() }),
        ("left to the CPU", SamplingOptions { typical_p: 0.9, ..base }),
    ];
    let mut cases = Vec::new();
    for n_vocab in [1usize, 31, 257, 1000, 5003] {
        let mut noise = Noise(n_vocab as u64);
        let logits: Vec<f32> = (0..n_vocab).map(|_| (1..6).map(|_| noise.float()).sum::<f32>() * 4.0).collect();
        let prompt: Vec<u32> = (0..7).map(|_| (noise.bits() % n_vocab as u64) as u32).collect();
        for (name, options) in &chains {
            let seed = clear_seed(&logits, &prompt, options)?;
            let Run { recording, memory, buffers } = run(tier, &logits, &prompt, options, seed, &[], 3)?;
            let outputs = vec![(buffers.ids, 0.0), (buffers.counts, 0.0), (buffers.ring, 0.0), (buffers.state, 2e-5)];
            cases.push(Case { name: format!("sample {n_vocab} {name}"), recording, memory, outputs });
        }
    }
    Ok(cases)
}

/// A seed whose first three draws all keep clear of borders.
fn clear_seed(logits: &[f32], prompt: &[u32], options: &SamplingOptions) -> Result<u64> {
    for seed in 0..1000 {
        let sampler = CpuSampler::new(options.clone(), logits.len(), seed)?;
        let mut history = prompt.to_vec();
        let mut clear = true;
        for step in 0..3 {
            let drawn = sampler.draw(logits, &history, step)?;
            clear &= drawn.margin > 1e-4;
            history.push(drawn.token);
        }
        if clear {
            return Ok(seed);
        }
    }
    Err(crate::err!(Internal, "sampling: expected a seed with clear draws among 1000"))
}
