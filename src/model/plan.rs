//! What a model needs on the device: buffers, where each tensor goes, and where each thing of a forward pass lies.

use std::ops::Range;

use super::architecture::{HalfNorms, limit};
use super::builder::Builder;
use super::layer::{Layer, NormWeights};
use super::lora::Adapter;
use super::moe::ExpertSlots;
use super::rope::{self, Factors, RopeFrequencies};
use super::{Architecture, Recurrent};
use crate::err;
use crate::error::Result;
use crate::gguf::{Header, TensorInfo};
use crate::kernels::attention::{KV_BLOCK, KvType, SplitRule, Splits};
use crate::kernels::attention_decode::splits;
use crate::kernels::norm::NormKind;
use crate::kernels::sample::{SampleBuffers, sample};
use crate::kernels::tuning::Tuning;
use crate::kernels::{Binding, BufferId, BufferSpec, Matrix, Recording, state};
use crate::tensor::Tier;

/// What the caller decides.
#[derive(Debug, Clone, Copy)]
pub struct PlanOptions {
    /// The device's tier.
    pub tier: Tier,
    /// Positions of the KV cache, whose blocks may hold more.
    pub context_length: u32,
    /// Type of the KV cache.
    pub kv: KvType,
    /// The most tokens of one prefill pass.
    pub max_prefill: u32,
    /// How decode shares keys out over workgroups.
    pub split_rule: SplitRule,
}

/// How a tensor's bytes become a buffer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadKind {
    /// Rows repacked into the device's layout of the format.
    Matrix,
    /// Decoded to f32: norm weights.
    Vector,
}

/// A run of a tensor's rows and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Index in the header's tensors.
    pub tensor: usize,
    /// Which of its rows.
    pub rows: Range<u64>,
    /// How.
    pub kind: UploadKind,
    /// The buffer.
    pub buffer: BufferId,
    /// Where the first row goes, in bytes.
    pub offset: u64,
}

/// Layers that share a block table: all of one window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Keys that a query sees; 0 for all.
    pub window: u32,
    /// Blocks in each layer's pool.
    pub pool_blocks: u32,
    /// u32: the physical block of each logical one.
    pub table: Slot,
}

/// The buffers that are not one layer's.
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs)] // named as in PLAN and the kernels' docs
pub struct Ids {
    pub state: Slot,
    pub ids: Slot,
    pub ring: Slot,
    pub counts: Slot,
    pub bias: Slot,
    pub blocks: Slot,
    pub candidates: Slot,
    pub logits: Slot,
    pub x: Slot,
    pub x_other: Slot,
    pub xn: Slot,
    pub qkv: Slot,
    pub conv: Slot,
    pub att: Slot,
    pub gate: Slot,
    pub parts: Slot,
    pub gated: Slot,
    pub experts: ExpertSlots,
    pub small: Slot,
    pub rope_global: Slot,
    pub rope_window: Slot,
    /// Where the format of a matrix needs it.
    pub codebooks: Option<Slot>,
    pub low_rank: Slot,
    pub wide: Slot,
}

/// A whole buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Its number.
    pub id: BufferId,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Default for Slot {
    fn default() -> Self {
        Self { id: BufferId(u32::MAX), bytes: 0 }
    }
}

impl Slot {
    /// All of it, read.
    pub fn read(self) -> Binding {
        Binding::read(self.id, 0, self.bytes)
    }

    /// All of it, read and written.
    pub fn write(self) -> Binding {
        Binding::read_write(self.id, 0, self.bytes)
    }
}

/// A run of rows of the embedding or the head: each in its own buffer, since the whole may exceed a binding.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    pub first_row: u32,
    pub matrix: Matrix,
}

/// Everything a model needs on the device.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The model.
    pub architecture: Architecture,
    /// What was decided.
    pub options: PlanOptions,
    /// How decode's matvecs are shared out.
    pub tuning: Tuning,
    /// All buffers, by number.
    pub buffers: Vec<BufferSpec>,
    /// All uploads, in the file's order.
    pub uploads: Vec<Upload>,
    /// The buffers that are not one layer's.
    pub ids: Ids,
    /// Block tables.
    pub groups: Vec<Group>,
    pub(super) layers: Vec<Layer>,
    pub(super) embedding: Vec<Chunk>,
    /// Rows of learned positions.
    pub(super) positions: Vec<Chunk>,
    /// Rows of the types of texts.
    pub(super) types: Vec<Chunk>,
    pub(super) embedding_norm: Option<NormWeights>,
    /// Empty where the model does not generate.
    pub(super) head: Vec<Chunk>,
    pub(super) output_norm: Option<NormWeights>,
    pub(super) head_bias: Option<Binding>,
    pub(super) adapters: Vec<Adapter>,
    /// Those that passes are recorded with, and their scales.
    pub(super) chosen: Vec<(usize, f32)>,
}

/// Spare blocks of a windowed group's pool: how far a sequence can be rewound before its window must be computed again.
pub(crate) const SPARE_BLOCKS: u32 = 8;

impl Plan {
    /// Plans the buffers of a model.
    ///
    /// # Errors
    /// `bad-file` for missing or misshapen tensors, `unsupported-quant`, `out-of-memory` where a buffer exceeds the
    /// device's binding limit.
    pub fn new(architecture: Architecture, header: &Header, options: PlanOptions) -> Result<Self> {
        let context_length = options.context_length.clamp(1, architecture.context_length);
        let options = PlanOptions { context_length, ..options };
        let mut b = Builder::new(header, options);
        let a = &architecture;
        let groups = b.groups(a)?;
        let layers = (0..a.n_layers).map(|l| Layer::read(&mut b, a, l, &groups)).collect::<Result<Vec<_>>>()?;
        let embedding = b.chunks("token_embd.weight", a.n_vocab, a.n_embd)?;
        let positions = match a.learned_positions {
            true => b.chunks("position_embd.weight", a.context_length, a.n_embd)?,
            false => Vec::new(),
        };
        let types = match header.tensor("token_types.weight").filter(|_| a.token_types) {
            // More than this do not have the shape that is expected, and are refused.
            Some(tensor) => b.chunks(&tensor.name, tensor.rows().min(limit::TYPES.into()) as u32, a.n_embd)?,
            None => Vec::new(),
        };
        let mut norm = |name: Option<&str>| name.map(|name| b.norm(name, a.norm.kind, a.n_embd)).transpose();
        let (embedding_norm, output_norm) = (norm(a.embedding_norm)?, norm(a.output_norm)?);
        let head = match (a.tied, a.causal) {
            (true, true) => embedding.clone(),
            (true, false) => Vec::new(),
            (false, _) => b.chunks("output.weight", a.n_vocab, a.n_embd)?,
        };
        let head_bias = b.has("output.bias").then(|| b.vector("output.bias", a.n_vocab)).transpose()?;

        let rows = |width: u64| width * 4 * u64::from(options.max_prefill.max(1));
        let qkv_len = a.attentions(options.kv).map(|shape| shape.qkv_len()).max().unwrap_or(0);
        let of_mixer = |len: fn(&Recurrent) -> u32| a.recurrence.as_ref().map_or(0, |r| u64::from(len(&r.mixer)));
        let vocabulary = u64::from(a.n_vocab) * 4;
        let table = u64::from(context_length) * u64::from(a.rot_dim / 2) * 8;
        let ends = bucket_ends(&options);
        let parts = a.attentions(options.kv).flat_map(|shape| {
            ends.iter().map(move |end| shape.parts_bytes(splits(options.tier, &shape, options.split_rule, *end)))
        });
        let parts = parts.max().unwrap_or(0);
        let [bias, counts, ring, blocks, candidates] = SampleBuffers::specs(options.tier, a.n_vocab);
        let ids = Ids {
            state: b.slot("state", state::STATE_BYTES)?,
            ids: b.slot("ids", rows(1))?,
            bias: b.slot(&bias.label, bias.bytes)?,
            counts: b.slot(&counts.label, counts.bytes)?,
            ring: b.slot(&ring.label, ring.bytes)?,
            blocks: b.slot(&blocks.label, blocks.bytes)?,
            candidates: b.slot(&candidates.label, candidates.bytes)?,
            logits: b.slot("logits", vocabulary)?,
            x: b.slot("x", rows(a.n_embd.into()))?,
            x_other: match defers_norms(a, &options, b.codebooks) {
                true => b.slot("x, in turn", u64::from(a.n_embd) * 4)?,
                false => Slot::default(),
            },
            xn: b.slot("xn", rows(a.n_embd.into()))?,
            qkv: b.slot("qkv", rows(qkv_len.max(of_mixer(Recurrent::projected))))?,
            conv: match a.recurrence.as_ref().map(|r| r.mixer) {
                Some(Recurrent::DeltaNet { net, .. }) => {
                    b.slot("q, k and v out of the convolution", rows(net.channels().into()))?
                }
                _ => Slot::default(),
            },
            att: b.slot("att", rows((u64::from(a.n_heads) * u64::from(a.head_dim)).max(of_mixer(Recurrent::out_len))))?,
            gate: if a.attention_gate {
                b.slot("attention's gate", rows(u64::from(a.n_heads) * u64::from(a.head_dim)))?
            } else {
                Slot::default()
            },
            parts: b.slot("splits of attention", parts)?,
            gated: b.slot("gated", rows(a.experts.map_or(0, |e| e.gated_width()).max(a.n_ff).into()))?,
            experts: match &a.experts {
                Some(experts) => experts.slots(&mut b, a.n_embd)?,
                None => ExpertSlots::default(),
            },
            small: Slot { id: b.small_id, bytes: b.small },
            rope_global: b.slot("rope", table)?,
            rope_window: if a.has_windows() { b.slot("rope of windows", table)? } else { Slot::default() },
            codebooks: b.codebooks,
            low_rank: Slot::default(),
            wide: Slot::default(),
        };
        let Builder { mut buffers, mut uploads, .. } = b;
        buffers[ids.small.id.0 as usize].bytes = ids.small.bytes;
        // A tensor that no kernel reads would silently be missing from the answer (a bias, a norm, an expert).
        let factors = architecture.rope_global.factors.tensors();
        let left_out: Vec<String> = (a.n_layers..a.n_layers + a.ahead).map(|layer| format!("blk.{layer}.")).collect();
        let needless = |name: &str| factors.contains(&name) || left_out.iter().any(|block| name.starts_with(block.as_str()));
        let unread = |(i, t): &(usize, &TensorInfo)| !needless(&t.name) && !uploads.iter().any(|u| u.tensor == *i);
        if let Some((_, tensor)) = header.tensors.iter().enumerate().find(unread) {
            let (name, family) = (&tensor.name, &architecture.name);
            return Err(err!(
                UnsupportedArchitecture,
                "{family}: tensor {name} has no place in this architecture as it is supported"
            ));
        }
        uploads.sort_by_key(|u| header.tensors[u.tensor].offset + u.rows.start);
        let tuning =
            Tuning::of(options.tier, architecture.n_embd, architecture.n_heads * architecture.head_dim, architecture.n_ff);
        Ok(Self {
            architecture,
            options,
            tuning,
            buffers,
            uploads,
            ids,
            groups,
            layers,
            embedding,
            positions,
            types,
            embedding_norm,
            head,
            output_norm,
            head_bias,
            adapters: Vec::new(),
            chosen: Vec::new(),
        })
    }

    /// Up to how many positions each decode pass serves, ascending; the last serves the whole context. A pass for longer
    /// sequences has more splits of the keys, which shorter ones would pay for; one a layer group that splits no further has none.
    pub fn decode_buckets(&self) -> Vec<u32> {
        let shapes: Vec<_> = self.architecture.attentions(self.options.kv).collect();
        let of_layers = |end: &u32| -> Vec<Splits> {
            shapes.iter().map(|shape| splits(self.options.tier, shape, self.options.split_rule, *end)).collect()
        };
        let ends = bucket_ends(&self.options);
        let mut buckets: Vec<u32> = Vec::new();
        for end in ends {
            match buckets.last_mut() {
                Some(last) if of_layers(last) == of_layers(&end) => *last = end,
                _ => buckets.push(end),
            }
        }
        buckets
    }

    /// Whether decode leaves the norms after attention and feed-forward to the next matvec.
    pub(super) fn defers_norms(&self) -> bool {
        // An adapter reads the stream as well, normed: by then it must be whole.
        self.chosen.is_empty() && defers_norms(&self.architecture, &self.options, self.ids.codebooks)
    }

    /// The same plan, its passes recorded with these adapters and their scales.
    pub fn with_adapters(&self, chosen: Vec<(usize, f32)>) -> Self {
        Self { chosen, ..self.clone() }
    }

    /// See [`Self::with_adapters`].
    pub fn chosen_adapters(&self) -> &[(usize, f32)] {
        &self.chosen
    }

    /// The buffers that keep keys and values.
    pub fn caches(&self) -> impl Iterator<Item = BufferId> {
        self.layers.iter().filter_map(Layer::cache)
    }

    /// Bytes of all buffers.
    pub fn device_bytes(&self) -> u64 {
        self.buffers.iter().map(|b| b.bytes).sum()
    }

    /// A token from the logits, fed to the next pass.
    pub fn sample(&self) -> Result<Recording> {
        let i = &self.ids;
        let buffers = SampleBuffers {
            state: i.state.id,
            logits: i.logits.id,
            ids: i.ids.id,
            bias: i.bias.id,
            counts: i.counts.id,
            ring: i.ring.id,
            blocks: i.blocks.id,
            candidates: i.candidates.id,
        };
        let dispatches = sample(self.options.tier, self.architecture.n_vocab, &buffers)?.into();
        Ok(Recording { dispatches })
    }

    /// Which tensor divides the rope's frequencies, where there is one.
    pub fn rope_factors<'a>(&self, header: &'a Header) -> Option<&'a TensorInfo> {
        header.tensor(self.architecture.rope_global.factors.tensor(self.options.context_length)?)
    }

    /// A strip of each rope table, for positions `start..start + positions`: (buffer, byte offset, words).
    pub fn rope_tables(&self, start: u32, positions: u32, factors: &[f32]) -> Vec<(BufferId, u64, Vec<u32>)> {
        let a = &self.architecture;
        let offset = u64::from(start) * u64::from(a.rot_dim / 2) * 8;
        let table = |slot: Slot, rope: &RopeFrequencies| {
            let factors = if rope.factors == Factors::None { &[] } else { factors };
            (slot.id, offset, rope::table(rope, a.rot_dim, start, positions, factors))
        };
        let mut tables = vec![table(self.ids.rope_global, &a.rope_global)];
        if a.has_windows() {
            tables.push(table(self.ids.rope_window, &a.rope_window));
        }
        tables
    }

    /// Bytes of weights read for one token, as the roofline counts them: every matrix once, of the embedding one row.
    pub fn weight_bytes_per_token(&self) -> u64 {
        let head = self.head.iter().map(|c| u64::from(c.matrix.rows) * u64::from(c.matrix.row_vec4) * 16);
        let row = self.embedding.first().map_or(0, |c| u64::from(c.matrix.row_vec4) * 16);
        self.layers.iter().map(Layer::bytes_per_token).chain(head).sum::<u64>() + row
    }

    /// Bytes of keys and values, and of what recurrent layers remember, read for a token that sees `keys` keys, its own included.
    pub fn kv_bytes_per_token(&self, keys: u32) -> u64 {
        let of_layer = |layer| {
            if let Some(mixer) = self.architecture.recurrent(layer) {
                return mixer.state_bytes();
            }
            let shape = self.architecture.attention(layer, self.options.kv);
            let seen = if shape.window > 0 { keys.min(shape.window) } else { keys };
            shape.kv_block_bytes() / u64::from(KV_BLOCK) * u64::from(seen)
        };
        (0..self.architecture.n_layers).map(of_layer).sum()
    }
}

/// Where decode passes may end: the first with the keys that stay whole, each next four times as far, the last with the context.
fn bucket_ends(options: &PlanOptions) -> Vec<u32> {
    let ends = std::iter::successors(Some(options.split_rule.whole.max(1)), |end| end.checked_mul(4));
    ends.take_while(|end| *end < options.context_length).chain([options.context_length]).collect()
}

/// Only where the matvec behind each such norm norms the stream, too. A CPU adapter dispatches for less than it costs to norm again
/// in each workgroup. With codebooks the matvec would have one binding too many.
fn defers_norms(a: &Architecture, options: &PlanOptions, codebooks: Option<Slot>) -> bool {
    let both = |norms: &HalfNorms| norms.before.is_some() && norms.added.is_some() && norms.after.is_none();
    let folds = a.norm.kind == NormKind::Rms && both(&a.attention_norms) && both(&a.ffn_norms) && !a.parallel;
    folds && !options.tier.cpu && codebooks.is_none()
}
