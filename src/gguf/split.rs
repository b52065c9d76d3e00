//! Models in several files, `NAME-00001-of-00003.gguf` and so on. The first has the metadata; each has some of the tensors and
//! says which of how many it is. Together they are one [`Header`], whose offsets count from the first byte of the first file.

use std::collections::HashMap;

use super::{Header, Metadata, TensorInfo, Value};
use crate::err;
use crate::error::{Error, Result};

/// The most files of a model: ten times what the largest models come in.
pub const MAX_SHARDS: u32 = 1024;

/// What is said of the parts, and of no part's content.
const SPLIT: &str = "split.";

/// A file's name taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardName<'a> {
    /// What comes before the number.
    pub stem: &'a str,
    /// Which file this is, from 1.
    pub number: u32,
    /// Of how many.
    pub count: u32,
}

impl<'a> ShardName<'a> {
    /// Reads `STEM-00002-of-00003` with this extension (`.gguf`); `None` for names of another kind.
    pub fn parse(name: &'a str, extension: &str) -> Option<Self> {
        let (rest, count) = name.strip_suffix(extension)?.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| (text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?;
        let (number, count): (u32, u32) = (digits(number)?, digits(count)?);
        (1..=count).contains(&number).then_some(Self { stem, number, count })
    }

    /// The name of another file of the same model.
    pub fn sibling(&self, number: u32, extension: &str) -> String {
        format!("{}-{number:05}-of-{:05}{extension}", self.stem, self.count)
    }
}

/// How many files a header says that its model has; 1 where it says nothing. Error: `bad-file` for none or absurdly many.
pub fn shard_count(header: &Header) -> Result<u32> {
    match header.metadata.uint("split.count")? {
        None => Ok(1),
        Some(n) if (1..=u64::from(MAX_SHARDS)).contains(&n) => Ok(n as u32),
        Some(n) => Err(err!(BadFile, "metadata split.count: expected 1 to {MAX_SHARDS} files, found {n}")),
    }
}

/// An error with the file's name before it.
pub fn in_file(name: &str, error: Error) -> Error {
    Error { message: format!("{name}: {}", error.message), ..error }
}

/// One header of all files, given with their names in order. Offsets of the tensors count through all files.
///
/// # Errors
/// `bad-file`, naming the file, where it is not the one it should be, or not of this model; where a tensor is in two files, or
/// some are in none.
pub fn merge(shards: Vec<(String, Header)>) -> Result<Header> {
    let count = shards.len() as u64;
    let mut whole: Option<Header> = None;
    let mut holder: HashMap<String, usize> = HashMap::new();
    let mut names = Vec::with_capacity(shards.len());
    let mut expected_tensors = None;
    for (i, (name, shard)) in shards.into_iter().enumerate() {
        check_place(&shard, i as u64, count).map_err(|e| in_file(&name, e))?;
        for tensor in &shard.tensors {
            if let Some(first) = holder.insert(tensor.name.clone(), i) {
                let first = names.get(first).unwrap_or(&name);
                return Err(err!(BadFile, "{name}: tensor {} is in {first} already", tensor.name));
            }
        }
        let tensors = shard.metadata.uint("split.tensors.count").map_err(|e| in_file(&name, e))?;
        expected_tensors = expected_tensors.or(tensors);
        match &mut whole {
            None => whole = Some(shard),
            Some(whole) => {
                check_same_model(&whole.metadata, &shard.metadata).map_err(|e| in_file(&name, e))?;
                append(whole, shard).map_err(|e| in_file(&name, e))?;
            }
        }
        names.push(name);
    }
    let mut whole = whole.ok_or_else(|| err!(Internal, "merging no files"))?;
    let found = whole.tensors.len() as u64;
    if let Some(expected) = expected_tensors.filter(|expected| *expected != found) {
        return Err(err!(BadFile, "{}: expected {expected} tensors in {count} files, found {found}", names.join(", ")));
    }
    for key in ["split.no", "split.count", "split.tensors.count"] {
        whole.metadata.take(key);
    }
    whole.reindex()?;
    Ok(whole)
}

/// Whether a file says that it is number `i` of `count`.
fn check_place(shard: &Header, i: u64, count: u64) -> Result<()> {
    let found = shard.metadata.uint("split.count")?;
    if found != Some(count) {
        return Err(err!(BadFile, "metadata split.count: expected {count}, as in the other files, found {}", show(found)));
    }
    let number = shard.metadata.uint("split.no")?;
    if number != Some(i) {
        return Err(err!(BadFile, "metadata split.no: expected {i} (counted from 0), found {}", show(number)));
    }
    Ok(())
}

fn show(number: Option<u64>) -> String {
    number.map_or("none".into(), |n| n.to_string())
}

/// Whether what a file repeats of the metadata is what the first file says.
fn check_same_model(first: &Metadata, other: &Metadata) -> Result<()> {
    for (key, value) in other.iter().filter(|(key, _)| !key.starts_with(SPLIT) && *key != "general.alignment") {
        if first.get(key) == Some(value) {
            continue;
        }
        let words = |value: Option<&Value>| match value {
            Some(Value::Array(_)) => "another array".to_owned(),
            Some(value) => format!("{value:.100?}"),
            None => "nothing".to_owned(),
        };
        let (expected, found) = (words(first.get(key)), words(Some(value)));
        return Err(err!(
            BadFile,
            "metadata {key:.100}: expected {expected}, as in the first file, found {found}: it is a shard of another model"
        ));
    }
    // The number of tensors in all files is a word on the model too.
    let tensors = |meta: &Metadata| meta.uint("split.tensors.count");
    match (tensors(first)?, tensors(other)?) {
        (Some(a), Some(b)) if a != b => {
            Err(err!(BadFile, "metadata split.tensors.count: expected {a}, found {b}: it is a shard of another model"))
        }
        _ => Ok(()),
    }
}

/// Puts a file behind those that are there.
fn append(whole: &mut Header, shard: Header) -> Result<()> {
    let base = whole.file_len;
    let too_long = || err!(BadFile, "expected files of less than 2^63 bytes together, found more");
    whole.file_len = base.checked_add(shard.file_len).filter(|len| i64::try_from(*len).is_ok()).ok_or_else(too_long)?;
    // No overflow: each lies inside its file.
    whole.tensors.extend(shard.tensors.into_iter().map(|t| TensorInfo { offset: base + t.offset, ..t }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::ShardName;

    #[test]
    fn names_of_shards() {
        let name = ShardName::parse("a-b-00002-of-00010.gguf", ".gguf").unwrap();
        assert_eq!((name.stem, name.number, name.count), ("a-b", 2, 10));
        assert_eq!(name.sibling(10, ".gguf"), "a-b-00010-of-00010.gguf");
        for other in ["a.gguf", "a-2-of-3.gguf", "a-00000-of-00003.gguf", "a-00004-of-00003.gguf", "a-0000x-of-00003.gguf", ""] {
            assert_eq!(ShardName::parse(other, ".gguf"), None, "{other}");
        }
    }
}
