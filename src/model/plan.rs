//! What a model needs on the device: buffers, where each tensor goes, and where each thing of a forward pass lies.

use std::ops::Range;

use super::Architecture;
use super::rope;
use crate::err;
use crate::error::Result;
use crate::gguf::{Header, TensorInfo};
use crate::kernels::attention::{AttentionShape, KV_BLOCK, KvType, SplitRule, Splits};
use crate::kernels::attention_decode::splits;
use crate::kernels::sample::{SampleBuffers, sample};
use crate::kernels::tuning::Tuning;
use crate::kernels::{BINDING_ALIGNMENT, Binding, BufferId, BufferSpec, Matrix, Recording, state};
use crate::quant;
use crate::tensor::Tier;

/// What the caller decides.
#[derive(Debug, Clone, Copy)]
pub struct PlanOptions {
    /// The device's tier.
    pub tier: Tier,
    /// Positions of the KV cache; rounded up to whole blocks.
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
    pub att: Slot,
    pub parts: Slot,
    pub gated: Slot,
    pub small: Slot,
    pub rope_global: Slot,
    pub rope_window: Slot,
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

/// One block's weights and cache.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub attn_norm: Binding,
    pub ffn_norm: Binding,
    pub post_attn_norm: Option<Binding>,
    pub post_ffn_norm: Option<Binding>,
    pub qk_norm: Option<Binding>,
    pub qkv: Vec<Matrix>,
    pub out: Vec<Matrix>,
    pub gate_up: Vec<Matrix>,
    pub down: Vec<Matrix>,
    pub kv: Slot,
    pub group: usize,
    pub index: u32,
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
    pub(super) head: Vec<Chunk>,
    pub(super) output_norm: Binding,
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
        let context_length = options.context_length.clamp(1, architecture.context_length).next_multiple_of(KV_BLOCK);
        let options = PlanOptions { context_length, ..options };
        let mut b = Builder { header, options, buffers: Vec::new(), uploads: Vec::new(), small: 0, small_id: BufferId(0) };
        let a = &architecture;
        let small_id = b.reserve("norms");
        b.small_id = small_id;

        let groups = b.groups(a)?;
        let layers = (0..a.n_layers).map(|l| b.layer(a, l, &groups)).collect::<Result<Vec<_>>>()?;
        let embedding = b.chunks("token_embd.weight", a.n_vocab, a.n_embd)?;
        let head = if a.tied { embedding.clone() } else { b.chunks("output.weight", a.n_vocab, a.n_embd)? };
        let output_norm = b.vector("output_norm.weight", a.n_embd)?;

        let rows = |width: u64| width * 4 * u64::from(options.max_prefill.max(1));
        let shape = a.attention(0, options.kv);
        let vocabulary = u64::from(a.n_vocab) * 4;
        let table = u64::from(context_length) * u64::from(a.rot_dim / 2) * 8;
        let has_window = a.window > 0;
        let parts = groups.iter().flat_map(|g| {
            let shape = AttentionShape { window: g.window, ..shape };
            bucket_ends(&options)
                .into_iter()
                .map(move |end| shape.parts_bytes(splits(options.tier, &shape, options.split_rule, end)))
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
            x_other: if defers_norms(a, &options) { b.slot("x, in turn", u64::from(a.n_embd) * 4)? } else { Slot::default() },
            xn: b.slot("xn", rows(a.n_embd.into()))?,
            qkv: b.slot("qkv", rows(shape.qkv_len()))?,
            att: b.slot("att", rows(u64::from(a.n_heads) * u64::from(a.head_dim)))?,
            parts: b.slot("splits of attention", parts)?,
            gated: b.slot("gated", rows(a.n_ff.into()))?,
            small: Slot { id: small_id, bytes: b.small },
            rope_global: b.slot("rope", table)?,
            rope_window: if has_window { b.slot("rope of windows", table)? } else { Slot::default() },
        };
        let small = b.small;
        let Builder { mut buffers, mut uploads, .. } = b;
        buffers[small_id.0 as usize].bytes = small;
        // A tensor that no kernel reads would silently be missing from the answer (a bias, a norm, an expert).
        let unread = |(i, t): &(usize, &TensorInfo)| t.name != "rope_freqs.weight" && !uploads.iter().any(|u| u.tensor == *i);
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
        Ok(Self { architecture, options, tuning, buffers, uploads, ids, groups, layers, embedding, head, output_norm })
    }

    /// Up to how many positions each decode pass serves, ascending; the last serves the whole context. A pass for longer
    /// sequences has more splits of the keys, which shorter ones would pay for; one a layer group that splits no further has none.
    pub fn decode_buckets(&self) -> Vec<u32> {
        let of_groups = |end: &u32| -> Vec<Splits> {
            let shapes = self
                .groups
                .iter()
                .map(|g| AttentionShape { window: g.window, ..self.architecture.attention(0, self.options.kv) });
            shapes.map(|shape| splits(self.options.tier, &shape, self.options.split_rule, *end)).collect()
        };
        let ends = bucket_ends(&self.options);
        let mut buckets: Vec<u32> = Vec::new();
        for end in ends {
            match buckets.last_mut() {
                Some(last) if of_groups(last) == of_groups(&end) => *last = end,
                _ => buckets.push(end),
            }
        }
        buckets
    }

    /// Whether decode leaves the norms after attention and feed-forward to the next matvec.
    pub(super) fn defers_norms(&self) -> bool {
        defers_norms(&self.architecture, &self.options)
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
        self.architecture.rope_global.factors.then(|| header.tensor("rope_freqs.weight")).flatten()
    }

    /// A strip of each rope table, for positions `start..start + positions`: (buffer, byte offset, words).
    pub fn rope_tables(&self, start: u32, positions: u32, factors: &[f32]) -> Vec<(BufferId, u64, Vec<u32>)> {
        let a = &self.architecture;
        let offset = u64::from(start) * u64::from(a.rot_dim / 2) * 8;
        let mut tables =
            vec![(self.ids.rope_global.id, offset, rope::table(&a.rope_global, a.rot_dim, start, positions, factors))];
        if a.window > 0 {
            tables.push((self.ids.rope_window.id, offset, rope::table(&a.rope_window, a.rot_dim, start, positions, &[])));
        }
        tables
    }

    /// Bytes of weights read for one token, as the roofline counts them: every matrix once, of the embedding one row.
    pub fn weight_bytes_per_token(&self) -> u64 {
        let bytes = |m: &Matrix| u64::from(m.rows) * u64::from(m.row_vec4) * 16;
        let layers = self.layers.iter().flat_map(|l| [&l.qkv, &l.out, &l.gate_up, &l.down]).flatten();
        let head = self.head.iter().map(|c| &c.matrix);
        let row = self.embedding.first().map_or(0, |c| u64::from(c.matrix.row_vec4) * 16);
        layers.chain(head).map(bytes).sum::<u64>() + row
    }

    /// Bytes of keys and values read for a token that sees `keys` keys, its own included.
    pub fn kv_bytes_per_token(&self, keys: u32) -> u64 {
        let of_layer = |layer| {
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

/// A CPU adapter dispatches for less than it costs to norm again in each workgroup.
fn defers_norms(architecture: &Architecture, options: &PlanOptions) -> bool {
    architecture.post_norms && !options.tier.cpu
}

struct Builder<'a> {
    header: &'a Header,
    options: PlanOptions,
    buffers: Vec<BufferSpec>,
    uploads: Vec<Upload>,
    small: u64,
    small_id: BufferId,
}

impl Builder<'_> {
    fn reserve(&mut self, label: impl Into<String>) -> BufferId {
        self.buffers.push(BufferSpec { label: label.into(), bytes: 0 });
        BufferId(self.buffers.len() as u32 - 1)
    }

    fn slot(&mut self, label: impl Into<String>, bytes: u64) -> Result<Slot> {
        let id = self.reserve(label);
        let bytes = bytes.max(16).next_multiple_of(16);
        self.buffers[id.0 as usize].bytes = bytes;
        self.within_binding(id)?;
        Ok(Slot { id, bytes })
    }

    fn within_binding(&self, id: BufferId) -> Result<()> {
        let BufferSpec { label, bytes } = &self.buffers[id.0 as usize];
        let max = self.options.tier.max_binding_bytes;
        if *bytes > max {
            return Err(err!(
                OutOfMemory,
                "{label} needs {bytes} bytes in one piece; this device binds at most {max}. Choose a smaller model or contextLength"
            ));
        }
        Ok(())
    }

    /// The tensor's index, checked against the shape that the architecture implies.
    fn tensor(&self, name: &str, shape: &[u64]) -> Result<usize> {
        let found = self.header.tensors.iter().position(|t| t.name == name);
        let index = found.ok_or_else(|| err!(BadFile, "tensor {name}: expected with shape {shape:?}, found none"))?;
        let tensor = &self.header.tensors[index];
        if tensor.shape != shape {
            return Err(err!(BadFile, "tensor {name}: expected shape {shape:?}, found {:?}", tensor.shape));
        }
        Ok(index)
    }

    /// A vector in the buffer of small things, at a place of its own.
    fn vector(&mut self, name: &str, len: u32) -> Result<Binding> {
        let start = self.small.next_multiple_of(BINDING_ALIGNMENT);
        self.small = start;
        self.append(name, len)?;
        Ok(Binding::read(self.small_id, start, self.small - start))
    }

    /// A vector right behind the last.
    fn append(&mut self, name: &str, len: u32) -> Result<()> {
        let tensor = self.tensor(name, &[len.into()])?;
        quant::supported(self.header.tensors[tensor].format)?;
        let (buffer, offset) = (self.small_id, self.small);
        self.uploads.push(Upload { tensor, rows: 0..1, kind: UploadKind::Vector, buffer, offset });
        self.small += u64::from(len) * 4;
        Ok(())
    }

    /// Matrices of `cols` weights a row, one after another in a buffer of their own.
    fn matrices(&mut self, label: String, cols: u32, parts: &[(String, u32)]) -> Result<Vec<Matrix>> {
        let buffer = self.reserve(label);
        let mut offset = 0;
        let mut matrices = Vec::new();
        for (name, rows) in parts {
            let tensor = self.tensor(name, &[cols.into(), (*rows).into()])?;
            let format = self.header.tensors[tensor].format;
            let quant = quant::supported(format)?;
            let row_bytes = quant.gpu_row_bytes(quant.check_cols(name, cols.into())?) as u64;
            let (base, row_vec4) = ((offset / 16) as u32, (row_bytes / 16) as u32);
            matrices.push(Matrix { format, buffer, base, rows: *rows, cols, row_vec4 });
            self.uploads.push(Upload { tensor, rows: 0..(*rows).into(), kind: UploadKind::Matrix, buffer, offset });
            offset += row_bytes * u64::from(*rows);
        }
        self.buffers[buffer.0 as usize].bytes = offset;
        self.within_binding(buffer)?;
        Ok(matrices)
    }

    /// A matrix in as few buffers as the binding limit allows.
    fn chunks(&mut self, name: &str, rows: u32, cols: u32) -> Result<Vec<Chunk>> {
        let tensor = self.tensor(name, &[cols.into(), rows.into()])?;
        let format = self.header.tensors[tensor].format;
        let quant = quant::supported(format)?;
        let row_bytes = quant.gpu_row_bytes(quant.check_cols(name, cols.into())?) as u64;
        // A multiple of 64 rows, so that a chunk's part of the logits starts at a multiple of 256 bytes.
        let most = (self.options.tier.max_binding_bytes / row_bytes.max(1)).min(u32::MAX.into()) as u32 / 64 * 64;
        if most == 0 {
            return Err(err!(OutOfMemory, "tensor {name}: 64 rows of {row_bytes} bytes exceed the device's binding limit"));
        }
        let mut chunks = Vec::new();
        for first_row in (0..rows).step_by(most as usize) {
            let n = most.min(rows - first_row);
            let buffer = self.slot(format!("{name} from row {first_row}"), row_bytes * u64::from(n))?.id;
            let span = u64::from(first_row)..u64::from(first_row + n);
            self.uploads.push(Upload { tensor, rows: span, kind: UploadKind::Matrix, buffer, offset: 0 });
            let row_vec4 = (row_bytes / 16) as u32;
            chunks.push(Chunk { first_row, matrix: Matrix { format, buffer, base: 0, rows: n, cols, row_vec4 } });
        }
        Ok(chunks)
    }

    fn groups(&mut self, a: &Architecture) -> Result<Vec<Group>> {
        let blocks = self.options.context_length / KV_BLOCK;
        let mut groups: Vec<Group> = Vec::new();
        for layer in 0..a.n_layers {
            let window = a.window_of(layer);
            if groups.iter().any(|g| g.window == window) {
                continue;
            }
            // A windowed group needs what one pass sees: the window before its first token, and the pass itself.
            let seen = (window + self.options.max_prefill).div_ceil(KV_BLOCK) + 1 + SPARE_BLOCKS;
            let pool_blocks = if window == 0 { blocks } else { blocks.min(seen) };
            let table = self.slot(format!("block table of window {window}"), u64::from(blocks) * 4)?;
            groups.push(Group { window, pool_blocks, table });
        }
        Ok(groups)
    }

    fn layer(&mut self, a: &Architecture, l: u32, groups: &[Group]) -> Result<Layer> {
        let name = |part: &str| format!("blk.{l}.{part}");
        let heads = a.n_heads * a.head_dim;
        let kv_heads = a.n_kv_heads * a.head_dim;
        let group = groups.iter().position(|g| g.window == a.window_of(l)).unwrap_or_default();
        let qk_norm = match a.qk_norm {
            false => None,
            true => {
                let q = self.vector(&name("attn_q_norm.weight"), a.head_dim)?;
                self.append(&name("attn_k_norm.weight"), a.head_dim)?;
                Some(Binding { bytes: q.bytes * 2, ..q })
            }
        };
        let post = |b: &mut Self, part: &str| match a.post_norms {
            true => b.vector(&name(part), a.n_embd).map(Some),
            false => Ok(None),
        };
        let qkv = [("attn_q.weight", heads), ("attn_k.weight", kv_heads), ("attn_v.weight", kv_heads)];
        let gate_up = [("ffn_gate.weight", a.n_ff), ("ffn_up.weight", a.n_ff)];
        let named = |parts: &[(&str, u32)]| parts.iter().map(|(part, rows)| (name(part), *rows)).collect::<Vec<_>>();
        let pool_bytes = u64::from(groups[group].pool_blocks) * a.attention(l, self.options.kv).kv_block_bytes();
        Ok(Layer {
            attn_norm: self.vector(&name("attn_norm.weight"), a.n_embd)?,
            ffn_norm: self.vector(&name("ffn_norm.weight"), a.n_embd)?,
            post_attn_norm: post(self, "post_attention_norm.weight")?,
            post_ffn_norm: post(self, "post_ffw_norm.weight")?,
            qk_norm,
            qkv: self.matrices(name("qkv"), a.n_embd, &named(&qkv))?,
            out: self.matrices(name("attn_output"), heads, &named(&[("attn_output.weight", a.n_embd)]))?,
            gate_up: self.matrices(name("gate and up"), a.n_embd, &named(&gate_up))?,
            down: self.matrices(name("ffn_down"), a.n_ff, &named(&[("ffn_down.weight", a.n_embd)]))?,
            kv: self.slot(name("KV cache"), pool_bytes)?,
            group,
            index: l,
        })
    }
}
