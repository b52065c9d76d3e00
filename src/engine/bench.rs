//! Measuring: rates of prefill and decode over context lengths, what a token costs in dispatches and bytes, and how near
//! that is to what the device's memory gives. The command line and the page share it.
//!
//! A context of c tokens costs no prefill: the cache counts as holding c tokens and is left as it is, so attention reads
//! as much as it would, of whatever lies there. Rates are those of [`Engine::generate`] itself, medians over runs.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::bandwidth::bandwidth;
use super::cancel::{Cancel, check_cancel};
use super::generate::Generated;
use super::load::{Engine, LoadOptions, LoadPhases, Progress};
use super::options::{GenerateOptions, Prompt};
use super::source::{ByteSource, Host};
use super::tune::TuningReport;
use crate::err;
use crate::error::Result;
use crate::gguf::Header;
use crate::gpu::{AdapterReport, Counters, Gpu};
use crate::kernels::attention::KvType;
use crate::model;
use crate::sample::SamplingOptions;

/// Context lengths that are measured where none are named.
const CONTEXTS: [u32; 4] = [0, 512, 2048, 8192];

/// Tokens of a prompt, and tokens decoded after each context, on a GPU and on a CPU adapter.
const PROMPT: (u32, u32) = (512, 128);
const DECODED: (u32, u32) = (128, 32);

/// Options of a measurement, named as in JavaScript.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BenchOptions {
    /// Tokens before the prompt, one measurement each. `None`: 0, 512, 2048 and 8192. Those beyond the context are left out.
    pub contexts: Option<Vec<u32>>,
    /// Tokens of a prompt. `None`: 512, on a CPU adapter 128.
    pub prompt_tokens: Option<u32>,
    /// Tokens to decode. `None`: 128, on a CPU adapter 32.
    pub max_tokens: Option<u32>,
    /// Runs, of which medians are reported. `None`: 3.
    pub runs: Option<u32>,
}

/// The options, decided.
struct Decided {
    contexts: Vec<u32>,
    prompt: u32,
    decoded: u32,
    runs: u32,
}

impl BenchOptions {
    /// Errors: `bad-option` for numbers that nothing can be measured with.
    fn decide(&self, cpu: bool) -> Result<Decided> {
        let pick = |pair: (u32, u32)| if cpu { pair.1 } else { pair.0 };
        let decided = Decided {
            contexts: self.contexts.clone().unwrap_or(CONTEXTS.to_vec()),
            prompt: self.prompt_tokens.unwrap_or(pick(PROMPT)),
            decoded: self.max_tokens.unwrap_or(pick(DECODED)),
            runs: self.runs.unwrap_or(3),
        };
        let Decided { contexts, prompt, decoded, runs } = &decided;
        if contexts.is_empty() || *prompt == 0 || *decoded < 2 || *runs == 0 {
            return Err(err!(
                BadOption,
                "bench: expected at least one of contexts, 1 of promptTokens, 2 of maxTokens and 1 of runs; found {}, {prompt}, \
                 {decoded} and {runs}",
                contexts.len()
            ));
        }
        Ok(decided)
    }
}

impl Decided {
    /// Positions that a measurement after `context` tokens takes.
    fn positions(&self, context: u32) -> u32 {
        context.saturating_add(self.prompt.max(self.decoded)).saturating_add(2)
    }
}

/// Rates, and what a token costs.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// Tokens of a prompt a second.
    pub prefill_tps: f64,
    /// From the call to the first token of a prompt's answer.
    pub ttft_ms: f64,
    /// Milliseconds of the longest submit of a prompt, among those whose size measured times chose. `None` where none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_submit_ms: Option<f64>,
    /// Tokens decoded a second.
    pub decode_tps: f64,
    /// Bytes that a decoded token reads: every weight once, and the keys and values before it, halfway through the run.
    pub bytes_per_token: u64,
    /// What decoding reads in a second, in 10⁹ bytes.
    pub bandwidth_g_bps: f64,
    /// That as a share of what the streaming kernel reads; 0 where that could not be measured.
    pub share: f64,
    /// Kernel runs for a decoded token, and so are the next.
    pub dispatches_per_token: f64,
    /// Queue submits.
    pub submits_per_token: f64,
    /// Buffers mapped and read back.
    pub readbacks_per_token: f64,
    /// Writes from the CPU into a buffer.
    pub writes_per_token: f64,
    /// Buffers, bind groups, layouts, pipelines created.
    pub objects_created_per_token: f64,
}

/// One context length.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AtContext {
    /// Tokens before the prompt, and before the first token that is decoded.
    pub context: u32,
    /// Medians over the runs.
    #[serde(flatten)]
    pub measured: Measured,
    /// Tokens decoded a second in each run.
    pub decode_tps_runs: Vec<f64>,
}

/// What was measured: one JSON object, which the page can draw. The numbers beside `contexts` are those of its first entry.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BenchReport {
    /// Always `rivulet-bench`, so that a file can be told from others.
    pub kind: &'static str,
    /// Rivulet's version.
    pub version: &'static str,
    /// The device.
    #[serde(flatten)]
    pub device: Device,
    /// The model's name; synthetic ones say so in it.
    pub model: String,
    /// Its tensor formats.
    pub quantization: String,
    /// `general.architecture`
    pub architecture: String,
    /// Blocks.
    pub layers: u32,
    /// Weights.
    pub parameters: u64,
    /// Type of the KV cache.
    pub kv_type: KvType,
    /// Positions of the KV cache.
    pub context_length: u32,
    /// Tokens of a prompt.
    pub prompt_tokens: u32,
    /// Tokens decoded in a run.
    pub max_tokens: u32,
    /// Runs of each measurement.
    pub runs: u32,
    /// Milliseconds that loading took.
    pub load_ms: f64,
    /// What it took them for.
    pub load_phases: Option<LoadPhases>,
    /// How the kernels are tuned.
    pub tuning: Option<TuningReport>,
    /// Bytes of weights that a token reads.
    pub weight_bytes_per_token: u64,
    /// What the streaming kernel reads in a second, in 10⁹ bytes.
    pub measured_bandwidth_g_bps: f64,
    /// Those of the first entry of `contexts`.
    #[serde(flatten)]
    pub first: Measured,
    /// Every context length that fitted.
    pub contexts: Vec<AtContext>,
    /// Those that were asked for and did not fit.
    pub skipped_contexts: Vec<u32>,
    /// Pipelines compiled for the model.
    pub pipelines: u64,
    /// Bytes of all buffers made for the model.
    pub peak_gpu_bytes: u64,
}

/// The device of a report.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// The adapter's name.
    pub adapter: String,
    /// The back end.
    pub backend: String,
    /// The tier.
    pub tier: String,
}

impl From<&AdapterReport> for Device {
    fn from(report: &AdapterReport) -> Self {
        Self { adapter: report.name.clone(), backend: report.backend.clone(), tier: report.tier.clone() }
    }
}

impl Engine {
    /// Loads a model, whose header has been read from `source`, and measures it. Progress goes through the phases
    /// `bandwidth`, those of a load, and `measure`, which counts runs. A `contextLength` that is not given is as long as the contexts ask for, within
    /// the model's own.
    ///
    /// # Errors
    /// As [`Engine::load`]; `bad-option` for options that nothing can be measured with, `context-overflow` where not one
    /// context fits.
    #[allow(clippy::too_many_arguments)] // as load_header, and what to measure
    pub async fn bench(
        header: Header,
        source: &impl ByteSource,
        gpu: Rc<Gpu>,
        load: &LoadOptions,
        options: &BenchOptions,
        host: Box<dyn Host>,
        progress: &mut dyn FnMut(Progress),
        cancel: &dyn Cancel,
    ) -> Result<(Self, BenchReport)> {
        let decided = options.decide(gpu.tier().cpu)?;
        progress(Progress { phase: "bandwidth", loaded: 0, total: 1 });
        let bandwidth = bandwidth(&gpu, &*host, cancel).await?;
        let mut load = load.clone();
        if load.context_length.is_none() {
            let wanted = decided.contexts.iter().map(|c| decided.positions(*c)).max().unwrap_or(1);
            load.context_length = Some(wanted.min(model::read(&header)?.context_length));
        }
        let before = gpu.counters();
        let mut engine = Self::load_header(header, source, gpu, &load, host, progress, cancel).await?;
        engine.must_generate()?;
        let report = engine.measure(&decided, bandwidth, before, progress, cancel).await?;
        Ok((engine, report))
    }

    async fn measure(
        &mut self,
        decided: &Decided,
        bandwidth: f64,
        before: Counters,
        progress: &mut dyn FnMut(Progress),
        cancel: &dyn Cancel,
    ) -> Result<BenchReport> {
        let room = self.kv.context_length();
        let (fits, skipped): (Vec<u32>, Vec<u32>) = decided.contexts.iter().partition(|c| decided.positions(**c) <= room);
        let total = fits.len() as u64 * u64::from(decided.runs);
        let mut contexts = Vec::new();
        // What happens once only (drivers compile late, groups grow) is not measured.
        self.play_run(0, decided.prompt.min(self.plan.options.max_prefill), decided.decoded.min(4), 0, cancel).await?;
        for &context in &fits {
            let (mut prefills, mut decodes) = (Vec::new(), Vec::new());
            for run in 0..decided.runs {
                let loaded = contexts.len() as u64 * u64::from(decided.runs) + u64::from(run);
                progress(Progress { phase: "measure", loaded, total });
                prefills.push(self.play_run(context, decided.prompt, 1, run, cancel).await?);
                decodes.push(self.play_run(context, 1, decided.decoded, run, cancel).await?);
            }
            contexts.push(self.at_context(context, decided, bandwidth, &prefills, &decodes)?);
        }
        progress(Progress { phase: "measure", loaded: total, total });
        let first = contexts.first().ok_or_else(|| {
            let shortest = decided.contexts.iter().min().copied().unwrap_or(0);
            let needed = decided.positions(shortest);
            err!(
                ContextOverflow,
                "bench: the shortest context, {shortest}, takes {needed} positions; the model is loaded with {room}"
            )
        })?;
        let made = self.gpu.counters().since(before);
        let (info, architecture) = (self.info(), self.architecture());
        Ok(BenchReport {
            kind: "rivulet-bench",
            version: env!("CARGO_PKG_VERSION"),
            device: self.report().into(),
            model: info.name.clone(),
            quantization: info.quantization.clone(),
            architecture: architecture.name.clone(),
            layers: architecture.n_layers,
            parameters: info.parameters,
            kv_type: info.kv_type,
            context_length: room,
            prompt_tokens: decided.prompt,
            max_tokens: decided.decoded,
            runs: decided.runs,
            load_ms: self.load_ms,
            load_phases: info.load_phases,
            tuning: info.tuning.clone(),
            weight_bytes_per_token: info.weight_bytes_per_token,
            measured_bandwidth_g_bps: bandwidth / 1e9,
            first: first.measured,
            contexts,
            skipped_contexts: skipped,
            pipelines: made.pipelines,
            peak_gpu_bytes: made.buffer_bytes,
        })
    }

    fn at_context(
        &self,
        context: u32,
        decided: &Decided,
        bandwidth: f64,
        prefills: &[Generated],
        decodes: &[Generated],
    ) -> Result<AtContext> {
        let last = decodes.last().ok_or_else(|| err!(Internal, "bench: no run"))?;
        let per_token = |count: u64| count as f64 / f64::from(decided.decoded - 1);
        let cost = last.decode_cost;
        let decode_tps_runs: Vec<f64> = decodes.iter().map(|d| d.timings.decode_tps).collect();
        let decode_tps = median(decode_tps_runs.clone());
        let bytes = self.info().weight_bytes_per_token + self.plan.kv_bytes_per_token(context + 1 + decided.decoded / 2);
        let reads = bytes as f64 * decode_tps;
        let measured = Measured {
            prefill_tps: median(prefills.iter().map(|p| p.timings.prefill_tps).collect()),
            ttft_ms: median(prefills.iter().map(|p| p.timings.ttft_ms).collect()),
            longest_submit_ms: prefills.iter().filter_map(|p| p.timings.longest_submit_ms).max_by(f64::total_cmp),
            decode_tps,
            bytes_per_token: bytes,
            bandwidth_g_bps: reads / 1e9,
            share: if bandwidth > 0.0 { reads / bandwidth } else { 0.0 },
            dispatches_per_token: per_token(cost.dispatches),
            submits_per_token: per_token(cost.submits),
            readbacks_per_token: per_token(cost.readbacks),
            writes_per_token: per_token(cost.writes),
            objects_created_per_token: per_token(cost.objects),
        };
        Ok(AtContext { context, measured, decode_tps_runs })
    }

    /// Generates `decoded` tokens after a prompt of `prompt` tokens that follows `context` tokens which count as computed.
    async fn play_run(&mut self, context: u32, prompt: u32, decoded: u32, run: u32, cancel: &dyn Cancel) -> Result<Generated> {
        // Any ids will do; others in each run, so that none of the prompt is in the cache.
        let id = |at: u32| at.wrapping_mul(2_654_435_761).wrapping_add(run) % self.architecture().n_vocab;
        let ids: Vec<u32> = (0..context + prompt).map(id).collect();
        self.pretend(&ids[..context as usize])?;
        let options = GenerateOptions {
            max_tokens: Some(decoded),
            ignore_eos: true,
            sampling: SamplingOptions { temperature: 0.0, ..Default::default() },
            ..Default::default()
        };
        let generated = self.generate(&Prompt::Ids(ids), &options, &mut |_| {}, cancel).await?;
        check_cancel(cancel)?;
        Ok(generated)
    }

    /// Lets the cache count as holding these tokens, and nothing else, without computing them.
    pub(super) fn pretend(&mut self, ids: &[u32]) -> Result<()> {
        self.forget();
        let end = ids.len() as u32;
        for start in (0..end).step_by(self.plan.options.max_prefill as usize) {
            self.reserve(start, end.min(start + self.plan.options.max_prefill))?;
        }
        self.cached = ids.to_vec();
        Ok(())
    }
}

/// The middle one; 0 of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = |at: usize| values.get(at).copied().unwrap_or(0.0);
    (middle(values.len().saturating_sub(1) / 2) + middle(values.len() / 2)) / 2.0
}
