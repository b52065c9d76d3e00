//! Loading: a header, then the weights as a stream from the source through a small window of memory into the device's
//! buffers. Nothing of the weights is held: peak memory is [`WINDOW_BYTES`] twice, whatever the model's size.

use std::cell::RefCell;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::cancel::{Cancel, check_cancel, unless_cancelled};
use super::kv::KvCache;
use super::pace::Pacer;
use super::passes::{Passes, Recordings};
use super::source::{ByteSource, Host, read_header};
use super::tune::{self, Candidates, StoredTuning, StoredTunings, TuningReport, TuningSource};
use super::words::Words;
use crate::err;
use crate::error::Result;
use crate::gguf::Header;
use crate::gpu::{AdapterReport, Buffers, Gpu};
use crate::hf::Quantize;
use crate::kernels::attention::{KvType, SplitRule};
use crate::kernels::fill::{Pattern, fill};
use crate::kernels::{Binding, BufferId, Recording};
use crate::model::{self, Architecture, Plan, PlanOptions, UploadKind};
use crate::quant;
use crate::tensor::Tier;
use crate::text::{ChatTemplate, Tokenizer};

/// Bytes of a tensor that are read and repacked at once; rows longer than this go one by one.
const WINDOW_BYTES: usize = 4 << 20;

/// Bytes uploaded between two waits: natively `write_buffer` holds its staging memory until a submit completes.
const FLUSH_BYTES: u64 = 64 << 20;

/// Positions of a rope table that are computed at once.
const TABLE_STRIP: u32 = 1024;

/// The default context where the caller names none: enough for a chat, little enough for a phone.
const DEFAULT_CONTEXT: u32 = 4096;

/// The most tokens of one prefill pass, on a GPU and on a CPU adapter, where a pass must stay short to be stopped.
const PREFILL: u32 = 256;
const PREFILL_CPU: u32 = 64;

/// The most tokens of a text where tokens see later ones, so that all are in one pass, which has room in memory for each.
const LONGEST_TEXT: u32 = 8192;

/// Whether activations may be rounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Precision {
    /// No: f32, or f16 within a tile where the device has it.
    #[default]
    Exact,
    /// To eight bits in groups of 32, to be multiplied as packed bytes. Answers change.
    Fast,
}

/// Options of a load, named as in JavaScript.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LoadOptions {
    /// Positions of the KV cache. `None`: the model's own, at most 4,096.
    pub context_length: Option<u32>,
    /// How keys and values are stored. `None`: f16.
    pub kv_type: Option<KvType>,
    /// Whether kernels may be tuned on the device, for a second or two. `None`: on GPUs.
    pub autotune: Option<bool>,
    /// What was found before on this adapter, by [`TuningReport::key`]. It is used in place of measuring, unless
    /// `autotune` is false.
    pub tunings: StoredTunings,
    /// `fast` rounds activations to bytes where weights are integers. `None`: exact.
    pub precision: Option<Precision>,
    /// A chat template, in Jinja, in place of the file's.
    pub template: Option<String>,
    /// What weights in safetensors become while they load. `None`: Q8_0. [`open_model`](super::open_model) takes it; weights in GGUF
    /// have their format.
    pub quantize: Option<Quantize>,
    /// The most tokens of one prefill pass; `None`: by the device. Not for users: tests ask for other ones.
    #[serde(skip)]
    pub max_prefill: Option<u32>,
    /// How decode shares keys out over workgroups; `None`: by the device. Not for users: tests and tuning ask for other ones.
    #[serde(skip)]
    pub split_rule: Option<SplitRule>,
}

/// How far a load has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// `header`, `tokenizer`, `weights` or `kernels`.
    pub phase: &'static str,
    /// Bytes read of the weights; pipelines compiled.
    pub loaded: u64,
    /// Of how many.
    pub total: u64,
}

/// What a header says about a model, and what it will take.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    /// `general.architecture`
    pub architecture: String,
    /// `general.name`, or the empty string.
    pub name: String,
    /// The file's tensor formats and how many tensors have each, most bytes first, such as `Q4_1 ×210`.
    pub quantization: String,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Weights in all.
    pub parameters: u64,
    /// What the model was trained for.
    pub trained_context: u32,
    /// Positions of the KV cache.
    pub context_length: u32,
    /// Type of the KV cache.
    pub kv_type: KvType,
    /// Tokens in the vocabulary.
    pub vocab_size: u32,
    /// Whether there is a chat template: the file's or the option's.
    pub has_chat_template: bool,
    /// Why the file's chat template cannot be used; messages need the option `template` then.
    pub template_error: Option<String>,
    /// Bytes on the device: weights, cache and scratch.
    pub memory_bytes: u64,
    /// Bytes of weights read for each token.
    pub weight_bytes_per_token: u64,
    /// The largest single binding in bytes.
    pub largest_binding_bytes: u64,
    /// The device, once there is one.
    pub adapter: Option<AdapterReport>,
    /// How long loading took, once it has.
    pub load_phases: Option<LoadPhases>,
    /// How its kernels are tuned, once it is loaded.
    pub tuning: Option<TuningReport>,
}

/// Milliseconds of each part of a load, in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadPhases {
    /// Reading and parsing the header; 0 where that was done before the load.
    pub header_ms: f64,
    /// The tokenizer and the chat template.
    pub tokenizer_ms: f64,
    /// Allocating the device's buffers.
    pub buffers_ms: f64,
    /// Fetching, repacking and uploading the weights.
    pub weights_ms: f64,
    /// Compiling kernels, as far as it went on when the weights were there.
    pub kernels_ms: f64,
    /// Tuning them.
    pub tuning_ms: f64,
    /// All of it, with what lies between.
    pub total_ms: f64,
}

/// Tells the time between calls.
struct Laps<'a> {
    host: &'a dyn Host,
    last: f64,
}

impl Laps<'_> {
    /// Milliseconds since the last call.
    fn lap(&mut self) -> f64 {
        let now = self.host.now_ms();
        now - std::mem::replace(&mut self.last, now)
    }
}

/// The tier that a load with these options runs in. Errors: `bad-option` for a precision that the device lacks.
fn tier_of(gpu: &Gpu, options: &LoadOptions) -> Result<Tier> {
    match options.precision.unwrap_or_default() {
        Precision::Exact => Ok(gpu.tier()),
        Precision::Fast => gpu.fast_tier(),
    }
}

/// Plans a model from its header alone. Errors as `model::read` and [`Plan::new`].
fn plan(header: &Header, tier: Tier, options: &LoadOptions) -> Result<Plan> {
    let architecture = model::read(header)?;
    let context_length = match options.context_length {
        Some(0) => return Err(err!(BadOption, "contextLength: expected at least 1, found 0")),
        Some(n) if n > architecture.context_length => {
            let max = architecture.context_length;
            return Err(err!(BadOption, "contextLength: expected at most the model's {max}, found {n}"));
        }
        Some(n) => n,
        None => architecture.context_length.min(DEFAULT_CONTEXT),
    };
    if !architecture.causal && context_length > LONGEST_TEXT {
        return Err(err!(
            BadOption,
            "contextLength: this model reads a text at once, at most {LONGEST_TEXT} tokens, found {context_length}"
        ));
    }
    let max_prefill = match architecture.causal {
        true => options.max_prefill.unwrap_or(if tier.cpu { PREFILL_CPU } else { PREFILL }).min(context_length),
        // At least two: a pass over one token would be a decode pass.
        false => context_length.max(2),
    };
    let kv = options.kv_type.unwrap_or_default();
    let split_rule = options.split_rule.unwrap_or(SplitRule::of(tier));
    let options = PlanOptions { tier, context_length, kv, max_prefill, split_rule };
    Plan::new(architecture, header, options)
}

/// Describes a model from its header, before any weight is fetched. `tier`: the device's, or [`Tier::BASE`] with the
/// limits to plan for.
pub fn describe(header: &Header, tier: Tier, options: &LoadOptions) -> Result<ModelInfo> {
    Ok(info(header, &plan(header, tier, options)?, options, None))
}

fn info(header: &Header, plan: &Plan, options: &LoadOptions, adapter: Option<AdapterReport>) -> ModelInfo {
    let mut formats: Vec<(&str, u64, usize)> = Vec::new();
    for t in &header.tensors {
        match formats.iter_mut().find(|f| f.0 == t.format.name()) {
            Some(f) => (f.1, f.2) = (f.1 + t.bytes, f.2 + 1),
            None => formats.push((t.format.name(), t.bytes, 1)),
        }
    }
    formats.sort_by_key(|f| std::cmp::Reverse(f.1));
    let meta = &header.metadata;
    let template = options.template.as_ref().map_or_else(|| ChatTemplate::from_metadata(meta), |_| Ok(None));
    let template_error = template.as_ref().err().map(|e| e.message.clone());
    let has_template = options.template.is_some() || template.is_ok_and(|template| template.is_some());
    ModelInfo {
        architecture: plan.architecture.name.clone(),
        name: meta.string("general.name").ok().flatten().unwrap_or_default().to_owned(),
        quantization: formats.iter().map(|f| format!("{} ×{}", f.0, f.2)).collect::<Vec<_>>().join(", "),
        file_bytes: header.file_len,
        parameters: header.tensors.iter().map(|t| t.shape.iter().product::<u64>()).sum(),
        trained_context: plan.architecture.context_length,
        context_length: plan.options.context_length,
        kv_type: plan.options.kv,
        vocab_size: plan.architecture.n_vocab,
        has_chat_template: has_template || template_error.is_some(),
        template_error,
        memory_bytes: plan.device_bytes(),
        weight_bytes_per_token: plan.weight_bytes_per_token(),
        largest_binding_bytes: plan.buffers.iter().map(|b| b.bytes).max().unwrap_or(0),
        adapter,
        load_phases: None,
        tuning: None,
    }
}

/// A loaded model.
pub struct Engine {
    pub(super) gpu: Rc<Gpu>,
    pub(super) plan: Plan,
    pub(super) buffers: Buffers,
    pub(super) passes: Passes,
    pub(super) kv: KvCache,
    /// The tokens whose keys and values the cache holds, from position 0 on.
    pub(super) cached: Vec<u32>,
    pub(super) host: Box<dyn Host>,
    pub(super) load_ms: f64,
    /// How long a trivial readback takes on this device and host.
    pub(super) latency_ms: f64,
    pub(super) pacer: RefCell<Pacer>,
    words: Rc<Words>,
    info: ModelInfo,
    report: AdapterReport,
}

impl Engine {
    /// Loads a model onto a device. Models may share one, and with it the pipelines that it has compiled.
    ///
    /// # Errors
    /// Whatever the source, the header, the tokenizer, the template or the device fail with; `aborted` when `cancel`
    /// says so. A failed load leaves nothing on the device.
    pub async fn load(
        source: &impl ByteSource,
        gpu: Rc<Gpu>,
        options: &LoadOptions,
        host: Box<dyn Host>,
        progress: &mut dyn FnMut(Progress),
        cancel: &dyn Cancel,
    ) -> Result<Self> {
        progress(Progress { phase: "header", loaded: 0, total: source.len() });
        let start = host.now_ms();
        let header = unless_cancelled(cancel, read_header(source)).await?;
        let header_ms = host.now_ms() - start;
        let mut engine = Self::load_header(header, source, gpu, options, host, progress, cancel).await?;
        if let Some(phases) = &mut engine.info.load_phases {
            phases.header_ms = header_ms;
            phases.total_ms += header_ms;
        }
        Ok(engine)
    }

    /// Loads a model whose header has been read from `source`. Errors as [`Self::load`].
    pub async fn load_header(
        mut header: Header,
        source: &impl ByteSource,
        gpu: Rc<Gpu>,
        options: &LoadOptions,
        host: Box<dyn Host>,
        progress: &mut dyn FnMut(Progress),
        cancel: &dyn Cancel,
    ) -> Result<Self> {
        let start = host.now_ms();
        let mut laps = Laps { host: &*host, last: start };
        let mut plan = plan(&header, tier_of(&gpu, options)?, options)?;
        let report = AdapterReport { tier: plan.options.tier.name(), ..gpu.report().clone() };
        let (mut tuning, candidates) = stored_or_candidates(&plan, options)?;
        plan.tuning = tuning.choices;
        let mut info = info(&header, &plan, options, Some(report.clone()));
        let recordings = Recordings::new(&plan)?;
        check_cancel(cancel)?;
        // Kernels are compiled while the tokenizer is made and the weights come.
        let tried = candidates.iter().flat_map(Candidates::recordings);
        let compilation = gpu.start_compiling(recordings.all().chain(tried))?;
        laps.lap();

        progress(Progress { phase: "tokenizer", loaded: 0, total: source.len() });
        let tokenizer = Tokenizer::from_metadata(&mut header.metadata)?;
        if tokenizer.vocab_len() > plan.architecture.n_vocab as usize {
            let (tokens, rows) = (tokenizer.vocab_len(), plan.architecture.n_vocab);
            return Err(err!(BadFile, "the vocabulary has {tokens} tokens, the embedding {rows} rows"));
        }
        let words = Words::new(tokenizer, &header.metadata, options.template.as_deref())?;
        let tokenizer_ms = laps.lap();

        let buffers = gpu.create_buffers(&plan.buffers).await?;
        let buffers_ms = laps.lap();
        match source.is_noise() {
            true => noise_weights(&gpu, &plan, &buffers, progress, cancel).await?,
            false => {
                let uploads = upload_weights(source, &gpu, &header, &plan, &buffers, progress, cancel);
                unless_cancelled(cancel, uploads).await?;
            }
        }
        upload_tables(source, &gpu, &header, &plan, &buffers).await?;
        gpu.flush(&buffers).await?;
        let weights_ms = laps.lap();
        let mut compiled = |loaded, total| progress(Progress { phase: "kernels", loaded, total });
        unless_cancelled(cancel, gpu.finish_compiling(compilation, &mut compiled)).await?;
        let kernels_ms = laps.lap();
        // Nothing is under way now, so this is all latency.
        gpu.flush(&buffers).await?;
        let latency_ms = laps.lap();
        let mut recordings = recordings;
        if let Some(candidates) = candidates.filter(|_| latency_ms < tune::SLOW_READBACK_MS) {
            progress(Progress { phase: "tuning", loaded: 0, total: 1 });
            let (choices, measured) = candidates.measure(&gpu, &buffers, plan.tuning, &*host, latency_ms, cancel).await?;
            tuning = TuningReport { choices, source: TuningSource::Measured, measured, candidates: candidates.len(), ..tuning };
            plan.tuning = choices;
            recordings = Recordings::new(&plan)?;
        }
        let tuning_ms = laps.lap();
        let passes = recordings.prepare(&gpu, &buffers, cancel).await?;
        laps.lap();
        let kv = KvCache::new(&plan.groups, plan.options.context_length);
        let load_ms = host.now_ms() - start;
        let phases =
            LoadPhases { header_ms: 0.0, tokenizer_ms, buffers_ms, weights_ms, kernels_ms, tuning_ms, total_ms: load_ms };
        info.load_phases = Some(phases);
        info.tuning = Some(tuning);
        Ok(Self {
            pacer: RefCell::new(Pacer::new(gpu.tier().cpu, latency_ms)),
            gpu,
            plan,
            buffers,
            passes,
            kv,
            cached: Vec::new(),
            host,
            load_ms,
            latency_ms,
            words: Rc::new(words),
            info,
            report,
        })
    }

    /// What was loaded.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Error: `unsupported-architecture` for a model that embeds texts and has nothing to continue them with.
    pub(super) fn must_generate(&self) -> Result<()> {
        let name = &self.architecture().name;
        match self.architecture().causal {
            true => Ok(()),
            false => Err(err!(UnsupportedArchitecture, "{name}: this model embeds texts and does not generate any: use embed")),
        }
    }

    /// The architecture.
    pub fn architecture(&self) -> &Architecture {
        &self.plan.architecture
    }

    /// The device.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The device, with the tier that this model runs in.
    pub fn report(&self) -> &AdapterReport {
        &self.report
    }

    /// The tokenizer and the chat template, to be used while the engine is busy.
    pub fn words(&self) -> &Rc<Words> {
        &self.words
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.words.tokenizer
    }

    /// The model's chat template, where it has one.
    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        self.words.template.as_ref()?.as_ref().ok()
    }

    /// Milliseconds that loading took.
    pub fn load_ms(&self) -> f64 {
        self.load_ms
    }
}

/// The tuning to begin with, and what may be measured to better it.
fn stored_or_candidates(plan: &Plan, options: &LoadOptions) -> Result<(TuningReport, Option<Candidates>)> {
    let key = tune::key(plan);
    let report = |choices, source| TuningReport { key: key.clone(), source, choices, measured: 0, candidates: 0 };
    let default = report(plan.tuning, TuningSource::Default);
    // Only decode's kernels are tuned.
    if !plan.architecture.causal || !options.autotune.unwrap_or(!plan.options.tier.cpu) {
        return Ok((default, None));
    }
    match options.tunings.get(&key) {
        Some(StoredTuning::Known(choices)) if choices.is_valid() => Ok((report(*choices, TuningSource::Stored), None)),
        _ => Ok((default, Some(Candidates::new(plan)?))),
    }
}

async fn upload_weights(
    source: &impl ByteSource,
    gpu: &Gpu,
    header: &Header,
    plan: &Plan,
    buffers: &Buffers,
    progress: &mut dyn FnMut(Progress),
    cancel: &dyn Cancel,
) -> Result<()> {
    let row_bytes = |u: &model::Upload| {
        let t = &header.tensors[u.tensor];
        t.bytes / t.rows().max(1)
    };
    let total = plan.uploads.iter().map(|u| (u.rows.end - u.rows.start) * row_bytes(u)).sum();
    let (mut loaded, mut unflushed) = (0, 0);
    let (mut window, mut packed) = (Vec::new(), Vec::new());
    for upload in &plan.uploads {
        let tensor = &header.tensors[upload.tensor];
        let quant = quant::supported(tensor.format)?;
        let cols = tensor.row_len() as usize;
        let from = row_bytes(upload);
        let to = match upload.kind {
            UploadKind::Matrix => quant.gpu_row_bytes(cols),
            UploadKind::Vector => cols * 4,
        } as u64;
        let rows_at_once = (WINDOW_BYTES as u64 / from.max(1)).max(1);
        let mut row = upload.rows.start;
        while row < upload.rows.end {
            check_cancel(cancel)?;
            let rows = rows_at_once.min(upload.rows.end - row);
            window.resize((rows * from) as usize, 0);
            packed.clear();
            packed.resize((rows * to) as usize, 0);
            source.read(tensor.offset + row * from, &mut window).await?;
            match upload.kind {
                UploadKind::Matrix => quant.repack_rows(cols, &window, &mut packed)?,
                UploadKind::Vector => {
                    let mut floats = vec![0f32; cols * rows as usize];
                    quant.dequantize(&window, &mut floats)?;
                    packed.copy_from_slice(bytemuck::cast_slice(&floats));
                }
            }
            gpu.write(buffers, upload.buffer, upload.offset + (row - upload.rows.start) * to, &packed)?;
            row += rows;
            loaded += rows * from;
            unflushed += rows * to;
            if unflushed >= FLUSH_BYTES {
                gpu.flush(buffers).await?;
                unflushed = 0;
            }
            progress(Progress { phase: "weights", loaded, total });
        }
    }
    Ok(())
}

/// Weights of a synthetic model: noise in every matrix, norms of one.
async fn noise_weights(
    gpu: &Gpu,
    plan: &Plan,
    buffers: &Buffers,
    progress: &mut dyn FnMut(Progress),
    cancel: &dyn Cancel,
) -> Result<()> {
    let mut targets: Vec<(BufferId, UploadKind)> = plan.uploads.iter().map(|u| (u.buffer, u.kind)).collect();
    targets.sort_unstable_by_key(|t| t.0);
    targets.dedup_by_key(|t| t.0);
    let bytes = |id: BufferId| plan.buffers[id.0 as usize].bytes;
    let total = targets.iter().map(|t| bytes(t.0)).sum();
    let (mut loaded, mut unflushed) = (0, 0);
    for (id, kind) in targets {
        check_cancel(cancel)?;
        let pattern = match kind {
            UploadKind::Matrix => Pattern::noise(id.0),
            UploadKind::Vector => Pattern::float(1.0),
        };
        let dispatches = vec![fill(Binding::read_write(id, 0, bytes(id)), pattern)?];
        gpu.submit(&[&gpu.prepare(&Recording { dispatches }, buffers).await?]);
        loaded += bytes(id);
        unflushed += bytes(id);
        if unflushed >= FLUSH_BYTES {
            gpu.flush(buffers).await?;
            unflushed = 0;
        }
        progress(Progress { phase: "weights", loaded, total });
    }
    Ok(())
}

async fn upload_tables(source: &impl ByteSource, gpu: &Gpu, header: &Header, plan: &Plan, buffers: &Buffers) -> Result<()> {
    let mut factors = Vec::new();
    if let Some(tensor) = plan.rope_factors(header) {
        let half = u64::from(plan.architecture.rot_dim / 2);
        if tensor.row_len() != half || tensor.rows() != 1 {
            return Err(err!(BadFile, "tensor {}: expected {half} factors, found shape {:?}", tensor.name, tensor.shape));
        }
        let mut bytes = vec![0; tensor.bytes as usize];
        source.read(tensor.offset, &mut bytes).await?;
        factors.resize(half as usize, 0f32);
        quant::supported(tensor.format)?.dequantize(&bytes, &mut factors)?;
        if let Some(bad) = factors.iter().find(|f| !(f.is_finite() && **f > 0.0)) {
            return Err(err!(BadFile, "tensor {}: expected positive factors, found {bad}", tensor.name));
        }
    }
    if let Some(codebooks) = plan.ids.codebooks {
        gpu.write(buffers, codebooks.id, 0, bytemuck::cast_slice(&quant::codebooks::words()))?;
    }
    for start in (0..plan.options.context_length).step_by(TABLE_STRIP as usize) {
        let positions = TABLE_STRIP.min(plan.options.context_length - start);
        for (buffer, offset, words) in plan.rope_tables(start, positions, &factors) {
            gpu.write(buffers, buffer, offset, bytemuck::cast_slice(&words))?;
        }
    }
    Ok(())
}
