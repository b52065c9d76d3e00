//! Sampling on the device: against its twins, and token by token against the CPU sampler.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // also outside of #[test]

use pollster::block_on;
use rivulet::error::Code;
use rivulet::gpu::{Buffers, Gpu, GpuOptions, Prepared};
use rivulet::kernels::state::{self, CpuStep, Done, Request};
use rivulet::kernels::{BufferId, BufferSpec, Recording};
use rivulet::reference::case::Noise;
use rivulet::reference::sample_draw::{Run, run};
use rivulet::reference::{self, Memory};
use rivulet::sample::{CpuSampler, Drawn, Mode, Plan, SamplingOptions};

/// The f32 error of a draw, stated: tokens may differ from the CPU's where its margin (see `Drawn`) is below this.
const BORDER: f64 = 1e-5;

/// The devices of this adapter's tiers that have variants of their own.
fn devices() -> Vec<(&'static str, Gpu)> {
    let open = |tier: &'static str| match block_on(Gpu::request(GpuOptions { tier: Some(tier.into()), ..Default::default() })) {
        Ok(gpu) => Some((tier, gpu)),
        Err(e) if e.code == Code::BadOption => None, // this adapter lacks the tier
        Err(e) => panic!("{e}"),
    };
    ["cpu+base", "gpu+base", "gpu+subgroup"].into_iter().filter_map(open).collect()
}

/// A run on the device.
struct Played<'a> {
    gpu: &'a Gpu,
    buffers: Buffers,
    prepared: Prepared,
}

impl<'a> Played<'a> {
    fn new(gpu: &'a Gpu, memory: &Memory, recording: &Recording) -> Self {
        let spec = |words: &Vec<u32>| BufferSpec { label: "sampling".into(), bytes: words.len() as u64 * 4 };
        let specs: Vec<BufferSpec> = memory.buffers().iter().map(spec).collect();
        let buffers = block_on(gpu.create_buffers(&specs)).unwrap();
        for (i, words) in memory.buffers().iter().enumerate() {
            gpu.write(&buffers, BufferId(i as u32), 0, bytemuck::cast_slice(words)).unwrap();
        }
        let prepared = block_on(gpu.prepare(recording, &buffers)).unwrap();
        Self { gpu, buffers, prepared }
    }

    fn write(&self, id: BufferId, word: usize, words: &[u32]) {
        self.gpu.write(&self.buffers, id, word as u64 * 4, bytemuck::cast_slice(words)).unwrap();
    }

    /// Plays the recording and reads the state back, as the engine does.
    fn play(&self, state: BufferId) -> Vec<u32> {
        let recordings = [&self.prepared];
        let read = self.gpu.submit_and_read(&recordings, &self.buffers, state, state::STATE_BYTES);
        bytemuck::pod_collect_to_vec(&block_on(read).unwrap())
    }

    fn read(&self, id: BufferId, words: usize) -> Vec<u32> {
        bytemuck::pod_collect_to_vec(&block_on(self.gpu.read(&self.buffers, id, 0, words as u64 * 4)).unwrap())
    }
}

/// Logits like a model's: bell-shaped, a few of them well ahead.
fn logits(n_vocab: usize) -> Vec<f32> {
    let mut noise = Noise(n_vocab as u64 + 5);
    (0..n_vocab).map(|_| (0..6).map(|_| noise.float()).sum::<f32>() * 3.0).collect()
}

fn options(text: &str) -> SamplingOptions {
    SamplingOptions::parse(serde_json::from_str::<serde_json::Value>(text).unwrap()).unwrap()
}

fn header(options: &SamplingOptions, n_vocab: usize, seed: u64, tokens: u32) -> Vec<u32> {
    let plan = Plan::new(options, n_vocab as u32);
    let request = Request { pos: 6, n_tokens: 1, step: 0, remaining: tokens, prompt_len: 7, options, plan, seed, end_ids: &[] };
    request.header().unwrap().to_vec()
}

#[test]
fn both_kernels_equal_their_twins() {
    for (tier, gpu) in devices() {
        println!("{tier} on {:?}", gpu.report());
        let mut worst = 0.0f32;
        for case in reference::sample_draw::cases(gpu.tier()).unwrap() {
            let played = Played::new(&gpu, &case.memory, &case.recording);
            gpu.submit(&[&played.prepared]);
            let mut expected = case.memory.clone();
            reference::play(&case.recording, &mut expected).unwrap();
            for (id, tolerance) in &case.outputs {
                let want = expected.words(*id);
                for (at, (got, want)) in played.read(*id, want.len()).iter().zip(want).enumerate() {
                    let error = (f32::from_bits(*got) - f32::from_bits(*want)).abs();
                    assert!(got == want || error <= *tolerance, "{tier}, {}: {got} for {want} at {at} of {id:?}", case.name);
                    worst = worst.max(error);
                }
            }
        }
        println!("{tier}: largest error of a logprob {worst:.1e}");
    }
}

/// The chains that the device does by itself, over sizes from one token to Gemma's vocabulary. 10,000 draws of two of them
/// where they are cheap; of every chain in every tier with RIVULET_THOROUGH set (a barrier costs a CPU adapter so much that
/// this takes minutes).
#[test]
fn the_device_draws_the_cpus_tokens() {
    let chains = [
        r#"{"temperature": 0}"#,
        r#"{"temperature": 0.8}"#,
        r#"{"temperature": 0.7, "topK": 40, "topP": 0.95, "minP": 0.05}"#,
        r#"{"temperature": 1.3, "topK": 20, "topP": 0.9, "order": ["temperature", "topK", "topP"]}"#,
        r#"{"temperature": 0.3, "topP": 0.8, "order": ["temperature", "topP"]}"#,
        r#"{"minP": 0.2, "logitBias": {"0": 3}}"#,
    ];
    for (tier, gpu) in devices() {
        let thorough = std::env::var_os("RIVULET_THOROUGH").is_some();
        let many = if gpu.tier().cpu || thorough { 10_016 } else { 32 };
        for (n_vocab, draws) in [(1usize, 32u32), (31, 32), (257, many), (1000, 32), (49_152, 8), (262_144, 8)] {
            let logits = logits(n_vocab);
            for (place, chain) in chains.into_iter().enumerate() {
                if !thorough && n_vocab > 1000 && place > 2 {
                    continue;
                }
                let draws = if thorough || (1..3).contains(&place) { draws } else { draws.min(32) };
                let options = options(chain);
                assert_ne!(Plan::new(&options, n_vocab as u32).mode, Mode::Cpu, "{chain}");
                let per_read = if n_vocab > 1000 { 8 } else { state::OUT_LEN as u32 };
                let Run { recording, memory, buffers } = run(gpu.tier(), &logits, &[0; 7], &options, 0, &[], per_read).unwrap();
                let played = Played::new(&gpu, &memory, &recording);
                let (mut near, mut left) = (0, 0);
                for seed in 0..u64::from(draws / per_read) {
                    played.write(buffers.state, 0, &header(&options, n_vocab, seed, per_read));
                    let state = played.play(buffers.state);
                    let sampler = CpuSampler::new(options.clone(), n_vocab, seed).unwrap();
                    if state[state::DONE] == Done::Cpu as u32 {
                        assert!(state[state::STEP] == 0 && chain.contains(r#"P""#) && !chain.contains("topK"), "{tier} {chain}");
                        left += 1;
                        continue;
                    }
                    assert_eq!(state[..5], [Done::Length as u32, 6 + per_read, 1, per_read, 0]);
                    for step in 0..per_read {
                        let Drawn { token, logprob, margin } = sampler.draw(&logits, &[], step).unwrap();
                        let [found, bits] = state[state::OUT + 2 * step as usize..][..2] else { panic!() };
                        let found_logprob = f32::from_bits(bits);
                        if found != token {
                            assert!(margin < BORDER, "{tier} {n_vocab} {chain} {seed}/{step}: {found} for {token}, {margin}");
                            near += 1;
                        } else {
                            assert!((found_logprob - logprob).abs() < 2e-5, "{tier} {n_vocab}: {found_logprob} for {logprob}");
                        }
                    }
                }
                println!("{tier} {n_vocab} {chain}: {near} of {draws} differ near a border, {left} requests left to the CPU");
                assert!(near <= 2 && left == 0 || n_vocab > 1000);
            }
        }
    }
}

/// Bias and penalties, over up to 384 tokens, with a window that reaches back into the prompt and with none.
#[test]
fn counts_and_ring_follow_the_history() {
    let (n_vocab, prompt, tokens) = (300usize, [5u32, 7, 7, 299, 0, 5, 7], 32u32);
    let logits: Vec<f32> = logits(n_vocab).iter().map(|logit| logit * 0.6).collect();
    for (tier, gpu) in devices() {
        for window in ["5", "100", "null"] {
            let text = format!(
                r#"{{"temperature": 0.9, "topK": 50, "repetitionPenalty": 1.2, "frequencyPenalty": 0.3, "presencePenalty": 0.1,
                "logitBias": [[3, 2.0], [4, -1.5]], "penaltyWindow": {window}}}"#
            );
            let mut options = options(&text);
            options.logit_bias.push((9, f32::NEG_INFINITY));
            let Run { recording, memory, buffers } = run(gpu.tier(), &logits, &prompt, &options, 77, &[], tokens).unwrap();
            let played = Played::new(&gpu, &memory, &recording);
            let sampler = CpuSampler::new(options.clone(), n_vocab, 77).unwrap();
            played.write(buffers.state, state::REMAINING, &[1000]);
            let mut history = prompt.to_vec();
            let reads = if gpu.tier().cpu { 12 } else { 4 };
            for _ in 0..reads {
                let state = played.play(buffers.state);
                assert_eq!(state[state::DONE], Done::Running as u32);
                for _ in 0..tokens {
                    let step = history.len() - prompt.len();
                    let drawn = sampler.draw(&logits, &history, step as u32).unwrap();
                    let found = state[state::OUT + 2 * (step % state::OUT_LEN)];
                    assert!(found == drawn.token || drawn.margin < BORDER, "{tier} {window} {step}");
                    history.push(found);
                }
                assert_eq!(played.read(buffers.counts, n_vocab), state::counts(&options, &history, n_vocab as u32), "{window}");
            }
            assert_eq!(played.read(buffers.ids, 1), history[history.len() - 1..]);
            assert!(!history.contains(&9), "a banned token");
        }
    }
}

/// Where 64 candidates hold less than top-p asks, the step is the CPU's: nothing has advanced, the logits are intact, and
/// after the CPU's patch the device goes on.
#[test]
fn a_step_that_needs_more_candidates_is_left_to_the_cpu_and_resumed() {
    let (n_vocab, prompt) = (1000usize, [1u32, 2, 3]);
    let flat: Vec<f32> = logits(n_vocab).iter().map(|logit| logit * 0.01).collect();
    let sharp = logits(n_vocab);
    let mut options = options(r#"{"topP": 0.9, "frequencyPenalty": 0.01, "penaltyWindow": 3}"#);
    options.temperature = 0.2;
    options.order = Some(vec![
        rivulet::sample::Processor::FrequencyPenalty,
        rivulet::sample::Processor::Temperature,
        rivulet::sample::Processor::TopP,
    ]);
    for (tier, gpu) in devices() {
        let Run { recording, memory, buffers } = run(gpu.tier(), &flat, &prompt, &options, 3, &[], 2).unwrap();
        let played = Played::new(&gpu, &memory, &recording);
        let before = memory.words(buffers.state).to_vec();
        let state = played.play(buffers.state);
        let mut expected = before.clone();
        expected[state::DONE] = Done::Cpu as u32;
        assert_eq!(state, expected, "{tier}");
        assert_eq!(played.read(buffers.logits, n_vocab), memory.words(buffers.logits));
        assert_eq!(played.read(buffers.counts, n_vocab), memory.words(buffers.counts));

        let sampler = CpuSampler::new(options.clone(), n_vocab, 3).unwrap();
        let drawn = sampler.draw(&flat, &prompt, 0).unwrap();
        let plan = Plan::new(&options, n_vocab as u32);
        let request =
            Request { pos: 2, n_tokens: 1, step: 0, remaining: 3, prompt_len: 3, options: &options, plan, seed: 3, end_ids: &[] };
        let patch = CpuStep::new(&state, drawn.token, drawn.logprob, &prompt, &request).unwrap();
        assert_eq!(patch.header, [0, 3, 1, 1, 2]);
        played.write(buffers.state, 0, &patch.header);
        played.write(buffers.state, patch.out.0, &patch.out.1);
        played.write(buffers.ring, patch.ring.0, &[patch.ring.1]);
        for (id, count) in &patch.counts {
            played.write(buffers.counts, *id as usize, &[*count]);
        }
        played.write(buffers.ids, 0, &[patch.token]);
        let mut history = [prompt.as_slice(), &[drawn.token]].concat();
        assert_eq!(played.read(buffers.counts, n_vocab), state::counts(&options, &history, n_vocab as u32));
        played.write(buffers.logits, 0, &sharp.iter().map(|logit| logit.to_bits()).collect::<Vec<_>>());
        let state = played.play(buffers.state);
        assert_eq!(state[..5], [Done::Length as u32, 5, 1, 3, 0], "{tier}");
        for step in 1..3 {
            let drawn = sampler.draw(&sharp, &history, step).unwrap();
            assert_eq!(state[state::OUT + 2 * step as usize], drawn.token, "{tier}");
            history.push(drawn.token);
        }
        assert_eq!(state[state::OUT], history[3], "the CPU's own token keeps its place");
    }
}

#[test]
fn the_end_the_length_and_broken_logits_stop_the_kernels() {
    for (tier, gpu) in devices() {
        let greedy = options(r#"{"temperature": 0}"#);
        let mut values = logits(2000);
        values[1234] = 50.0;
        values[77] = f32::NEG_INFINITY;
        let play = |values: &[f32], options: &SamplingOptions, end: &[u32]| {
            let Run { recording, memory, buffers } = run(gpu.tier(), values, &[1], options, 1, end, 4).unwrap();
            let played = Played::new(&gpu, &memory, &recording);
            (played.play(buffers.state), played.read(buffers.ids, 1)[0])
        };
        let (state, token) = play(&values, &greedy, &[5, 1234]);
        assert_eq!((&state[..5], token), ([Done::End as u32, 1, 1, 1, 4].as_slice(), 1234), "{tier}: stops at the first");
        let logprob = f32::from_bits(state[state::OUT + 1]);
        assert!(logprob <= 0.0 && logprob > -1e-5, "{tier}: {logprob}");
        let (state, _) = play(&values, &greedy, &[]);
        assert_eq!(state[..5], [Done::Running as u32, 4, 1, 4, 1], "{tier}");
        values[500] = 50.0; // a tie, in another block: the lowest id
        assert_eq!(play(&values, &greedy, &[]).1, 500, "{tier}");
        for chain in [r#"{"temperature": 0}"#, "{}", r#"{"topK": 3}"#] {
            for bad in [f32::NAN, f32::INFINITY] {
                let mut broken = values.clone();
                broken[1999] = bad;
                let (state, token) = play(&broken, &options(chain), &[]);
                assert_eq!((state[state::DONE], state[state::STEP], token), (Done::Cpu as u32, 0, u32::MAX), "{tier} {chain}");
            }
            let (state, _) = play(&[f32::NEG_INFINITY; 31], &options(chain), &[]);
            assert_eq!((state[state::DONE], state[state::STEP]), (Done::Cpu as u32, 0), "{tier} {chain}");
        }
        // Ties among more candidates than are kept: exactly the k lowest ids can be drawn.
        let flat = vec![1.0; 5000];
        for seed in 0..20 {
            let run = run(gpu.tier(), &flat, &[1], &options(r#"{"topK": 7}"#), seed, &[], 1).unwrap();
            let played = Played::new(&gpu, &run.memory, &run.recording);
            assert!(played.play(run.buffers.state)[state::OUT] < 7, "{tier}");
        }
    }
}
