//! Autotuning: which way of sharing a matvec out is fastest on this very device, measured on the model's own weights. The
//! results do not change, only the time; what was found is handed out to be stored, by device and by the model's shape.

use serde::{Deserialize, Serialize};

use super::cancel::{Cancel, check_cancel};
use super::source::Host;
use crate::error::Result;
use crate::gpu::{Buffers, Gpu};
use crate::kernels::Recording;
use crate::kernels::tuning::{MatvecChoice, Role, Tuning};
use crate::model::Plan;

/// The most that measuring may take, in milliseconds; it ends with the choice under way.
const BUDGET_MS: f64 = 1500.0;
/// A choice must be this much faster than the default to be taken: less is noise.
const BETTER: f64 = 0.96;
/// Layers whose weights one measurement walks over, so that it reads memory and not a cache.
const LAYERS: usize = 8;
/// What is measured is repeated until it takes this long, or as many times a readback, and the best of so many trials counts.
const LONG_MS: f64 = 6.0;
const LONG_READBACKS: f64 = 4.0;
const MOST: u32 = 64;
const TRIALS: u32 = 3;
/// Where a readback takes longer than this, in milliseconds, nothing can be measured in a bearable time (Firefox).
pub(super) const SLOW_READBACK_MS: f64 = 20.0;

/// Where a model's tuning comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TuningSource {
    /// The device's tier.
    Default,
    /// An earlier measurement on this device, which the caller had stored.
    Stored,
    /// This load.
    Measured,
}

/// What a model's matvecs are tuned to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TuningReport {
    /// Stands for the device's tier and the model's shape: what a stored tuning is found by.
    pub key: String,
    /// Where it comes from.
    pub source: TuningSource,
    /// The choices.
    pub choices: Tuning,
    /// Choices that were measured, and those there were: fewer where the time ran out.
    pub measured: u32,
    /// Of how many.
    pub candidates: u32,
}

/// A stored tuning, as it comes back from whoever stored it.
pub type StoredTunings = std::collections::HashMap<String, StoredTuning>;

/// Whatever was stored: what is no tuning (of another version, say) is passed over and measured again.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum StoredTuning {
    /// Choices.
    Known(Tuning),
    /// Something else.
    Unknown(serde::de::IgnoredAny),
}

/// What may be measured for a model: a recording for each choice of each role, largest matrices first, since the time may
/// run out. The default comes first in its role.
pub(super) struct Candidates(Vec<(Role, MatvecChoice, Recording)>);

impl Candidates {
    /// All of them for a plan.
    pub fn new(plan: &Plan) -> Result<Self> {
        let mut list = Vec::new();
        for role in [Role::Head, Role::GateUp, Role::Down, Role::Qkv, Role::Out] {
            let default = plan.tuning.get(role);
            let others = MatvecChoice::candidates(plan.options.tier, plan.cols(role), role == Role::GateUp);
            for choice in std::iter::once(default).chain(others.into_iter().filter(|choice| *choice != default)) {
                let recording = plan.matvecs(role, choice, LAYERS)?;
                // A role may have no matrices: experts are not tuned.
                if !recording.dispatches.is_empty() {
                    list.push((role, choice, recording));
                }
            }
        }
        Ok(Self(list))
    }

    /// What they play, to be compiled.
    pub fn recordings(&self) -> impl Iterator<Item = &Recording> {
        self.0.iter().map(|(_, _, recording)| recording)
    }

    /// Measures them on the device, whose buffers hold the model's weights, and takes the best. Scratch buffers are
    /// written. Errors: `aborted`, and what the device fails with.
    pub async fn measure(
        &self,
        gpu: &Gpu,
        buffers: &Buffers,
        default: Tuning,
        host: &dyn Host,
        latency_ms: f64,
        cancel: &dyn Cancel,
    ) -> Result<(Tuning, u32)> {
        let start = host.now_ms();
        let mut tuning = default;
        let mut best = (None, f64::INFINITY);
        for (measured, (role, choice, recording)) in self.0.iter().enumerate() {
            check_cancel(cancel)?;
            if host.now_ms() - start > BUDGET_MS {
                return Ok((tuning, measured as u32));
            }
            let ms = time(gpu, buffers, recording, host, latency_ms).await?;
            // The first of a role is the default.
            if best.0 != Some(*role) || ms < best.1 * BETTER {
                best = (Some(*role), ms);
                tuning = tuning.with(*role, *choice);
            }
        }
        Ok((tuning, self.0.len() as u32))
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.0.len() as u32
    }
}

/// Milliseconds of a recording. What a submit and its readback take by themselves falls out: it is the difference between
/// so many plays and three times as many, each the best of several.
async fn time(gpu: &Gpu, buffers: &Buffers, recording: &Recording, host: &dyn Host, latency_ms: f64) -> Result<f64> {
    let prepared = gpu.prepare(recording, buffers).await?;
    let play = async |times: u32| -> Result<f64> {
        let start = host.now_ms();
        gpu.submit(&vec![&prepared; times as usize]);
        gpu.flush(buffers).await?;
        Ok(host.now_ms() - start)
    };
    play(1).await?; // some drivers compile when a pipeline is first used
    let once = (play(1).await? - latency_ms).max(0.02);
    let times = ((LONG_MS.max(LONG_READBACKS * latency_ms) / once / 2.0) as u32).clamp(1, MOST);
    let (mut few, mut many) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TRIALS {
        few = few.min(play(times).await?);
        many = many.min(play(3 * times).await?);
    }
    Ok((many - few).max(0.0) / f64::from(2 * times))
}

/// What a tuning is stored by, together with the adapter's name: the tier, and all that the shapes of matvecs depend on.
pub(super) fn key(plan: &Plan) -> String {
    let (a, tier) = (&plan.architecture, plan.options.tier.name());
    let formats: Vec<String> = Role::ALL.iter().map(|role| plan.formats(*role)).collect();
    let kv_heads = a.layers.iter().map(|layer| layer.n_kv_heads).max().unwrap_or(0);
    format!("1 {tier} {}x{} {}x{kv_heads}x{} {} {}", a.n_embd, a.n_ff, a.n_heads, a.head_dim, a.n_vocab, formats.join(" "))
}
