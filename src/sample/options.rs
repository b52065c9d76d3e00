//! The sampling options of `generate`, as plain data: parsed by name, checked, never silently ignored.

use crate::error::Result;
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// One step of the chain. Each is off at its neutral value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Processor {
    /// Adds `logit_bias`.
    LogitBias,
    /// Divides positive logits of tokens already seen by the penalty and multiplies negative ones (CTRL, 2019).
    RepetitionPenalty,
    /// Subtracts count * penalty.
    FrequencyPenalty,
    /// Subtracts the penalty where the count is above 0.
    PresencePenalty,
    /// Keeps the k largest.
    TopK,
    /// Keeps the tokens whose surprise is nearest the entropy (Meister et al., 2022).
    TypicalP,
    /// Keeps the smallest set of the most likely tokens that holds at least p (nucleus sampling, Holtzman et al., 2019).
    TopP,
    /// Keeps the tokens at least `min_p` times as likely as the most likely one.
    MinP,
    /// Divides by the temperature; 0 keeps the largest alone.
    Temperature,
}

impl Processor {
    /// The default order: llama.cpp's, which runs the same GGUF files. Penalties come before any selection; the
    /// selections see the model's own distribution and the temperature only spreads what they kept, so that a high
    /// temperature cannot let in what top-p or min-p would have cut (transformers scales first; `order` asks for that).
    pub const DEFAULT_ORDER: [Processor; 9] = [
        Processor::LogitBias,
        Processor::RepetitionPenalty,
        Processor::FrequencyPenalty,
        Processor::PresencePenalty,
        Processor::TopK,
        Processor::TypicalP,
        Processor::TopP,
        Processor::MinP,
        Processor::Temperature,
    ];

    /// The option's name as JavaScript spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Processor::LogitBias => "logitBias",
            Processor::RepetitionPenalty => "repetitionPenalty",
            Processor::FrequencyPenalty => "frequencyPenalty",
            Processor::PresencePenalty => "presencePenalty",
            Processor::TopK => "topK",
            Processor::TypicalP => "typicalP",
            Processor::TopP => "topP",
            Processor::MinP => "minP",
            Processor::Temperature => "temperature",
        }
    }

    /// The processor of this name, in camelCase or in the field's snake_case (`top_k`).
    fn from_name(name: &str) -> Option<Self> {
        let plain = |text: &str| text.chars().filter(|c| *c != '_').collect::<String>().to_ascii_lowercase();
        Self::DEFAULT_ORDER.into_iter().find(|processor| plain(processor.name()) == plain(name))
    }
}

/// How tokens are drawn. The defaults are all neutral: the model's own distribution at temperature 1.
///
/// Deserialized with camelCase names from any serde format; unknown names are errors, `null` means the default.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingOptions {
    /// 0 (or less than 1e-5): greedy. Default 1.
    pub temperature: f32,
    /// How many of the most likely tokens to keep; 0: all of them (default). Ties with the k-th: the lowest ids.
    pub top_k: u32,
    /// Nucleus mass in 0..=1. Default 1: off. At least one token is always kept.
    pub top_p: f32,
    /// Share of the most likely token's probability, in 0..=1. Default 0: off.
    pub min_p: f32,
    /// Typical mass in 0..=1. Default 1: off.
    pub typical_p: f32,
    /// Above 0 and at most 100. Default 1: off.
    pub repetition_penalty: f32,
    /// In -100..=100. Default 0: off.
    pub frequency_penalty: f32,
    /// In -100..=100. Default 0: off.
    pub presence_penalty: f32,
    /// How many of the last tokens (of prompt and answer together) the penalties see; `None` (default): all.
    pub penalty_window: Option<u32>,
    /// Added to the logits of single tokens: (id, bias), each id once. Minus infinity bans a token.
    pub logit_bias: Vec<(u32, f32)>,
    /// The same seed draws the same tokens from the same logits. `None`: the caller's entropy.
    pub seed: Option<u64>,
    /// The chain's order; `None`: [`Processor::DEFAULT_ORDER`]. Every option that is set must be named in it.
    pub order: Option<Vec<Processor>>,
}

impl Default for SamplingOptions {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            penalty_window: None,
            logit_bias: Vec::new(),
            seed: None,
            order: None,
        }
    }
}

impl SamplingOptions {
    /// The names that deserialization knows, for callers whose options hold others beside these.
    pub const FIELDS: &'static [&'static str] = &[
        "temperature",
        "topK",
        "topP",
        "minP",
        "typicalP",
        "repetitionPenalty",
        "frequencyPenalty",
        "presencePenalty",
        "penaltyWindow",
        "logitBias",
        "seed",
        "order",
    ];

    /// Temperatures below this are greedy: dividing by them overflows f32 (vLLM draws the same line).
    pub const MIN_TEMPERATURE: f32 = 1e-5;
    /// Biases beyond this would swallow the logits' own precision and, multiplied by a penalty, overflow.
    pub const MAX_BIAS: f32 = 1e9;
    const MAX_PENALTY: f32 = 100.0;
    const MAX_TEMPERATURE: f32 = 1e6;
    /// More entries than any vocabulary: a limit on what a caller can make the parser allocate.
    const MAX_BIAS_ENTRIES: usize = 1 << 22;
    const MAX_ORDER: usize = 64;

    /// The options in `source`, not yet checked against a vocabulary. Fails with `bad-option`, naming the option.
    pub fn parse<'de, D: Deserializer<'de>>(source: D) -> Result<Self> {
        Self::deserialize(source).map_err(|error| crate::err!(BadOption, "sampling options: {error}"))
    }

    /// Checks every option against its range, and ids against `n_vocab`. Fails with `bad-option`.
    pub fn validate(&self, n_vocab: usize) -> Result<()> {
        let within = |name: &str, value: f32, least: f32, most: f32| {
            if (least..=most).contains(&value) {
                return Ok(()); // NaN is in no range
            }
            Err(crate::err!(BadOption, "{name}: expected a number from {least} to {most}, found {value}"))
        };
        within("temperature", self.temperature, 0.0, Self::MAX_TEMPERATURE)?;
        within("topP", self.top_p, 0.0, 1.0)?;
        within("minP", self.min_p, 0.0, 1.0)?;
        within("typicalP", self.typical_p, 0.0, 1.0)?;
        within("repetitionPenalty", self.repetition_penalty, 0.01, Self::MAX_PENALTY)?;
        within("frequencyPenalty", self.frequency_penalty, -Self::MAX_PENALTY, Self::MAX_PENALTY)?;
        within("presencePenalty", self.presence_penalty, -Self::MAX_PENALTY, Self::MAX_PENALTY)?;
        let mut ids: Vec<u32> = Vec::with_capacity(self.logit_bias.len());
        for (id, bias) in &self.logit_bias {
            if usize::try_from(*id).map_or(true, |id| id >= n_vocab) {
                return Err(crate::err!(BadOption, "logitBias: expected token ids below {n_vocab}, found {id}"));
            }
            if *bias != f32::NEG_INFINITY {
                within(&format!("logitBias of token {id}"), *bias, -Self::MAX_BIAS, Self::MAX_BIAS)?;
            }
            ids.push(*id);
        }
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(crate::err!(BadOption, "logitBias: expected each token once, found token {} twice", pair[0]));
        }
        let Some(order) = &self.order else { return Ok(()) };
        for (at, processor) in order.iter().enumerate() {
            if order[..at].contains(processor) {
                return Err(crate::err!(BadOption, "order: expected each name once, found {} twice", processor.name()));
            }
        }
        match Processor::DEFAULT_ORDER.into_iter().find(|each| self.is_set(*each) && !order.contains(each)) {
            Some(missing) => {
                let name = missing.name();
                Err(crate::err!(BadOption, "order: expected every option that is set, found {name} set and not named"))
            }
            None => Ok(()),
        }
    }

    /// Whether this processor changes anything, by its option's value alone.
    pub fn is_set(&self, processor: Processor) -> bool {
        match processor {
            Processor::LogitBias => !self.logit_bias.is_empty(),
            Processor::RepetitionPenalty => self.repetition_penalty != 1.0,
            Processor::FrequencyPenalty => self.frequency_penalty != 0.0,
            Processor::PresencePenalty => self.presence_penalty != 0.0,
            Processor::TopK => self.top_k != 0,
            Processor::TypicalP => self.typical_p < 1.0,
            Processor::TopP => self.top_p < 1.0,
            Processor::MinP => self.min_p > 0.0,
            Processor::Temperature => self.temperature != 1.0,
        }
    }

    /// The processors that change something, in the order in which they run.
    pub fn active(&self) -> impl Iterator<Item = Processor> + '_ {
        self.order.as_deref().unwrap_or(&Processor::DEFAULT_ORDER).iter().copied().filter(|each| self.is_set(*each))
    }

    /// Whether the temperature means greedy: the largest logit, the lowest id among equals.
    pub fn is_greedy(&self) -> bool {
        self.temperature < Self::MIN_TEMPERATURE
    }

    /// Whether any penalty looks at the history.
    pub fn has_penalties(&self) -> bool {
        self.penalty_window != Some(0)
            && [Processor::RepetitionPenalty, Processor::FrequencyPenalty, Processor::PresencePenalty]
                .into_iter()
                .any(|each| self.is_set(each))
    }

    /// The part of `history` (prompt and answer so far) that the penalties see.
    pub fn window<'a>(&self, history: &'a [u32]) -> &'a [u32] {
        let seen = self.penalty_window.and_then(|window| usize::try_from(window).ok()).unwrap_or(usize::MAX);
        &history[history.len().saturating_sub(seen)..]
    }
}

/// Written by hand rather than derived, so that an error of type names the option: "topK: invalid type …".
impl<'de> Deserialize<'de> for SamplingOptions {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Options;
        impl<'de> Visitor<'de> for Options {
            type Value = SamplingOptions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of sampling options")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<SamplingOptions, M::Error> {
                let mut options = SamplingOptions::default();
                let mut seen: Vec<String> = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    if seen.contains(&key) {
                        return Err(M::Error::custom(format_args!("{key}: expected once, found twice")));
                    }
                    match key.as_str() {
                        "temperature" => read(&mut map, &key, &mut options.temperature)?,
                        "topK" => read(&mut map, &key, &mut options.top_k)?,
                        "topP" => read(&mut map, &key, &mut options.top_p)?,
                        "minP" => read(&mut map, &key, &mut options.min_p)?,
                        "typicalP" => read(&mut map, &key, &mut options.typical_p)?,
                        "repetitionPenalty" => read(&mut map, &key, &mut options.repetition_penalty)?,
                        "frequencyPenalty" => read(&mut map, &key, &mut options.frequency_penalty)?,
                        "presencePenalty" => read(&mut map, &key, &mut options.presence_penalty)?,
                        "penaltyWindow" => options.penalty_window = optional(&mut map, &key)?,
                        "seed" => options.seed = optional(&mut map, &key)?,
                        "logitBias" => {
                            options.logit_bias = optional::<M, Bias>(&mut map, &key)?.map(|bias| bias.0).unwrap_or_default()
                        }
                        "order" => options.order = optional::<M, Order>(&mut map, &key)?.map(|order| order.0),
                        _ => {
                            let names = SamplingOptions::FIELDS.join(", ");
                            return Err(M::Error::custom(format_args!("unknown option {key}; the sampling options are {names}")));
                        }
                    }
                    seen.push(key);
                }
                Ok(options)
            }
        }
        source.deserialize_map(Options)
    }
}

fn optional<'de, M: MapAccess<'de>, T: Deserialize<'de>>(map: &mut M, key: &str) -> Result<Option<T>, M::Error> {
    map.next_value::<Option<T>>().map_err(|error| M::Error::custom(format_args!("{key}: {error}")))
}

fn read<'de, M: MapAccess<'de>, T: Deserialize<'de>>(map: &mut M, key: &str, into: &mut T) -> Result<(), M::Error> {
    if let Some(value) = optional(map, key)? {
        *into = value;
    }
    Ok(())
}

/// `logitBias` as JavaScript gives it: an object `{"15": -2}` (OpenAI's form) or an array of pairs `[[15, -2]]`.
struct Bias(Vec<(u32, f32)>);

impl<'de> Deserialize<'de> for Bias {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Bias;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object from token id to bias, or an array of [id, bias]")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Bias, M::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    let id = key.parse::<u32>();
                    let id = id.map_err(|_| M::Error::custom(format_args!("expected a token id, found {key:?}")))?;
                    push(&mut entries, id, map.next_value()?)?;
                }
                Ok(Bias(entries))
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Bias, S::Error> {
                let mut entries = Vec::new();
                while let Some((id, bias)) = seq.next_element::<(u32, f32)>()? {
                    push(&mut entries, id, bias)?;
                }
                Ok(Bias(entries))
            }
        }
        fn push<E: serde::de::Error>(entries: &mut Vec<(u32, f32)>, id: u32, bias: f32) -> Result<(), E> {
            if entries.len() >= SamplingOptions::MAX_BIAS_ENTRIES {
                return Err(E::custom(format_args!("expected at most {} entries", SamplingOptions::MAX_BIAS_ENTRIES)));
            }
            entries.push((id, bias));
            Ok(())
        }
        source.deserialize_any(Entries)
    }
}

/// `order`: an array of names; `"a+b"` names two processors that run one after the other.
struct Order(Vec<Processor>);

impl<'de> Deserialize<'de> for Order {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Order;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of option names")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Order, S::Error> {
                let mut order = Vec::new();
                while let Some(names) = seq.next_element::<String>()? {
                    for name in names.split('+') {
                        let found = Processor::from_name(name);
                        order.push(found.ok_or_else(|| {
                            let known = Processor::DEFAULT_ORDER.map(Processor::name).join(", ");
                            S::Error::custom(format_args!("expected names among {known}, found {name:?}"))
                        })?);
                    }
                    if order.len() > SamplingOptions::MAX_ORDER {
                        while seq.next_element::<IgnoredAny>()?.is_some() {}
                        return Err(S::Error::custom("expected each name once"));
                    }
                }
                Ok(Order(order))
            }
        }
        source.deserialize_seq(Names)
    }
}
