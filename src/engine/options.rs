//! What a caller may ask of a generation.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

use crate::err;
use crate::error::Result;
use crate::sample::SamplingOptions;

/// Stop strings at most, and bytes of each: a bound on the work per token.
const MAX_STOPS: usize = 64;
const MAX_STOP_BYTES: usize = 4096;

/// What is continued.
#[derive(Debug, Clone)]
pub enum Prompt {
    /// Raw text.
    Text(String),
    /// Token ids as they are.
    Ids(Vec<u32>),
    /// A conversation, rendered by the model's chat template.
    Messages(minijinja::Value),
}

/// Options of a generation, named as in JavaScript.
#[derive(Debug, Clone, Default)]
pub struct GenerateOptions {
    /// The most tokens to sample; `None`: as many as the context holds.
    pub max_tokens: Option<u32>,
    /// Texts at which generation ends; they are not part of the answer.
    pub stop: Vec<String>,
    /// Go on past end-of-generation tokens, which are then delivered too.
    pub ignore_eos: bool,
    /// Whether the text of control tokens in a raw prompt becomes those tokens.
    pub parse_special: bool,
    /// Tools for the chat template.
    pub tools: Option<minijinja::Value>,
    /// More variables for the chat template.
    pub template_vars: Option<minijinja::Value>,
    /// The adapters that the answer is given with; none: the model as it is.
    pub adapters: Vec<AdapterUse>,
    /// How tokens are drawn.
    pub sampling: SamplingOptions,
}

/// An adapter and how strongly it counts.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AdapterUse {
    /// The number that loading it gave.
    pub id: u32,
    /// What its changes are multiplied with; 1 by default.
    #[serde(default = "one")]
    pub scale: f32,
}

fn one() -> f32 {
    1.0
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    max_tokens: Option<u32>,
    stop: Option<Stops>,
    ignore_eos: Option<bool>,
    parse_special: Option<bool>,
    tools: Option<minijinja::Value>,
    template_vars: Option<minijinja::Value>,
    #[serde(default)]
    adapters: Vec<AdapterUse>,
    #[serde(flatten)]
    sampling: SamplingOptions,
    #[serde(flatten)]
    unknown: HashMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Stops {
    One(String),
    Many(Vec<String>),
}

impl GenerateOptions {
    /// Reads options from any serde format. Error: `bad-option`, naming what is unknown or of the wrong type.
    pub fn parse<'de, D: Deserializer<'de>>(source: D) -> Result<Self> {
        let raw = Raw::deserialize(source).map_err(|e| err!(BadOption, "generate: {e}"))?;
        if let Some(name) = raw.unknown.keys().filter(|name| !SamplingOptions::FIELDS.contains(&name.as_str())).min() {
            return Err(err!(BadOption, "generate: unknown option {name:?}"));
        }
        let stop = match raw.stop {
            None => Vec::new(),
            Some(Stops::One(stop)) => vec![stop],
            Some(Stops::Many(stops)) => stops,
        };
        Ok(Self {
            max_tokens: raw.max_tokens,
            stop,
            ignore_eos: raw.ignore_eos.unwrap_or(false),
            parse_special: raw.parse_special.unwrap_or(false),
            tools: raw.tools,
            template_vars: raw.template_vars,
            adapters: raw.adapters,
            sampling: raw.sampling,
        })
    }

    /// Checks every option. Error: `bad-option`.
    pub fn validate(&self, n_vocab: usize) -> Result<()> {
        if self.max_tokens == Some(0) {
            return Err(err!(BadOption, "maxTokens: expected at least 1, found 0"));
        }
        if self.stop.len() > MAX_STOPS {
            return Err(err!(BadOption, "stop: expected at most {MAX_STOPS} strings, found {}", self.stop.len()));
        }
        if self.stop.iter().any(String::is_empty) {
            return Err(err!(BadOption, "stop: expected strings of at least one character, found an empty one"));
        }
        if let Some(long) = self.stop.iter().find(|s| s.len() > MAX_STOP_BYTES) {
            return Err(err!(BadOption, "stop: expected at most {MAX_STOP_BYTES} bytes, found {}", long.len()));
        }
        self.sampling.validate(n_vocab)
    }
}
