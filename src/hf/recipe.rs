//! What each tensor of the architecture is made of: which stored tensors, in which order of rows, and in what format.

use std::collections::BTreeMap;

use super::Quantize;
use super::config::Config;
use super::families::{Family, NAMES};
use super::safetensors::{Stored, StoredFormat};
use crate::err;
use crate::error::Result;
use crate::gguf::{Header, Metadata, Value};
use crate::tensor::Format;

/// The longest vector: several times the widest model.
const MAX_VECTOR: u64 = 1 << 20;

/// The order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// As stored.
    AsStored,
    /// Heads of this many rows, of which row i and row half + i come one behind the other, so that rope turns neighbours.
    Pairs(u64),
}

/// How a tensor comes to be. Its rows are those of all parts, one behind the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Stored tensors, all of one shape and type.
    pub parts: Vec<Stored>,
    /// Weights in a row of a part.
    pub cols: u64,
    /// The order in which a part's rows come.
    pub rows: Rows,
    /// What is added to every weight.
    pub add: f32,
    /// The values themselves, where there is no part.
    pub values: Vec<f32>,
}

/// A stored name taken apart.
struct Place {
    /// GGUF's name.
    name: String,
    /// GGUF's name without layer and suffix.
    kind: &'static str,
    expert: Option<u32>,
}

/// Makes the header that a GGUF file of this model would have, and the recipe of each of its tensors, in the same order: that of
/// the files, so that reading goes forward.
///
/// # Errors
/// `bad-file` for tensors of a wrong shape, missing experts or layers that the configuration does not have;
/// `unsupported-architecture` for tensors that the family does not know; `unsupported-quant` for types that are no floats.
pub fn recipes(
    config: &Config,
    stored: Vec<(String, Stored)>,
    vocabulary: Vec<(String, Value)>,
    quantize: Quantize,
) -> Result<(Header, Vec<Recipe>)> {
    let said = config.said()?;
    let layers = config.need("num_hidden_layers")?;
    let tied = config.tied()?.unwrap_or(false);
    let mut groups: BTreeMap<String, (&'static str, Vec<Part>)> = BTreeMap::new();
    for (name, stored) in stored {
        // Buffers that older versions stored, and a copy of the embedding.
        if name.ends_with(".rotary_emb.inv_freq") || (tied && name == "lm_head.weight") {
            continue;
        }
        let place = place(config.family, layers, &name)?;
        groups.entry(place.name).or_insert_with(|| (place.kind, Vec::new())).1.push((place.expert, name, stored));
    }
    if !tied && !groups.contains_key("output.weight") && config.tied()?.is_some() {
        return Err(err!(
            BadFile,
            "tensor lm_head.weight: expected, as config.json says that it is not the embedding, found none"
        ));
    }
    let mut made = Vec::new();
    for (name, (kind, mut parts)) in groups {
        parts.sort_by_key(|(expert, ..)| *expert);
        made.push(tensor(config, name, kind, parts, quantize)?);
    }
    for (name, values) in said.tensors {
        let shape = vec![values.len() as u64];
        let recipe = Recipe { parts: Vec::new(), cols: values.len() as u64, rows: Rows::AsStored, add: 0.0, values };
        made.push((name.to_owned(), Format::F32, shape, recipe));
    }
    made.sort_by_key(|(.., recipe)| recipe.parts.first().map(|part| (part.file, part.offset)));
    let (tensors, recipes) = made.into_iter().map(|(name, format, shape, recipe)| ((name, format, shape), recipe)).unzip();
    let metadata = Metadata::from_entries(said.metadata.into_iter().chain(vocabulary).collect());
    Ok((Header::lay_out(metadata, tensors)?, recipes))
}

/// Where a stored tensor belongs.
fn place(family: &Family, layers: u32, full: &str) -> Result<Place> {
    let unknown = || {
        let (model_type, full) = (family.model_type, full.chars().take(200).collect::<String>());
        err!(UnsupportedArchitecture, "{model_type}: tensor {full} has no place in this architecture as it is supported")
    };
    let rest = full.strip_prefix("model.").unwrap_or(full);
    let (layer, rest) = match rest.strip_prefix("layers.").and_then(|rest| rest.split_once('.')) {
        Some((layer, rest)) => (Some(layer.parse::<u32>().map_err(|_| unknown())?), rest),
        None => (None, rest),
    };
    if let Some(layer) = layer.filter(|layer| *layer >= layers) {
        return Err(err!(BadFile, "tensor {full:.200}: expected layers below config.json's {layers}, found {layer}"));
    }
    let (stem, suffix) = rest.rsplit_once('.').filter(|(_, suffix)| matches!(*suffix, "weight" | "bias")).ok_or_else(unknown)?;
    // An expert's number is written as `*` in the table.
    let numbered = stem.split_once(".experts.").and_then(|(before, after)| {
        let (number, after) = after.split_once('.')?;
        Some((number.parse::<u32>().ok()?, format!("{before}.experts.*.{after}")))
    });
    let (expert, stem) = match &numbered {
        Some((expert, stem)) => (Some(*expert), stem.as_str()),
        None => (None, stem),
    };
    let found = family.names.iter().chain(NAMES).find(|(theirs, _)| *theirs == stem);
    let outside = matches!(stem, "embed_tokens" | "norm" | "lm_head" | "final_layernorm");
    let (_, kind) = found.filter(|_| outside == layer.is_none()).ok_or_else(unknown)?;
    let name = match layer {
        Some(layer) => format!("blk.{layer}.{kind}.{suffix}"),
        None => format!("{kind}.{suffix}"),
    };
    Ok(Place { name, kind, expert })
}

/// The number of an expert, a stored name, and the tensor.
type Part = (Option<u32>, String, Stored);

type Made = (String, Format, Vec<u64>, Recipe);

/// A tensor of one part, or of one for each expert.
fn tensor(config: &Config, name: String, kind: &'static str, parts: Vec<Part>, quantize: Quantize) -> Result<Made> {
    let wrong =
        |theirs: &str, expected: String, found: String| err!(BadFile, "tensor {theirs:.200}: expected {expected}, found {found}");
    let Some((_, theirs, first)) = parts.first() else { return Err(err!(Internal, "tensor {name} has no parts")) };
    let StoredFormat::Float(stored) = &first.format else {
        let StoredFormat::Other(found) = &first.format else { return Err(err!(Internal, "a float is none")) };
        return Err(err!(UnsupportedQuant, "tensor {theirs:.200}: expected F32, F16 or BF16, found {found:.20}"));
    };
    let stored = *stored;
    let is_expert = kind.ends_with("_exps");
    for (i, (expert, theirs, part)) in (0u32..).zip(&parts) {
        if is_expert != expert.is_some() || expert.is_some_and(|expert| expert != i) || (!is_expert && i > 0) {
            return Err(wrong(theirs, format!("number {i} of its kind ({name})"), format!("number {}", expert.unwrap_or(0))));
        }
        if part.shape != first.shape || part.format != first.format {
            return Err(wrong(theirs, format!("shape {:?} as of {}", first.shape, parts[0].1), format!("{:?}", part.shape)));
        }
    }
    if let Some(expected) =
        config.json().u32(&["num_experts", "num_local_experts"])?.filter(|n| is_expert && *n as usize != parts.len())
    {
        return Err(wrong(theirs, format!("{expected} experts"), format!("{}", parts.len())));
    }
    if first.shape.contains(&0) || !matches!(first.shape.len(), 1 | 2) {
        return Err(wrong(theirs, "a vector or a matrix".into(), format!("shape {:?}", first.shape)));
    }
    let matrix = first.shape.len() == 2;
    if !matrix && (is_expert || first.shape[0] > MAX_VECTOR) {
        return Err(wrong(theirs, format!("a matrix, or a vector of at most {MAX_VECTOR}"), format!("shape {:?}", first.shape)));
    }
    let (heads, kv_heads) = config.heads()?;
    let rows = match (config.family.pairs, kind) {
        (true, "attn_q") => pairs(theirs, first, heads)?,
        (true, "attn_k") => pairs(theirs, first, kv_heads)?,
        _ => Rows::AsStored,
    };
    let add = if config.family.plus_one && kind.ends_with("_norm") { 1.0 } else { 0.0 };
    let cols = if matrix { first.shape[1] } else { first.shape[0] };
    let mut shape: Vec<u64> = first.shape.iter().rev().copied().collect();
    if is_expert {
        shape.push(parts.len() as u64);
    }
    let format = format(kind, stored, matrix, cols, quantize);
    Ok((
        name,
        format,
        shape,
        Recipe { parts: parts.into_iter().map(|part| part.2).collect(), cols, rows, add, values: Vec::new() },
    ))
}

/// The order of rows for rope that turns neighbours.
fn pairs(theirs: &str, stored: &Stored, heads: u32) -> Result<Rows> {
    let rows = stored.shape[0];
    let per_head = rows / u64::from(heads.max(1));
    if per_head == 0 || !per_head.is_multiple_of(2) || per_head * u64::from(heads) != rows {
        return Err(err!(BadFile, "tensor {theirs:.200}: expected rows of {heads} heads of an even width, found {rows}"));
    }
    Ok(Rows::Pairs(per_head))
}

/// The format of a tensor on its way to the device.
fn format(kind: &str, stored: Format, matrix: bool, cols: u64, quantize: Quantize) -> Format {
    let whole_groups = cols.is_multiple_of(Format::Q8_0.block_len());
    match quantize {
        // The choice of experts is not quantised: a small error there changes all.
        _ if !matrix || kind == "ffn_gate_inp" => Format::F32,
        Quantize::None => stored,
        _ if !whole_groups => Format::F16,
        Quantize::Q8_0 => Format::Q8_0,
        // All logits hang on these, and a four-bit head tells tokens apart badly.
        Quantize::Q4_0 if matches!(kind, "token_embd" | "output") => Format::Q8_0,
        Quantize::Q4_0 => Format::Q4_0,
    }
}
