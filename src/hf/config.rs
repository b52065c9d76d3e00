//! `config.json` as metadata.

use serde_json::Value as JsonValue;

use super::families::{FAMILIES, Family, KEYS, Key, Kind, Window};
use super::json::{self, Json};
use super::rope::{self, Rope};
use crate::err;
use crate::error::Result;
use crate::gguf::Value;

const FILE: &str = "config.json";

/// The widest head: eight times the widest in use.
const MAX_HEAD_DIM: u32 = 1 << 12;

/// Layers at which Gemma's largest models have another scale of attention than the width of a head gives: their families know.
const GEMMA_27B: [u32; 2] = [46, 62];

/// A configuration of a family that is known.
pub struct Config {
    value: JsonValue,
    pub(super) family: &'static Family,
}

/// What a configuration says.
pub(super) struct Said {
    pub metadata: Vec<(String, Value)>,
    /// Tensors that are made of it, with their values.
    pub tensors: Vec<(&'static str, Vec<f32>)>,
}

impl Config {
    /// Reads `config.json`. Nothing else has to be fetched to know whether the family is supported.
    ///
    /// # Errors
    /// `bad-file` for what is no configuration; `unsupported-architecture` naming the model's type; `unsupported-quant` for weights
    /// that are quantised in a way of their own.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let value: JsonValue = json::parse(FILE, bytes)?;
        let config = Json { file: FILE, value: &value };
        let model_type = config.string("model_type")?;
        let model_type =
            model_type.ok_or_else(|| err!(BadFile, "{FILE}: expected the model's type as model_type, found none"))?;
        let family = FAMILIES.iter().find(|family| family.model_type == model_type).ok_or_else(|| {
            let names: Vec<&str> = FAMILIES.iter().map(|family| family.model_type).collect();
            err!(
                UnsupportedArchitecture,
                "{FILE}: model_type {model_type:.50?} is not supported in safetensors; supported are {}",
                names.join(", ")
            )
        })?;
        if let Some(found) = config.get("quantization_config") {
            let method = found.get("quant_method").unwrap_or(found).to_string();
            return Err(err!(
                UnsupportedQuant,
                "{FILE}: expected weights as F32, F16 or BF16, found the quantization {method:.100}; load the original, or a GGUF"
            ));
        }
        Ok(Self { value, family })
    }

    pub(super) fn json(&self) -> Json<'_> {
        Json { file: FILE, value: &self.value }
    }

    /// A number that must be there and is not zero.
    pub(super) fn need(&self, key: &str) -> Result<u32> {
        let found = self.json().u32(&[key])?.filter(|n| *n > 0);
        found.ok_or_else(|| err!(BadFile, "{FILE} {key}: expected a whole number above 0, found none"))
    }

    /// Query heads, and key and value heads.
    pub(super) fn heads(&self) -> Result<(u32, u32)> {
        let heads = self.need("num_attention_heads")?;
        Ok((heads, self.json().u32(&["num_key_value_heads"])?.unwrap_or(heads)))
    }

    /// Whether the head is the embedding; `None` where the configuration does not say.
    pub(super) fn tied(&self) -> Result<Option<bool>> {
        self.json().bool("tie_word_embeddings")
    }

    /// All that GGUF metadata would say of the architecture.
    pub(super) fn said(&self) -> Result<Said> {
        let (config, family) = (self.json(), self.family);
        self.check()?;
        let mut said = Said { metadata: Vec::new(), tensors: Vec::new() };
        said.metadata.push(("general.architecture".into(), Value::String(family.architecture.into())));
        let mut keys: Vec<(&str, Value)> = Vec::new();
        for key in KEYS.iter().chain(family.keys) {
            keys.extend(value(config, key)?.map(|value| (key.0, value)));
        }
        let head_dim = self.head_dim()?;
        keys.push(("attention.key_length", Value::U32(head_dim)));
        keys.push(("attention.value_length", Value::U32(head_dim)));
        let turned = config.f32(&["partial_rotary_factor", "rope_parameters.partial_rotary_factor"])?.unwrap_or(1.0);
        if !(turned > 0.0 && turned <= 1.0) {
            return Err(err!(BadFile, "{FILE} partial_rotary_factor: expected a number above 0, at most 1, found {turned}"));
        }
        let rot_dim = (head_dim as f32 * turned) as u32;
        keys.push(("rope.dimension_count", Value::U32(rot_dim)));
        let trained = self.need("max_position_embeddings")?;
        let (context, window) = self.context(trained)?;
        keys.push(("context_length", Value::U32(context)));
        keys.extend(window.map(|window| ("attention.sliding_window", Value::U32(window))));
        if let Some(scale) = self.attention_scale(head_dim)? {
            keys.push(("attention.scale", Value::F32(scale)));
        }
        let Rope { keys: of_rope, tensors } = rope::read(config, rot_dim, trained)?;
        keys.extend(of_rope);
        said.tensors = tensors;
        said.metadata.extend(keys.into_iter().map(|(key, value)| (format!("{}.{key}", family.architecture), value)));
        Ok(said)
    }

    fn head_dim(&self) -> Result<u32> {
        let of_family = (self.family.head_dim > 0).then_some(self.family.head_dim);
        let head_dim = match self.json().u32(&["head_dim"])?.or(of_family) {
            Some(head_dim) => head_dim,
            None => self.need("hidden_size")? / self.need("num_attention_heads")?,
        };
        match head_dim {
            1..=MAX_HEAD_DIM => Ok(head_dim),
            other => Err(err!(BadFile, "{FILE} head_dim: expected 1 to {MAX_HEAD_DIM}, found {other}")),
        }
    }

    /// Refuses what the architecture would leave out, and with it change what the model answers.
    fn check(&self) -> Result<()> {
        let (config, family) = (self.json(), self.family);
        let unsupported = |what: &str, found: &JsonValue| {
            Err(err!(
                UnsupportedArchitecture,
                "{FILE}: {} with {what} {:.50} is not supported",
                family.model_type,
                found.to_string()
            ))
        };
        if let Some((key, found)) = config.first(&["hidden_activation", "hidden_act"])
            && !found.as_str().is_some_and(|name| family.activations.contains(&name))
        {
            return unsupported(key, found);
        }
        for key in ["use_bidirectional_attention", "qk_layernorm"] {
            if let Some(found) = config.get(key).filter(|found| **found != JsonValue::Bool(false)) {
                return unsupported(key, found);
            }
        }
        if let Some(found) = config.get("no_rope_layer_interval").filter(|found| found.as_u64() != Some(4)) {
            return unsupported("no_rope_layer_interval", found);
        }
        let Window::Every(every) = family.window else { return Ok(()) };
        if let Some(found) = config.get("sliding_window_pattern").filter(|found| found.as_u64() != Some(u64::from(every))) {
            return unsupported("sliding_window_pattern", found);
        }
        let kinds = config.get("layer_types").and_then(JsonValue::as_array);
        for (i, kind) in (1u32..).zip(kinds.into_iter().flatten()) {
            let expected = if i.is_multiple_of(every) { "full_attention" } else { "sliding_attention" };
            if kind.as_str() != Some(expected) {
                return unsupported(&format!("layer_types {}", i - 1), kind);
            }
        }
        Ok(())
    }

    /// The context, and the window where the architecture has one.
    fn context(&self, trained: u32) -> Result<(u32, Option<u32>)> {
        let config = self.json();
        let window = config.u32(&["sliding_window"])?.filter(|window| *window > 0);
        Ok(match (self.family.window, window) {
            (Window::Every(_), window) => (trained, window),
            (Window::Bounds, Some(window)) => (trained.min(window), None),
            (Window::BoundsIfUsed, Some(window)) if config.bool("use_sliding_window")? == Some(true) => {
                (trained.min(window), None)
            }
            _ => (trained, None),
        })
    }

    /// The scale of attention, where it is not what follows from the width of a head or the family.
    fn attention_scale(&self, head_dim: u32) -> Result<Option<f32>> {
        let Some(scalar) = self.json().f32(&["query_pre_attn_scalar"])?.filter(|s| *s > 0.0 && *s != head_dim as f32) else {
            return Ok(None);
        };
        let by_width = self.need("hidden_size")? as f32 / self.need("num_attention_heads")? as f32;
        let known = GEMMA_27B.contains(&self.need("num_hidden_layers")?) && scalar == by_width;
        Ok((!known).then(|| 1.0 / scalar.sqrt()))
    }
}

/// The value of a key.
fn value(config: Json<'_>, (key, places, kind): &Key) -> Result<Option<Value>> {
    Ok(match kind {
        Kind::Count => {
            let found = config.u32(places)?;
            Some(Value::U32(found.ok_or_else(|| err!(BadFile, "{FILE} {}: expected the model's {key}, found none", places[0]))?))
        }
        Kind::OptionalCount => config.u32(places)?.map(Value::U32),
        Kind::OptionalNumber => config.f32(places)?.map(Value::F32),
        Kind::OptionalFlag => config.bool(places[0])?.map(Value::Bool),
    })
}
