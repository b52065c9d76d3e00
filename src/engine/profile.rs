//! Profiling: which kernel takes how much of a pass. For the companion only.

use serde::Serialize;

use super::bench::Device;
use super::load::Engine;
use crate::err;
use crate::error::Result;
use crate::kernels::state::Request;
use crate::kernels::{Access, Dispatch, Recording};
use crate::sample::{Plan as SamplingPlan, SamplingOptions};

/// One kernel variant within a pass.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KernelTime {
    /// The variant's label.
    pub kernel: String,
    /// Dispatches of it in the pass.
    pub calls: u32,
    /// All of them together.
    pub ms: f64,
    /// Of the pass.
    pub share: f64,
    /// 10⁹ bytes of weights read a second, for kernels that read their weights once.
    #[serde(rename = "GBps", skip_serializing_if = "Option::is_none")]
    pub gbps: Option<f64>,
    #[serde(skip)]
    bytes: u64,
}

/// One pass.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PassProfile {
    /// `prefill`, `decode`, `head` or `sample`.
    pub pass: &'static str,
    /// Tokens of the pass.
    pub tokens: u32,
    /// Tokens before it.
    pub context: u32,
    /// All kernels together.
    pub ms: f64,
    /// The longest first.
    pub kernels: Vec<KernelTime>,
}

/// What was profiled. It holds no rate: passes of one dispatch each are not how tokens are made.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// Always `rivulet-profile`.
    pub kind: &'static str,
    /// The device.
    #[serde(flatten)]
    pub device: Device,
    /// The model's name.
    pub model: String,
    /// Repetitions, of which medians are taken.
    pub repeats: u32,
    /// Every pass at every context.
    pub passes: Vec<PassProfile>,
}

/// More runs tell nothing more.
const MOST_REPEATS: u32 = 10_000;

impl Engine {
    /// Times every kernel of a prefill pass and of a token, after each of `contexts` tokens, which count as computed. The
    /// device must have been requested with timestamps.
    ///
    /// # Errors
    /// `unsupported-architecture` for a model that does not generate, `bad-option` without timestamps or for nothing to measure, `context-overflow` for a context that does not fit, and what the device fails with.
    pub async fn profile(&mut self, contexts: &[u32], repeats: u32) -> Result<Profile> {
        self.must_generate()?;
        let room = self.kv.context_length();
        if contexts.is_empty() || !(1..=MOST_REPEATS).contains(&repeats) {
            let found = contexts.len();
            return Err(err!(BadOption, "profile: expected a context and 1 to {MOST_REPEATS} runs, found {found} and {repeats}"));
        }
        if let Some(context) = contexts.iter().find(|context| **context >= room) {
            return Err(err!(
                ContextOverflow,
                "profile: a token after {context} others does not fit; the model is loaded with {room}"
            ));
        }
        let mut passes = Vec::new();
        for &context in contexts {
            let tokens = self.plan.options.max_prefill.min(self.kv.context_length().saturating_sub(context)).max(1);
            let end = context.saturating_add(tokens);
            let ids: Vec<u32> = (0..end).map(|id| id % self.architecture().n_vocab).collect();
            self.pretend(&ids[..context as usize])?;
            self.begin_pass(&ids[context as usize..], context)?;
            let bucket = self.plan.decode_buckets().into_iter().find(|most| context < *most).unwrap_or(end);
            let recordings = [
                ("prefill", tokens, self.plan.prefill(tokens)?),
                ("decode", 1, self.plan.decode(bucket)?),
                ("head", 1, self.plan.head()?),
                ("sample", 1, self.plan.sample()?),
            ];
            for (pass, tokens, recording) in recordings {
                passes.push(self.profile_pass(pass, tokens, context, &recording, repeats).await?);
            }
        }
        self.forget();
        let model = self.info().name.clone();
        Ok(Profile { kind: "rivulet-profile", device: self.report().into(), model, repeats, passes })
    }

    async fn profile_pass(
        &self,
        pass: &'static str,
        tokens: u32,
        context: u32,
        recording: &Recording,
        repeats: u32,
    ) -> Result<PassProfile> {
        let options = SamplingOptions { temperature: 0.0, ..Default::default() };
        let request = Request {
            pos: context,
            n_tokens: tokens,
            step: 0,
            remaining: u32::MAX,
            prompt_len: context,
            options: &options,
            plan: SamplingPlan::new(&options, self.architecture().n_vocab),
            seed: 0,
            end_ids: &[],
        };
        let header = request.header()?;
        // The sampler advances the state.
        let before = || self.write(self.plan.ids.state.id, 0, &header);
        let times = self.gpu.profile(recording, &self.buffers, repeats, &before).await?;
        let ms: f64 = times.iter().sum();
        let mut kernels: Vec<KernelTime> = Vec::new();
        for (dispatch, time) in recording.dispatches.iter().zip(times) {
            let kernel = dispatch.variant.label();
            let bytes = weight_bytes(dispatch);
            match kernels.iter_mut().find(|k| k.kernel == kernel) {
                Some(k) => (k.calls, k.ms, k.bytes) = (k.calls + 1, k.ms + time, k.bytes + bytes),
                None => kernels.push(KernelTime { kernel, calls: 1, ms: time, share: 0.0, gbps: None, bytes }),
            }
        }
        for k in &mut kernels {
            k.share = if ms > 0.0 { k.ms / ms } else { 0.0 };
            k.gbps = (k.bytes > 0 && k.ms > 0.0).then(|| k.bytes as f64 / k.ms / 1e6);
        }
        kernels.sort_by(|a, b| b.ms.total_cmp(&a.ms));
        Ok(PassProfile { pass, tokens, context, ms, kernels })
    }
}

/// The bytes of weights that a dispatch reads once: the largest thing that a matrix times a vector only reads.
fn weight_bytes(dispatch: &Dispatch) -> u64 {
    if !dispatch.variant.kernel.name.starts_with("matvec") {
        return 0;
    }
    dispatch.bindings.iter().filter(|b| b.access == Access::Read).map(|b| b.bytes).max().unwrap_or(0)
}
