//! Model directories of safetensors: their files are read as [`hf`] asks for them, and their weights row by row, turned into the
//! rows that a GGUF file would have. Memory is bounded by a chunk of rows, whatever the size of the model.

use super::files::{Files, need};
use super::source::ByteSource;
use crate::err;
use crate::error::Result;
use crate::gguf::{Header, TensorInfo, in_file};
use crate::hf::{self, Config, Quantize, Recipe, Rows, Stored, Texts};
use crate::quant;
use crate::tensor::Format;

const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";

/// Bytes of `config.json` and its like: a hundred times the usual.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Bytes of `tokenizer.json` and its like. The longest in use have 33 MB.
const MAX_TEXT_BYTES: u64 = 64 << 20;

/// Stored bytes that are turned at once; rows longer than this go one by one, where a head's rows are paired head by head.
const CHUNK_BYTES: u64 = 2 << 20;

/// The weights of a directory, read as the file that they would be.
pub struct Converted<S> {
    files: Vec<S>,
    /// Where each tensor is, its rows, and how they are made, by offset.
    tensors: Vec<(TensorInfo, Recipe)>,
    len: u64,
}

/// Whether a file's name means a directory of safetensors: the empty name is the directory itself.
pub(super) fn is_directory(entry: &str) -> bool {
    entry.is_empty() || entry.ends_with(".safetensors") || entry.ends_with(".json")
}

/// Opens a directory.
///
/// # Errors
/// Those of [`hf`], `network` for files that are missing or cannot be read. `unsupported-architecture` after `config.json` alone.
pub(super) async fn open<F: Files>(files: &F, quantize: Quantize) -> Result<(Header, Converted<F::Source>)> {
    let config = Config::parse(&need_text(files, "config.json", MAX_CONFIG_BYTES).await?)?;
    let (sources, stored) = weights(files).await?;
    let texts = Texts {
        tokenizer: need_text(files, "tokenizer.json", MAX_TEXT_BYTES).await?,
        config: text(files, "tokenizer_config.json", MAX_TEXT_BYTES).await?,
        generation: text(files, "generation_config.json", MAX_CONFIG_BYTES).await?,
        template: text(files, "chat_template.jinja", MAX_CONFIG_BYTES).await?,
    };
    let vocabulary = hf::vocabulary(&config, &texts)?;
    let (header, recipes) = hf::recipes(&config, stored, vocabulary, quantize)?;
    let tensors = header.tensors.iter().cloned().zip(recipes).collect();
    let len = header.file_len;
    Ok((header, Converted { files: sources, tensors, len }))
}

/// A small file whole; `None` where there is none.
async fn text<F: Files>(files: &F, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
    let Some(source) = files.open(name).await? else { return Ok(None) };
    if source.len() > most {
        return Err(err!(BadFile, "{name}: expected at most {most} bytes, found {}", source.len()));
    }
    let mut bytes = vec![0; source.len() as usize];
    source.read(0, &mut bytes).await?;
    Ok(Some(bytes))
}

async fn need_text<F: Files>(files: &F, name: &str, most: u64) -> Result<Vec<u8>> {
    text(files, name, most).await?.ok_or_else(|| err!(Network, "{name} is missing: a model in safetensors needs it"))
}

type Weights<S> = (Vec<S>, Vec<(String, Stored)>);

/// The files of the weights, and their tensors.
async fn weights<F: Files>(files: &F) -> Result<Weights<F::Source>> {
    let Some(index) = text(files, INDEX, MAX_TEXT_BYTES).await? else {
        let source = files.open(SINGLE).await?;
        let source = source.ok_or_else(|| err!(Network, "neither {SINGLE} nor {INDEX} is there"))?;
        let tensors = tensors(&source, SINGLE, 0).await?;
        return Ok((vec![source], tensors));
    };
    let (names, mut of_tensor) = hf::file_names(INDEX, &index)?;
    let (mut sources, mut all) = (Vec::with_capacity(names.len()), Vec::new());
    for (i, name) in names.iter().enumerate() {
        let source = need(files, name).await?;
        // What the index does not name is not of this model.
        for (tensor, stored) in tensors(&source, name, i).await? {
            if of_tensor.get(&tensor) == Some(&i) {
                of_tensor.remove(&tensor);
                all.push((tensor, stored));
            }
        }
        sources.push(source);
    }
    match of_tensor.iter().min() {
        None => Ok((sources, all)),
        Some((tensor, i)) => Err(err!(
            BadFile,
            "{}: expected tensor {tensor:.200}, as {INDEX} says, found none: it is a shard of another model",
            names[*i]
        )),
    }
}

/// The tensors of a file.
async fn tensors(source: &impl ByteSource, name: &str, number: usize) -> Result<Vec<(String, Stored)>> {
    let mut first = [0; 8];
    if source.len() < 8 {
        return Err(err!(BadFile, "{name}: expected a safetensors file, found {} bytes: it is truncated", source.len()));
    }
    source.read(0, &mut first).await?;
    let mut header = vec![0; hf::header_len(name, first, source.len())? as usize];
    source.read(8, &mut header).await?;
    hf::tensors(name, number, &header, source.len()).map_err(|e| if e.message.contains(name) { e } else { in_file(name, e) })
}

impl<S: ByteSource> ByteSource for Converted<S> {
    fn len(&self) -> u64 {
        self.len
    }

    /// Whole rows of one tensor, as loading reads them.
    async fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let i = self.tensors.partition_point(|(tensor, _)| tensor.offset <= offset);
        let found = i.checked_sub(1).and_then(|i| self.tensors.get(i));
        let (tensor, recipe) = found.ok_or_else(|| err!(Internal, "reading at {offset}, before every tensor"))?;
        let row_bytes = tensor.bytes / tensor.rows().max(1);
        let start = offset - tensor.offset;
        if !start.is_multiple_of(row_bytes)
            || !(out.len() as u64).is_multiple_of(row_bytes)
            || start + out.len() as u64 > tensor.bytes
        {
            return Err(err!(
                Internal,
                "tensor {}: reading {} bytes at {start}, which are not whole rows",
                tensor.name,
                out.len()
            ));
        }
        if recipe.parts.is_empty() {
            // Values that were made hold one row.
            return quant::quantize(tensor.format, &recipe.values, out);
        }
        if tensor.shape.len() == 1 {
            return self.vector(tensor.format, recipe, out).await;
        }
        let part_rows = recipe.parts[0].shape[0];
        let (mut row, mut out) = (start / row_bytes, out);
        let mut chunk = Vec::new();
        while !out.is_empty() {
            let part = &recipe.parts[(row / part_rows) as usize];
            let in_part = row % part_rows;
            let left = (out.len() as u64 / row_bytes).min(part_rows - in_part);
            let rows = self.rows(part, recipe, in_part, left, &mut chunk).await?;
            let (now, later) = out.split_at_mut((rows.count * row_bytes) as usize);
            rows.turn(recipe, tensor.format, &chunk, now)?;
            (row, out) = (row + rows.count, later);
        }
        Ok(())
    }
}

/// Rows of a part that were read, and how those that are wanted lie among them.
struct Chunk {
    stored: Format,
    /// The first row that was read.
    first: u64,
    /// The first row that is wanted, and how many.
    from: u64,
    count: u64,
}

impl Chunk {
    /// The stored row that becomes row `row`.
    fn stored_row(&self, rows: Rows, row: u64) -> u64 {
        match rows {
            Rows::AsStored => row,
            Rows::Pairs(head) => row / head * head + row % head % 2 * (head / 2) + row % head / 2,
        }
    }

    /// Turns what was read into rows of `format`.
    fn turn(&self, recipe: &Recipe, format: Format, chunk: &[u8], out: &mut [u8]) -> Result<()> {
        let cols = recipe.cols as usize;
        let bytes = cols * self.stored.block_bytes() as usize;
        let decoder = quant::supported(self.stored)?;
        let mut floats = vec![0f32; cols];
        let row_bytes = out.len() / self.count as usize;
        for (row, out) in (self.from..).zip(out.chunks_exact_mut(row_bytes)) {
            let at = (self.stored_row(recipe.rows, row) - self.first) as usize * bytes;
            if format == self.stored && recipe.add == 0.0 {
                out.copy_from_slice(&chunk[at..at + bytes]);
                continue;
            }
            decoder.dequantize(&chunk[at..at + bytes], &mut floats)?;
            quant::quantize(format, &floats, out)?;
        }
        Ok(())
    }
}

impl<S: ByteSource> Converted<S> {
    /// Reads stored rows for `left` rows from `from` on of a part into `chunk`: as many as a chunk holds.
    async fn rows(&self, part: &Stored, recipe: &Recipe, from: u64, left: u64, chunk: &mut Vec<u8>) -> Result<Chunk> {
        let stored = float_of(part)?;
        let bytes = recipe.cols * stored.block_bytes();
        let mut count = left.min((CHUNK_BYTES / bytes).max(1));
        let (first, end) = match recipe.rows {
            Rows::AsStored => (from, from + count),
            // Of heads all rows are needed, even for a few.
            Rows::Pairs(head) => {
                let end = (from + count).next_multiple_of(head);
                // To the end of a head, so that it is read once.
                count = count.max(left.min((end - from).max(1)));
                (from / head * head, (from + count).next_multiple_of(head))
            }
        };
        chunk.resize(((end - first) * bytes) as usize, 0);
        self.file(part)?.read(part.offset + first * bytes, chunk).await?;
        Ok(Chunk { stored, first, from, count })
    }

    /// A vector: norm weights, biases.
    async fn vector(&self, format: Format, recipe: &Recipe, out: &mut [u8]) -> Result<()> {
        let part = &recipe.parts[0];
        let stored = float_of(part)?;
        let mut bytes = vec![0; part.bytes as usize];
        self.file(part)?.read(part.offset, &mut bytes).await?;
        let mut floats = vec![0f32; recipe.cols as usize];
        quant::supported(stored)?.dequantize(&bytes, &mut floats)?;
        let order = Chunk { stored, first: 0, from: 0, count: recipe.cols };
        let made: Vec<f32> = (0..recipe.cols).map(|i| floats[order.stored_row(recipe.rows, i) as usize] + recipe.add).collect();
        quant::quantize(format, &made, out)
    }

    fn file(&self, part: &Stored) -> Result<&S> {
        self.files.get(part.file).ok_or_else(|| err!(Internal, "file {} of {}", part.file, self.files.len()))
    }
}

/// The format of a part; recipes are made of floats only.
fn float_of(part: &Stored) -> Result<Format> {
    match &part.format {
        hf::StoredFormat::Float(format) => Ok(*format),
        hf::StoredFormat::Other(name) => Err(err!(Internal, "a recipe of {name}")),
    }
}
