//! What a header says about a model, for pages that decide whether to download the rest.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::engine::{LoadOptions, describe};
use crate::error::Result;
use crate::gguf::Header;
use crate::kernels::attention::KvType;
use crate::tensor::Tier;
use crate::text::{ChatTemplate, Tokenizer};
use crate::{model, quant};

/// The longest chat template that is handed to JavaScript for display, in bytes.
const MAX_TEMPLATE_BYTES: usize = 256 << 10;

/// A reason why the model cannot be run.
#[derive(Serialize)]
pub struct Unsupported {
    code: &'static str,
    message: String,
}

/// See `ModelInfo` in `www/sdk/src/types.ts`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    architecture: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    quantization: &'static str,
    formats: BTreeMap<&'static str, u64>,
    parameters: u64,
    file_bytes: u64,
    weight_bytes: u64,
    context_length: u64,
    layers: u64,
    embedding_length: u64,
    vocabulary_size: u64,
    kv_bytes_per_token: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_template: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template_error: Option<String>,
    tokenizer: String,
    unsupported: Vec<Unsupported>,
}

impl ModelInfo {
    /// The same with a template that is used in place of the file's.
    pub fn with_template(self, template: Option<&str>) -> Self {
        match template {
            Some(template) => Self { chat_template: Some(template.to_owned()), template_error: None, ..self },
            None => self,
        }
    }

    /// Reads what is there; keys that are missing count as 0 or "". Errors: `bad-file` for keys of a wrong type.
    pub fn of(header: &Header) -> Result<Self> {
        let meta = &header.metadata;
        let architecture = meta.string("general.architecture")?.unwrap_or_default().to_owned();
        let number = |key: &str| meta.uint(&format!("{architecture}.{key}"));
        let mut formats: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut unsupported = Vec::new();
        let mut parameters = 0u64;
        for tensor in &header.tensors {
            *formats.entry(tensor.format.name()).or_default() += tensor.bytes; // together at most the file's length
            parameters = parameters.saturating_add(tensor.row_len().saturating_mul(tensor.rows()));
        }
        for name in formats.keys() {
            let first = header.tensors.iter().find(|tensor| tensor.format.name() == *name);
            if let Some(Err(e)) = first.map(|tensor| quant::supported(tensor.format)) {
                unsupported.push(Unsupported { code: e.code.as_str(), message: e.message });
            }
        }
        let kv_bytes_per_token = match model::read(header) {
            Ok(a) => a.kv_bytes_per_position(KvType::F32),
            Err(e) => {
                unsupported.push(Unsupported { code: e.code.as_str(), message: e.message });
                0
            }
        };
        // What only shows when tensors are given their places, for a device without limits.
        let tier = Tier { max_binding_bytes: u64::MAX, ..Tier::BASE };
        if unsupported.is_empty()
            && let Err(e) = describe(header, tier, &LoadOptions::default()).and_then(|_| Tokenizer::check(meta))
        {
            unsupported.push(Unsupported { code: e.code.as_str(), message: e.message });
        }
        let vocabulary = match meta.get("tokenizer.ggml.tokens") {
            Some(crate::gguf::Value::Array(crate::gguf::Array::String(tokens))) => tokens.len() as u64,
            _ => 0,
        };
        Ok(Self {
            name: meta.string("general.name")?.map(str::to_owned),
            quantization: formats.iter().max_by_key(|(_, bytes)| **bytes).map_or("", |(name, _)| *name),
            parameters,
            file_bytes: header.file_len,
            weight_bytes: formats.values().sum(),
            formats,
            context_length: number("context_length")?.unwrap_or(0),
            layers: number("block_count")?.unwrap_or(0),
            embedding_length: number("embedding_length")?.unwrap_or(0),
            vocabulary_size: vocabulary,
            kv_bytes_per_token,
            chat_template: ChatTemplate::source(meta)?.filter(|template| template.len() <= MAX_TEMPLATE_BYTES).map(str::to_owned),
            template_error: ChatTemplate::from_metadata(meta).err().map(|e| e.message),
            tokenizer: meta.string("tokenizer.ggml.model")?.unwrap_or_default().to_owned(),
            unsupported,
            architecture,
        })
    }
}
