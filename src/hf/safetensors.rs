//! The header of a `.safetensors` file: eight bytes with its length, then JSON that says of each tensor its type, its shape, and
//! where in the rest of the file its bytes are. Nothing of it is trusted.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::json;
use crate::err;
use crate::error::Result;
use crate::gguf::ShardName;
use crate::tensor::Format;

/// Bytes of a header. Mixtures of experts with 50,000 tensors take some 8 MB.
pub const MAX_HEADER_BYTES: u64 = 32 << 20;

/// Tensors in a file.
const MAX_TENSORS: usize = 1 << 18;

/// Dimensions of a tensor.
const MAX_DIMS: usize = 8;

/// Files of a model.
const MAX_FILES: usize = 1024;

/// The type of a stored tensor's elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredFormat {
    /// Floats that can be read.
    Float(Format),
    /// Another type, by its name.
    Other(String),
}

/// A tensor in a file. Its bytes lie wholly inside the file, are as many as its shape needs, and are no other tensor's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The number of its file.
    pub file: usize,
    /// Its type.
    pub format: StoredFormat,
    /// Dimensions, the length of a row last.
    pub shape: Vec<u64>,
    /// Where its first byte is, from the start of the file.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Entries by name, each once.
struct Entries(Vec<(String, Entry)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(source: D) -> std::result::Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    if entries.len() == MAX_TENSORS {
                        return Err(serde::de::Error::custom(format!("expected at most {MAX_TENSORS} tensors, found more")));
                    }
                    entries.push((name, map.next_value()?));
                }
                Ok(Entries(entries))
            }
        }
        source.deserialize_map(All)
    }
}

/// The length of a file's header, from its first eight bytes. Error: `bad-file` where that is beyond the file or absurd.
pub fn header_len(name: &str, first: [u8; 8], file_len: u64) -> Result<u64> {
    let len = u64::from_le_bytes(first);
    let most = MAX_HEADER_BYTES.min(file_len.saturating_sub(8));
    if len < 2 || len > most {
        return Err(err!(
            BadFile,
            "{name}: expected a header of 2 to {most} bytes, found a length of {len}: it is truncated, or no safetensors file"
        ));
    }
    Ok(len)
}

/// The tensors of file number `file`, which has `file_len` bytes, from its header's JSON. Error: `bad-file`, naming the file.
pub fn tensors(name: &str, file: usize, header: &[u8], file_len: u64) -> Result<Vec<(String, Stored)>> {
    let Entries(entries) = json::parse(name, header)?;
    let data = 8 + header.len() as u64;
    let space = file_len.saturating_sub(data);
    let mut tensors = Vec::with_capacity(entries.len());
    for (tensor, Entry { dtype, shape, data_offsets: (start, end) }) in entries {
        let wrong = |what: String| err!(BadFile, "{name}: tensor {tensor:.200}: {what}");
        if start > end || end > space {
            return Err(wrong(format!("expected bytes within {space}, found {start} to {end}: it is truncated or damaged")));
        }
        if shape.len() > MAX_DIMS {
            return Err(wrong(format!("expected at most {MAX_DIMS} dimensions, found {}", shape.len())));
        }
        let (format, bits) = element(&dtype);
        let needed = shape.iter().try_fold(u64::from(bits), |product, size| product.checked_mul(*size));
        let bytes = end - start;
        // A type of an unknown size is refused when it is used, by its name.
        if bits > 0 && needed.map(|bits| bits / 8) != Some(bytes) {
            return Err(wrong(format!("expected as many bytes as {shape:?} of {dtype:.20} has, found {bytes}")));
        }
        tensors.push((tensor, Stored { file, format, shape, offset: data + start, bytes }));
    }
    check(name, &tensors)?;
    Ok(tensors)
}

/// A type by its name, and its bits; 0 where they are not known.
fn element(dtype: &str) -> (StoredFormat, u32) {
    let other = |bits| (StoredFormat::Other(dtype.to_owned()), bits);
    match dtype {
        "F32" => (StoredFormat::Float(Format::F32), 32),
        "F16" => (StoredFormat::Float(Format::F16), 16),
        "BF16" => (StoredFormat::Float(Format::BF16), 16),
        "F64" | "I64" | "U64" => other(64),
        "I32" | "U32" => other(32),
        "I16" | "U16" => other(16),
        "I8" | "U8" | "BOOL" | "F8_E4M3" | "F8_E5M2" => other(8),
        _ => other(0),
    }
}

/// That no name comes twice and no byte is of two tensors.
fn check(file: &str, tensors: &[(String, Stored)]) -> Result<()> {
    let mut names: Vec<&str> = tensors.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(err!(BadFile, "{file}: tensor {:.200}: expected every name once, found it twice", pair[0]));
    }
    let mut placed: Vec<&(String, Stored)> = tensors.iter().filter(|(_, t)| t.bytes > 0).collect();
    placed.sort_unstable_by_key(|(_, t)| t.offset);
    match placed.windows(2).find(|pair| pair[0].1.offset + pair[0].1.bytes > pair[1].1.offset) {
        Some(pair) => Err(err!(BadFile, "{file}: tensors {:.200} and {:.200} overlap", pair[0].0, pair[1].0)),
        None => Ok(()),
    }
}

#[derive(Deserialize)]
struct Index {
    weight_map: HashMap<String, String>,
}

/// The files that `model.safetensors.index.json` names, in order, and the number of the file of each tensor.
///
/// # Errors
/// `bad-file` for names that are none of files beside it (they may come from anywhere), for too many, and for a set of
/// `model-00001-of-00003` that is not whole.
pub fn file_names(index_name: &str, index: &[u8]) -> Result<(Vec<String>, HashMap<String, usize>)> {
    let Index { weight_map } = json::parse(index_name, index)?;
    let mut files: BTreeMap<&str, usize> = weight_map.values().map(|file| (file.as_str(), 0)).collect();
    if files.is_empty() || files.len() > MAX_FILES {
        return Err(err!(BadFile, "{index_name} weight_map: expected 1 to {MAX_FILES} files, found {}", files.len()));
    }
    for (i, (file, number)) in files.iter_mut().enumerate() {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let beside = file.len() <= 255 && file.ends_with(".safetensors") && !file.starts_with('.') && file.chars().all(plain);
        if !beside {
            return Err(err!(
                BadFile,
                "{index_name} weight_map: expected names of .safetensors files beside it, found {file:.100?}"
            ));
        }
        if let Some(name) = ShardName::parse(file, ".safetensors").filter(|name| name.count as usize > MAX_FILES) {
            return Err(err!(BadFile, "{index_name} weight_map: expected at most {MAX_FILES} files, found {}", name.count));
        }
        *number = i;
    }
    let of_tensor = weight_map.iter().map(|(tensor, file)| (tensor.clone(), files[file.as_str()])).collect();
    Ok((files.into_keys().map(str::to_owned).collect(), of_tensor))
}
