//! LoRA adapters (Hu et al. 2021, arXiv 2106.09685): `y = W·x + scale · B·(A·x)`, with A and B of a low rank.
//!
//! The weights stay as they are; A and B are a side path of two multiplications behind each matrix that an adapter
//! changes. All A of one [`Linear`] lie one after another, and its B in one matrix whose blocks meet only their own
//! A's results (q, k and v: three blocks), so a linear costs two dispatches and not two a matrix. A and B are f32 on the
//! device, with the adapter's own factor alpha / rank in B.
//!
//! Adapters are told from models by `general.type`; their tensors are named after the model's, with `.lora_a` and
//! `.lora_b` behind.

use std::collections::BTreeMap;
use std::ops::Range;

use super::layer::{Layer, Linear};
use super::plan::{Plan, Slot};
use crate::err;
use crate::error::Result;
use crate::gguf::{Header, TensorInfo};
use crate::kernels::{BufferId, BufferSpec, Matrix};
use crate::quant;
use crate::tensor::Format;

/// The highest rank of one matrix. Ranks in use are 4 to 256.
const MAX_RANK: u64 = 1024;

/// The largest factor alpha / rank. Those in use are 0.1 to 16.
const MAX_FACTOR: f32 = 1e4;

/// Adapters that a model may hold: a bound on what is kept of requests that name ever new ones.
const MAX_ADAPTERS: usize = 16;

/// What an adapter adds to one linear.
#[derive(Debug, Clone)]
pub(super) struct Side {
    /// \[rank, cols\]: rank is that of all matrices together, in whole groups of 32.
    pub a: Linear,
    /// \[rows, rank\]
    pub b: Linear,
}

/// An adapter on the device.
#[derive(Debug, Clone, Default)]
pub(super) struct Adapter {
    /// By the buffer of the linear's weights.
    sides: BTreeMap<BufferId, Side>,
}

/// Where an adapter's tensor goes.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterUpload {
    /// Index in the adapter's tensors.
    pub tensor: usize,
    /// Which of its rows.
    pub rows: Range<u64>,
    /// What it is multiplied with.
    pub factor: f32,
    /// The buffer, of f32.
    pub buffer: BufferId,
    /// Where the first number of the first row goes, in numbers.
    pub offset: u64,
    /// From one row to the next, in numbers.
    pub stride: u64,
}

/// A matrix of a linear and what an adapter has for it.
struct Pair<'a> {
    a: (usize, &'a TensorInfo),
    b: (usize, &'a TensorInfo),
    factor: f32,
    /// Whether a linear has it.
    used: bool,
}

impl Plan {
    /// Makes room for an adapter, the next in number: the new buffers are at the end of `buffers`.
    ///
    /// # Errors
    /// `bad-file` for a file that is no LoRA adapter or one for another model, naming the tensor that does not fit;
    /// `unsupported-architecture` for changes of what is no ordinary matrix (embeddings, experts); `out-of-memory`.
    pub fn add_adapter(&mut self, header: &Header) -> Result<Vec<AdapterUpload>> {
        if self.adapters.len() >= MAX_ADAPTERS {
            return Err(err!(BadOption, "adapters: a model holds at most {MAX_ADAPTERS}"));
        }
        let mut pairs = self.pairs(header)?;
        let (mut adapter, mut uploads) = (Adapter::default(), Vec::new());
        let linears: Vec<Linear> = self.layers.iter().flat_map(Layer::linears).cloned().collect();
        let mut most = 0;
        for linear in &linears {
            if let Some(side) = self.side(linear, &mut pairs, &mut uploads)? {
                most = most.max(side.a.matrices[0].rows);
                adapter.sides.insert(linear.matrices[0].buffer, side);
            }
        }
        if let Some((name, _)) = pairs.iter().find(|(_, pair)| !pair.used) {
            let elsewhere = ["token_embd", "output", "_exps", "_shexp", "ffn_gate_inp"].iter().any(|part| name.contains(part));
            return Err(match elsewhere {
                true => {
                    err!(UnsupportedArchitecture, "adapter: it changes {name}; embeddings, heads and experts cannot be changed")
                }
                false => err!(BadFile, "adapter: this model has no matrix {name} to change: the adapter is for another model"),
            });
        }
        // The widest feed-forward before its activation, and the products with A.
        let wide = linears.iter().map(|l| l.matrices.iter().map(|m| m.rows).sum()).max().unwrap_or(0);
        self.ids.low_rank = self.grown("products with A", self.ids.low_rank, most)?;
        self.ids.wide = self.grown("gate and up before the activation", self.ids.wide, wide)?;
        self.adapters.push(adapter);
        Ok(uploads)
    }

    /// What the chosen adapters add to a linear, each with its scale.
    pub(super) fn sides(&self, linear: &Linear) -> Vec<(Side, f32)> {
        let Some(first) = linear.matrices.first() else { return Vec::new() };
        let side = |(index, scale): &(usize, f32)| Some((self.adapters.get(*index)?.sides.get(&first.buffer)?.clone(), *scale));
        self.chosen.iter().filter_map(side).collect()
    }

    /// How many adapters there are.
    pub fn adapters(&self) -> usize {
        self.adapters.len()
    }

    /// The tensors of an adapter by the name of the model's tensor, in pairs that were found to fit each other.
    fn pairs<'a>(&self, header: &'a Header) -> Result<BTreeMap<&'a str, Pair<'a>>> {
        let meta = &header.metadata;
        let kind = (meta.string("general.type")?, meta.string("adapter.type")?);
        if kind != (Some("adapter"), Some("lora")) {
            let found = kind.1.or(kind.0).unwrap_or("neither");
            return Err(err!(BadFile, "adapter: expected general.type adapter and adapter.type lora, found {found}"));
        }
        let (of, name) = (meta.string("general.architecture")?.unwrap_or_default(), &self.architecture.name);
        if of != name {
            return Err(err!(BadFile, "adapter: it is for architecture {of:?}, this model is {name:?}"));
        }
        let alpha = meta.float("adapter.lora.alpha")?.unwrap_or(0.0);
        if !alpha.is_finite() {
            return Err(err!(BadFile, "adapter.lora.alpha: expected a number, found {alpha}"));
        }
        let mut pairs = BTreeMap::new();
        for (index, a) in header.tensors.iter().enumerate() {
            let Some(name) = a.name.strip_suffix(".lora_a") else {
                let partner = a.name.strip_suffix(".lora_b").map(|name| format!("{name}.lora_a"));
                if partner.as_ref().is_none_or(|partner| header.tensor(partner).is_none()) {
                    return Err(err!(BadFile, "adapter: tensor {} is not one of a pair .lora_a and .lora_b", a.name));
                }
                continue;
            };
            let b_name = format!("{name}.lora_b");
            let Some((b_index, b)) = header.tensors.iter().enumerate().find(|(_, t)| t.name == b_name) else {
                return Err(err!(BadFile, "adapter: tensor {b_name} is missing"));
            };
            let rank = a.rows();
            if rank != b.row_len() || rank > MAX_RANK || a.shape.len() > 2 || b.shape.len() > 2 {
                return Err(err!(
                    BadFile,
                    "adapter: {name}: expected two matrices of one rank up to {MAX_RANK}, found shapes {:?} and {:?}",
                    a.shape,
                    b.shape
                ));
            }
            for tensor in [a, b] {
                quant::supported(tensor.format)?;
            }
            let factor = if alpha == 0.0 { 1.0 } else { (alpha / rank as f64) as f32 };
            if !(factor.is_finite() && factor.abs() < MAX_FACTOR) {
                return Err(err!(
                    BadFile,
                    "adapter.lora.alpha: expected at most {MAX_FACTOR} times the rank {rank}, found {alpha}"
                ));
            }
            pairs.insert(name, Pair { a: (index, a), b: (b_index, b), factor, used: false });
        }
        if pairs.is_empty() {
            return Err(err!(BadFile, "adapter: it has no tensors"));
        }
        Ok(pairs)
    }

    /// Makes room for what an adapter has for a linear.
    fn side(
        &mut self,
        linear: &Linear,
        pairs: &mut BTreeMap<&str, Pair<'_>>,
        uploads: &mut Vec<AdapterUpload>,
    ) -> Result<Option<Side>> {
        let Some(first) = linear.matrices.first() else { return Ok(None) };
        let (cols, rows) = (u64::from(first.cols), linear.matrices.iter().map(|m| u64::from(m.rows)).sum::<u64>());
        let mut ranks: BTreeMap<&str, u64> = BTreeMap::new(); // where each tensor's part of the rank begins
        let mut rank = 0;
        for run in &linear.runs {
            let Some(pair) = pairs.get_mut(run.name.as_str()).filter(|_| !ranks.contains_key(run.name.as_str())) else {
                continue;
            };
            let (its_cols, its_rows) = (pair.a.1.row_len(), pair.b.1.rows());
            if (its_cols, its_rows) != (cols, run.of.into()) {
                return Err(err!(
                    BadFile,
                    "adapter: {} has {} rows of {cols} here, the adapter is for {its_rows} of {its_cols}: it is for another model",
                    run.name,
                    run.of
                ));
            }
            pair.used = true;
            ranks.insert(&run.name, rank);
            rank += pair.a.1.rows();
        }
        if ranks.is_empty() {
            return Ok(None);
        }
        let rank = rank.next_multiple_of(quant::GROUP as u64);
        let label = |part: &str| format!("adapter of {}, {part}", linear.runs[0].name);
        let (a, b) = (self.f32_matrix(label("A"), rank, cols)?, self.f32_matrix(label("B"), rows, rank)?);
        for (name, at) in &ranks {
            let pair = &pairs[name];
            let (tensor, rows) = (pair.a.0, 0..pair.a.1.rows());
            uploads.push(AdapterUpload {
                tensor,
                rows,
                factor: 1.0,
                buffer: a.matrices[0].buffer,
                offset: at * cols,
                stride: cols,
            });
        }
        let mut row = 0;
        for run in &linear.runs {
            if let Some(at) = ranks.get(run.name.as_str()) {
                let Pair { b: (tensor, _), factor, .. } = pairs[run.name.as_str()];
                let rows = u64::from(run.first)..u64::from(run.first + run.rows);
                let (buffer, offset) = (b.matrices[0].buffer, row * rank + at);
                uploads.push(AdapterUpload { tensor, rows, factor, buffer, offset, stride: rank });
            }
            row += u64::from(run.rows);
        }
        Ok(Some(Side { a, b }))
    }

    /// A matrix of zeros in a buffer of its own.
    fn f32_matrix(&mut self, label: String, rows: u64, cols: u64) -> Result<Linear> {
        let buffer = self.buffer(label, rows * cols * 4)?;
        let (rows, cols) = (rows as u32, cols as u32); // bounded by the binding
        let matrix = Matrix { format: Format::F32, buffer, base: 0, rows, cols, row_vec4: cols / 4, codebooks: None };
        Ok(Linear { matrices: vec![matrix], bias: None, exact: false, runs: Vec::new() })
    }

    /// A scratch buffer of so many numbers a token: the present one where that is enough.
    fn grown(&mut self, label: &str, present: Slot, width: u32) -> Result<Slot> {
        let bytes = u64::from(width) * 4 * u64::from(self.options.max_prefill.max(1));
        if present.bytes >= bytes {
            return Ok(present);
        }
        Ok(Slot { id: self.buffer(label.into(), bytes)?, bytes })
    }

    fn buffer(&mut self, label: String, bytes: u64) -> Result<BufferId> {
        let max = self.options.tier.max_binding_bytes;
        if bytes > max {
            return Err(err!(OutOfMemory, "{label} needs {bytes} bytes in one piece; this device binds at most {max}"));
        }
        self.buffers.push(BufferSpec { label, bytes });
        Ok(BufferId(self.buffers.len() as u32 - 1))
    }
}
