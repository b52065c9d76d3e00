//! The header as a whole: magic, version, counts, metadata, tensor table, and the checks that tie them together.

use super::limits::{MAX_ALIGNMENT, MAX_DIMS, MAX_NAME_BYTES, MAX_TENSORS};
use super::reader::Reader;
use super::{Metadata, Step, values};
use crate::err;
use crate::error::Result;
use crate::tensor::Format;

/// Where files without `general.alignment` align their tensors, in bytes.
const DEFAULT_ALIGNMENT: u64 = 32;

/// The least that a tensor's entry takes: name length, dimension count, one dimension, type, offset.
const MIN_TENSOR_BYTES: u64 = 8 + 4 + 8 + 4 + 8;

/// One tensor of the table. Its bytes lie wholly inside the file and overlap no other tensor's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// The name, such as `blk.0.attn_q.weight`; unique in the file.
    pub name: String,
    /// The element format.
    pub format: Format,
    /// One to four dimensions, none zero, ne0 (the length of a row) first; a row is a whole number of blocks.
    pub shape: Vec<u64>,
    /// Where its first byte is, from the start of the file.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

impl TensorInfo {
    /// Weights in one row (GGUF's ne0).
    pub fn row_len(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }

    /// How many rows there are: the product of all dimensions but the first.
    pub fn rows(&self) -> u64 {
        self.shape.iter().skip(1).product()
    }
}

/// A file's header. What it promises has been checked: see [`super::parse`].
#[derive(Debug, Clone)]
pub struct Header {
    /// GGUF's version, 2 or 3.
    pub version: u32,
    /// All key/value pairs.
    pub metadata: Metadata,
    /// All tensors in the file's order.
    pub tensors: Vec<TensorInfo>,
    /// Alignment of the tensors in bytes, a power of two (`general.alignment`, or 32).
    pub alignment: u64,
    /// Where tensor data begin, in bytes from the start of the file.
    pub data_offset: u64,
    /// Bytes of the whole file.
    pub file_len: u64,
    /// Indices into `tensors`, sorted by name.
    by_name: Vec<u32>,
}

impl Header {
    /// The header of a file that is not there: tensors (name, format, shape with ne0 first) at offsets as a writer of files
    /// would choose them, from 0 on.
    ///
    /// # Errors
    /// `bad-file` where a name comes twice or a row is no whole number of blocks.
    pub fn lay_out(metadata: Metadata, tensors: Vec<(String, Format, Vec<u64>)>) -> Result<Self> {
        let mut end = 0;
        let place = |(name, format, shape): (String, Format, Vec<u64>)| {
            let bytes = size_in_bytes(&name, format, &shape)?;
            let offset = u64::next_multiple_of(end, DEFAULT_ALIGNMENT);
            end = offset + bytes;
            Ok(TensorInfo { name, format, shape, offset, bytes })
        };
        let tensors = tensors.into_iter().map(place).collect::<Result<Vec<_>>>()?;
        let by_name = index(&tensors)?;
        Ok(Self { version: 3, metadata, tensors, alignment: DEFAULT_ALIGNMENT, data_offset: 0, file_len: end, by_name })
    }

    /// Makes the index anew after tensors were added. Error: `bad-file` where a name comes twice.
    pub(super) fn reindex(&mut self) -> Result<()> {
        self.by_name = index(&self.tensors)?;
        Ok(())
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        let at = self.by_name.binary_search_by(|&i| self.tensors[i as usize].name.as_str().cmp(name)).ok()?;
        self.tensors.get(self.by_name[at] as usize)
    }
}

/// Reads a whole header.
pub(super) fn read(reader: &mut Reader) -> Step<Header> {
    let version = magic_and_version(reader)?;
    let tensor_count = reader.u64(|| "header, its tensor count".into())?;
    let metadata_count = reader.u64(|| "header, its metadata count".into())?;
    if tensor_count > MAX_TENSORS || tensor_count.saturating_mul(MIN_TENSOR_BYTES) > reader.file_left() {
        let most = MAX_TENSORS.min(reader.file_left() / MIN_TENSOR_BYTES);
        return Err(err!(BadFile, "header: expected at most {most} tensors in this file, found a count of {tensor_count}").into());
    }
    let metadata = values::read(reader, metadata_count)?;
    let alignment = alignment(&metadata)?;
    let mut tensors = Vec::with_capacity((tensor_count as usize).min(reader.held() / MIN_TENSOR_BYTES as usize));
    for i in 0..tensor_count {
        tensors.push(tensor(reader, i, tensor_count)?);
    }
    let data_offset = reader.offset().next_multiple_of(alignment); // no overflow: both are small
    for tensor in &mut tensors {
        place(tensor, alignment, data_offset, reader.file_len)?;
    }
    let by_name = index(&tensors)?;
    check_overlaps(&tensors)?;
    Ok(Header { version, metadata, tensors, alignment, data_offset, file_len: reader.file_len, by_name })
}

fn magic_and_version(reader: &mut Reader) -> Step<u32> {
    let magic = reader.take(4, || "header, its magic".into())?;
    if magic != b"GGUF" {
        let looks_like = match magic {
            b"FUGG" => ": it looks like a byte-swapped GGUF file",
            b"ggml" | b"lmgg" | b"ggmf" | b"fmgg" | b"ggjt" | b"tjgg" | b"ggla" | b"algg" => {
                ": it looks like a GGML file from before GGUF; convert the model again"
            }
            b"vers" => ": it looks like a Git LFS pointer; fetch the file itself",
            b"PK\x03\x04" => ": it looks like a zip archive or a PyTorch checkpoint; convert it to GGUF",
            b"<!DO" | b"<!do" | b"<htm" | b"<HTM" => ": it looks like a web page; check the address",
            _ => "",
        };
        return Err(err!(BadFile, "header: expected the magic \"GGUF\", found \"{}\"{looks_like}", magic.escape_ascii()).into());
    }
    let version = reader.u32(|| "header, its version".into())?;
    match version {
        2 | 3 => Ok(version),
        1 => Err(err!(BadFile, "header: expected GGUF version 2 or 3, found version 1; convert the model again").into()),
        // A version is a small number: one whose low half is empty was written high byte first.
        v if v & 0xffff == 0 && v != 0 => Err(err!(
            BadFile,
            "header: expected a little-endian GGUF file, found a big-endian one of version {}; convert it to little-endian",
            v.swap_bytes()
        )
        .into()),
        v => Err(err!(BadFile, "header: expected GGUF version 2 or 3, found version {v}").into()),
    }
}

fn alignment(metadata: &Metadata) -> Result<u64> {
    let alignment = metadata.uint("general.alignment")?.unwrap_or(DEFAULT_ALIGNMENT);
    if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
        return Err(err!(
            BadFile,
            "metadata general.alignment: expected a power of two of at most {MAX_ALIGNMENT}, found {alignment}"
        ));
    }
    Ok(alignment)
}

/// Reads one entry of the tensor table; its `offset` is still the one from the start of the tensor data.
fn tensor(reader: &mut Reader, i: u64, count: u64) -> Step<TensorInfo> {
    let name = reader.string(MAX_NAME_BYTES, || format!("name of tensor {i} of {count}"))?;
    if name.is_empty() {
        return Err(err!(BadFile, "tensor {i} of {count}: expected a name, found an empty one").into());
    }
    let dims = reader.u32(|| format!("tensor {name}, its dimension count"))?;
    if dims == 0 || dims > MAX_DIMS {
        return Err(err!(BadFile, "tensor {name}: expected 1 to {MAX_DIMS} dimensions, found {dims}").into());
    }
    let mut shape = Vec::with_capacity(dims as usize);
    for d in 0..dims {
        let size = reader.u64(|| format!("tensor {name}, its dimension {d}"))?;
        if size == 0 {
            return Err(err!(BadFile, "tensor {name}: expected dimensions of at least 1, found 0 as dimension {d}").into());
        }
        shape.push(size);
    }
    let number = reader.u32(|| format!("tensor {name}, its type"))?;
    let offset = reader.u64(|| format!("tensor {name}, its offset"))?;
    let format = Format::from_id(number).ok_or_else(|| {
        let known: Vec<String> = Format::TABLE.iter().map(|row| format!("{} ({})", row.1, row.0 as u32)).collect();
        err!(UnsupportedQuant, "tensor {name}: expected a type among {}, found number {number}", known.join(", "))
    })?;
    let bytes = size_in_bytes(name, format, &shape)?;
    Ok(TensorInfo { name: name.to_owned(), format, shape, offset, bytes })
}

fn size_in_bytes(name: &str, format: Format, shape: &[u64]) -> Result<u64> {
    let block_len = format.block_len();
    let row_len = shape.first().copied().unwrap_or(1);
    if !row_len.is_multiple_of(block_len) {
        return Err(err!(
            BadFile,
            "tensor {name}: expected rows of a multiple of {block_len} weights, as {} has in a block, found {row_len}",
            format.name()
        ));
    }
    let weights = shape.iter().try_fold(1u64, |product, size| product.checked_mul(*size));
    weights.and_then(|n| (n / block_len).checked_mul(format.block_bytes())).ok_or_else(|| {
        err!(BadFile, "tensor {name}: expected a size that fits 64 bits, found the shape {shape:?} of {}", format.name())
    })
}

/// Makes the tensor's offset absolute, and checks that all of it lies inside the file.
fn place(tensor: &mut TensorInfo, alignment: u64, data_offset: u64, file_len: u64) -> Result<()> {
    let TensorInfo { name, bytes, offset, .. } = tensor;
    if *offset % alignment != 0 {
        return Err(err!(BadFile, "tensor {name}: expected an offset that is a multiple of {alignment}, found {offset}"));
    }
    match data_offset.checked_add(*offset).and_then(|start| Some((start, start.checked_add(*bytes)?))) {
        Some((start, end)) if end <= file_len => {
            *offset = start;
            Ok(())
        }
        Some((start, _)) => Err(err!(
            BadFile,
            "tensor {name}: expected {bytes} bytes at offset {start}, found a file of {file_len}: it is truncated or damaged"
        )),
        None => Err(err!(BadFile, "tensor {name}: expected an offset inside the file of {file_len} bytes, found {offset}")),
    }
}

/// Indices sorted by name, and that no name comes twice.
fn index(tensors: &[TensorInfo]) -> Result<Vec<u32>> {
    let mut by_name: Vec<u32> = (0..tensors.len() as u32).collect(); // MAX_TENSORS fits
    by_name.sort_unstable_by(|&a, &b| tensors[a as usize].name.cmp(&tensors[b as usize].name));
    for pair in by_name.windows(2) {
        let name = &tensors[pair[0] as usize].name;
        if *name == tensors[pair[1] as usize].name {
            return Err(err!(BadFile, "tensor {name}: expected every name once, found it twice"));
        }
    }
    Ok(by_name)
}

fn check_overlaps(tensors: &[TensorInfo]) -> Result<()> {
    let mut by_offset: Vec<&TensorInfo> = tensors.iter().collect();
    by_offset.sort_unstable_by_key(|tensor| tensor.offset);
    for pair in by_offset.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        let end = first.offset + first.bytes; // no overflow: inside the file
        if end > second.offset {
            return Err(err!(
                BadFile,
                "tensor {}: expected to begin at or after offset {end}, where {} ends, found offset {}",
                second.name,
                first.name,
                second.offset
            ));
        }
    }
    Ok(())
}
