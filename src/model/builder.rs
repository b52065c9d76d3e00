//! What a plan is put together with: buffers by number, tensors checked against the shape that the architecture
//! implies, and where each goes.

use super::Architecture;
use super::architecture::HalfNorms;
use super::layer::{Linear, NormWeights, Norms};
use super::plan::{Chunk, Group, PlanOptions, SPARE_BLOCKS, Slot, Upload, UploadKind};
use crate::err;
use crate::error::Result;
use crate::gguf::Header;
use crate::kernels::attention::KV_BLOCK;
use crate::kernels::experts::Run;
use crate::kernels::norm::NormKind;
use crate::kernels::{BINDING_ALIGNMENT, Binding, BufferId, BufferSpec, Matrix};
use crate::quant;

/// A run of a tensor's rows.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub name: String,
    /// Rows that the tensor has.
    pub of: u32,
    pub first: u32,
    pub rows: u32,
}

impl Rows {
    /// All that the tensor has.
    pub fn all(name: String, rows: u32) -> Self {
        Self { name, of: rows, first: 0, rows }
    }
}

/// Gives out buffers and places in them, and remembers which tensor goes where.
pub(super) struct Builder<'a> {
    pub header: &'a Header,
    pub options: PlanOptions,
    pub buffers: Vec<BufferSpec>,
    pub uploads: Vec<Upload>,
    /// Bytes given out of the buffer of small things.
    pub small: u64,
    /// The buffer of small things: norms and the like, of all layers.
    pub small_id: BufferId,
    /// What the formats of some matrices are looked up in, where there are such.
    pub codebooks: Option<Slot>,
}

impl<'a> Builder<'a> {
    pub fn new(header: &'a Header, options: PlanOptions) -> Self {
        let (buffers, uploads, small_id) = (Vec::new(), Vec::new(), BufferId(0));
        let mut this = Self { header, options, buffers, uploads, small: 0, small_id, codebooks: None };
        this.small_id = this.reserve("norms");
        if header.tensors.iter().any(|t| quant::supported(t.format).is_ok_and(|q| q.codebooks)) {
            let slot = Slot { id: this.reserve("codebooks"), bytes: quant::codebooks::BYTES };
            this.buffers[slot.id.0 as usize].bytes = slot.bytes;
            this.codebooks = Some(slot);
        }
        this
    }

    pub fn reserve(&mut self, label: impl Into<String>) -> BufferId {
        self.buffers.push(BufferSpec { label: label.into(), bytes: 0 });
        BufferId(self.buffers.len() as u32 - 1)
    }

    pub fn slot(&mut self, label: impl Into<String>, bytes: u64) -> Result<Slot> {
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
        // Some converters leave out that there is one row.
        let trimmed = |shape: &[u64]| shape.iter().rposition(|n| *n != 1).map_or(0, |last| last + 1);
        if tensor.shape[..trimmed(&tensor.shape)] != shape[..trimmed(shape)] {
            return Err(err!(BadFile, "tensor {name}: expected shape {shape:?}, found {:?}", tensor.shape));
        }
        Ok(index)
    }

    /// A vector in the buffer of small things, at a place of its own.
    pub fn vector(&mut self, name: &str, len: u32) -> Result<Binding> {
        self.table(name, &[len])
    }

    /// A vector right behind the last.
    pub fn append(&mut self, name: &str, len: u32) -> Result<()> {
        self.append_floats(name, &[len])
    }

    /// A tensor of this shape, decoded to f32, in the buffer of small things.
    pub fn table(&mut self, name: &str, shape: &[u32]) -> Result<Binding> {
        let start = self.small.next_multiple_of(BINDING_ALIGNMENT);
        self.small = start;
        self.append_floats(name, shape)?;
        Ok(Binding::read(self.small_id, start, self.small - start))
    }

    fn append_floats(&mut self, name: &str, shape: &[u32]) -> Result<()> {
        let tensor = self.tensor(name, &shape.iter().map(|n| u64::from(*n)).collect::<Vec<_>>())?;
        quant::supported(self.header.tensors[tensor].format)?;
        let (buffer, offset) = (self.small_id, self.small);
        let rows = self.header.tensors[tensor].rows();
        self.uploads.push(Upload { tensor, rows: 0..rows, kind: UploadKind::Vector, buffer, offset });
        self.small += self.header.tensors[tensor].row_len() * rows * 4;
        Ok(())
    }

    /// Whether the file has this tensor.
    pub fn has(&self, name: &str) -> bool {
        self.header.tensors.iter().any(|t| t.name == name)
    }

    /// The weights of a norm of `len` numbers, and its bias where it is a LayerNorm and the file has one.
    pub fn norm(&mut self, name: &str, kind: NormKind, len: u32) -> Result<NormWeights> {
        let weights = self.vector(&format!("{name}.weight"), len)?;
        let bias = format!("{name}.bias");
        let bias = (kind == NormKind::Layer && self.has(&bias)).then(|| self.vector(&bias, len)).transpose()?;
        Ok(NormWeights { weights, bias })
    }

    /// The norms around half a block.
    pub fn norms(&mut self, a: &Architecture, names: &HalfNorms, layer: u32) -> Result<Norms> {
        let mut norm =
            |name: Option<&str>| name.map(|name| self.norm(&format!("blk.{layer}.{name}"), a.norm.kind, a.n_embd)).transpose();
        Ok(Norms { before: norm(names.before)?, added: norm(names.added)?, after: norm(names.after)? })
    }

    /// Matrices of `cols` weights a row, one after another in a buffer of their own, and their biases where the file has them.
    pub fn linear(&mut self, label: String, cols: u32, parts: &[Rows]) -> Result<Linear> {
        self.rows(label, cols, &parts.iter().map(|part| vec![part.clone()]).collect::<Vec<_>>())
    }

    /// As [`Self::linear`], each matrix put together from runs of rows, all in one format.
    pub fn rows(&mut self, label: String, cols: u32, parts: &[Vec<Rows>]) -> Result<Linear> {
        let buffer = self.reserve(label);
        let mut offset = 0;
        let mut matrices: Vec<Matrix> = Vec::new();
        for runs in parts {
            let base = (offset / 16) as u32;
            let mut matrix: Option<Matrix> = None;
            for Rows { name, of, first, rows } in runs {
                let tensor = self.tensor(name, &[cols.into(), (*of).into()])?;
                let format = self.header.tensors[tensor].format;
                let quant = quant::supported(format)?;
                let row_bytes = quant.gpu_row_bytes(quant.check_cols(name, cols.into())?) as u64;
                let row_vec4 = (row_bytes / 16) as u32;
                let codebooks = self.codebooks.map(Slot::read).filter(|_| quant.codebooks);
                let m = matrix.get_or_insert(Matrix { format, buffer, base, rows: 0, cols, row_vec4, codebooks });
                if m.format != format {
                    let (before, found) = (m.format.name(), format.name());
                    return Err(err!(UnsupportedQuant, "tensor {name}: expected {before} as its neighbour has, found {found}"));
                }
                m.rows += rows;
                let span = u64::from(*first)..u64::from(first + rows);
                self.uploads.push(Upload { tensor, rows: span, kind: UploadKind::Matrix, buffer, offset });
                offset += row_bytes * u64::from(*rows);
            }
            matrices.extend(matrix);
        }
        self.buffers[buffer.0 as usize].bytes = offset;
        self.within_binding(buffer)?;
        Ok(Linear { matrices, bias: self.biases(parts)?, exact: false, runs: parts.concat() })
    }

    /// The biases of whole matrices, one after another; zeros (as buffers are made) where one has none and another has.
    fn biases(&mut self, parts: &[Vec<Rows>]) -> Result<Option<Binding>> {
        let name = |part: &Rows| part.name.strip_suffix("weight").map(|name| format!("{name}bias"));
        let names: Vec<_> =
            parts.iter().flatten().map(|part| name(part).filter(|name| part.rows == part.of && self.has(name))).collect();
        if names.iter().all(Option::is_none) {
            return Ok(None);
        }
        let start = self.small.next_multiple_of(BINDING_ALIGNMENT);
        self.small = start;
        for (part, name) in parts.iter().flatten().zip(names) {
            match name {
                Some(name) => self.append(&name, part.rows)?,
                None => self.small += u64::from(part.rows) * 4,
            }
        }
        Ok(Some(Binding::read(self.small_id, start, self.small - start)))
    }

    /// A matrix in as few buffers as the binding limit allows.
    pub fn chunks(&mut self, name: &str, rows: u32, cols: u32) -> Result<Vec<Chunk>> {
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
            let codebooks = self.codebooks.map(Slot::read).filter(|_| quant.codebooks);
            chunks.push(Chunk { first_row, matrix: Matrix { format, buffer, base: 0, rows: n, cols, row_vec4, codebooks } });
        }
        Ok(chunks)
    }

    /// A mixture's matrices that are multiplied with the same input, `rows` by `cols` of each expert: in as few buffers as the
    /// binding limit allows, each with all matrices of a run of experts.
    pub fn experts(&mut self, names: &[String], rows: u32, cols: u32, experts: u32) -> Result<Vec<Run>> {
        let (rows_len, label) = (u64::from(rows), names.join(" and "));
        let mut parts = Vec::new();
        for name in names {
            let name = format!("{name}.weight");
            let tensor = self.tensor(&name, &[cols.into(), rows.into(), experts.into()])?;
            let quant = quant::supported(self.header.tensors[tensor].format)?;
            let row_bytes = quant.gpu_row_bytes(quant.check_cols(&name, cols.into())?) as u64;
            parts.push((tensor, quant, row_bytes));
        }
        let expert_bytes: u64 = parts.iter().map(|(_, _, row_bytes)| row_bytes * rows_len).sum();
        let most = (self.options.tier.max_binding_bytes / expert_bytes.max(1)).min(experts.into()) as u32;
        if most == 0 {
            let (label, max) = (&label, self.options.tier.max_binding_bytes);
            return Err(err!(OutOfMemory, "{label}: an expert has {expert_bytes} bytes; this device binds at most {max}"));
        }
        let each = experts.div_ceil(experts.div_ceil(most));
        let mut runs = Vec::new();
        for first in (0..experts).step_by(each as usize) {
            let n = each.min(experts - first);
            let buffer = self.slot(format!("{label} from expert {first}"), expert_bytes * u64::from(n))?.id;
            let (mut offset, mut matrices) = (0, Vec::new());
            for (tensor, quant, row_bytes) in &parts {
                let (format, codebooks) = (quant.format, self.codebooks.map(Slot::read).filter(|_| quant.codebooks));
                let (base, row_vec4) = ((offset / 16) as u32, (row_bytes / 16) as u32);
                matrices.push(Matrix { format, buffer, base, rows, cols, row_vec4, codebooks });
                let span = u64::from(first) * rows_len..u64::from(first + n) * rows_len;
                self.uploads.push(Upload { tensor: *tensor, rows: span, kind: UploadKind::Matrix, buffer, offset });
                offset += row_bytes * rows_len * u64::from(n);
            }
            runs.push(Run { matrices, first, experts: n });
        }
        Ok(runs)
    }

    /// The biases of such matrices, where the file has them: those of all experts, and then those of the next matrix.
    pub fn expert_biases(&mut self, names: &[String], rows: u32, experts: u32) -> Result<Option<Binding>> {
        let names: Vec<String> = names.iter().map(|name| format!("{name}.bias")).collect();
        if !names.iter().any(|name| self.has(name)) {
            return Ok(None);
        }
        let bytes = u64::from(rows) * u64::from(experts) * 4;
        let slot = self.slot(names.join(" and "), bytes * names.len() as u64)?;
        for (name, i) in names.iter().zip(0..) {
            let tensor = self.tensor(name, &[rows.into(), experts.into()])?;
            quant::supported(self.header.tensors[tensor].format)?;
            let (rows, kind) = (0..u64::from(experts), UploadKind::Vector);
            self.uploads.push(Upload { tensor, rows, kind, buffer: slot.id, offset: i * bytes });
        }
        Ok(Some(slot.read()))
    }

    pub fn groups(&mut self, a: &Architecture) -> Result<Vec<Group>> {
        let blocks = self.options.context_length.div_ceil(KV_BLOCK);
        let mut groups: Vec<Group> = Vec::new();
        for window in a.attentions(self.options.kv).map(|shape| shape.window) {
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
}
