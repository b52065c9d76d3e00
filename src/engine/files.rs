//! Models as people have them: one file, several that belong together, or a directory. Whatever it is, it becomes one [`Header`] and one
//! [`ByteSource`] whose offsets the header's tensors have, and loading knows no more of it.

use super::directory::{self, Converted};
use super::source::{ByteSource, read_part};
use crate::err;
use crate::error::Result;
use crate::gguf::{Header, ShardName, in_file, merge, shard_count};
use crate::hf::Quantize;

/// The extension of GGUF files.
const GGUF: &str = ".gguf";

/// A place where a model's files are found by name: a folder, addresses, files that were dropped on a page.
#[allow(async_fn_in_trait)] // no Send bound is wanted
pub trait Files {
    /// What an open file is read through.
    type Source: ByteSource;

    /// Opens a file of this place; `None` where it has none of this name. Errors: `network`, `aborted`.
    async fn open(&self, name: &str) -> Result<Option<Self::Source>>;
}

/// Several sources, one behind the other.
pub struct Joined<S> {
    /// Each with the offset of its first byte.
    parts: Vec<(u64, S)>,
    len: u64,
}

impl<S: ByteSource> Joined<S> {
    /// These sources in order.
    pub fn new(sources: Vec<S>) -> Self {
        let mut len = 0;
        let mut parts = Vec::with_capacity(sources.len());
        for source in sources {
            let start = len;
            len += source.len(); // `merge` bounds the sum
            parts.push((start, source));
        }
        Self { parts, len }
    }
}

impl<S: ByteSource> ByteSource for Joined<S> {
    fn len(&self) -> u64 {
        self.len
    }

    async fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let (mut offset, mut out) = (offset, out);
        // The last part that begins at or before the offset.
        let mut i = self.parts.partition_point(|(start, _)| *start <= offset).saturating_sub(1);
        while !out.is_empty() {
            let (start, source) = self.parts.get(i).ok_or_else(|| err!(Internal, "reading at {offset} of {}", self.len))?;
            let here = usize::try_from(start + source.len() - offset).unwrap_or(usize::MAX).min(out.len());
            let (now, later) = out.split_at_mut(here);
            source.read(offset - start, now).await?;
            (offset, out, i) = (offset + here as u64, later, i + 1);
        }
        Ok(())
    }
}

/// Where a model's weights are read.
pub enum ModelSource<S> {
    /// From GGUF files.
    Gguf(Joined<S>),
    /// From safetensors, turned on the way.
    Safetensors(Box<Converted<S>>),
}

impl<S: ByteSource> ByteSource for ModelSource<S> {
    fn len(&self) -> u64 {
        match self {
            Self::Gguf(source) => source.len(),
            Self::Safetensors(source) => source.len(),
        }
    }

    async fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match self {
            Self::Gguf(source) => source.read(offset, out).await,
            Self::Safetensors(source) => source.read(offset, out).await,
        }
    }
}

/// Opens the model that the file `entry` is, or is a part of: any shard of a split GGUF file finds the others by their names, and
/// `config.json`, a `.safetensors` file or the empty name stand for the directory. `quantize`: what weights of safetensors become,
/// Q8_0 where it is not given.
///
/// # Errors
/// `bad-option` for `quantize` where the weights have their format already; `network` where a file is missing or cannot be read; `bad-file`, naming the file, where one is damaged or not of this model;
/// `unsupported-quant`, and for a directory `unsupported-architecture` and `unsupported-tokenizer`. All before any weight is read.
pub async fn open_model<F: Files>(
    files: &F,
    entry: &str,
    quantize: Option<Quantize>,
) -> Result<(Header, ModelSource<F::Source>)> {
    if directory::is_directory(entry) {
        let (header, source) = directory::open(files, quantize.unwrap_or_default()).await?;
        return Ok((header, ModelSource::Safetensors(Box::new(source))));
    }
    if quantize.is_some() {
        return Err(err!(BadOption, "quantize: expected it for weights in safetensors only; those of {entry} have their format"));
    }
    let (header, source) = open_gguf(files, entry).await?;
    Ok((header, ModelSource::Gguf(source)))
}

async fn open_gguf<F: Files>(files: &F, entry: &str) -> Result<(Header, Joined<F::Source>)> {
    let first = need(files, entry).await?;
    let header = read_part(&first).await?;
    let count = shard_count(&header)?;
    if count == 1 {
        return Ok((header, Joined::new(vec![first])));
    }
    let name = ShardName::parse(entry, GGUF).filter(|name| name.count == count).ok_or_else(|| {
        let expected = format!("NAME-00001-of-{count:05}{GGUF}");
        err!(BadFile, "{entry}: the model is split into {count} files; expected this one to be named as in {expected}")
    })?;
    let mut opened = Some((first, header));
    let (mut shards, mut sources) = (Vec::new(), Vec::new());
    for number in 1..=count {
        let file = name.sibling(number, GGUF);
        let (source, header) = match opened.take_if(|_| number == name.number) {
            Some(opened) => opened,
            None => {
                let source = need(files, &file).await?;
                let header = read_part(&source).await.map_err(|e| in_file(&file, e))?;
                (source, header)
            }
        };
        shards.push((file, header));
        sources.push(source);
    }
    Ok((merge(shards)?, Joined::new(sources)))
}

/// Opens a file that must be there.
pub(super) async fn need<F: Files>(files: &F, name: &str) -> Result<F::Source> {
    files.open(name).await?.ok_or_else(|| err!(Network, "{name} is missing: the model needs it"))
}
