//! `tokenizer.json`, and what lies beside it, as the metadata of a GGUF file: `tokenizer.ggml.*` and `tokenizer.chat_template`.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use super::config::Config;
use super::{json, pretokenizer};
use crate::err;
use crate::error::Result;
use crate::gguf::{Array, Strings, Value};

/// The most tokens, as the tokenizer has it.
const MAX_TOKENS: u32 = 1 << 20;

/// The most merges: twice the most in use.
const MAX_MERGES: usize = 1 << 20;

/// U+2581, the space of SentencePiece.
const SPACE: &str = "\u{2581}";

/// Token types, as GGUF numbers them.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

/// The texts of the files of a tokenizer. All but the first may be absent.
#[derive(Default)]
pub struct Texts {
    /// `tokenizer.json`
    pub tokenizer: Vec<u8>,
    /// `tokenizer_config.json`
    pub config: Option<Vec<u8>>,
    /// `generation_config.json`
    pub generation: Option<Vec<u8>>,
    /// `chat_template.jinja`
    pub template: Option<Vec<u8>>,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Json,
    #[serde(default)]
    pre_tokenizer: Json,
    #[serde(default)]
    post_processor: Json,
    model: Model,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    special: bool,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    unk_token: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    vocab: Vocabulary,
    #[serde(default)]
    merges: Merges,
}

/// Tokens with their ids. Only byte-pair models have an object here; others are refused by their type, so what they have is skipped.
#[derive(Default)]
struct Vocabulary(Vec<(String, u32)>);

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(source: D) -> std::result::Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Vocabulary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tokens")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Vocabulary, A::Error> {
                let mut tokens = Vec::new();
                while let Some(token) = map.next_entry()? {
                    if tokens.len() == MAX_TOKENS as usize {
                        return Err(A::Error::custom(format!("expected at most {MAX_TOKENS} tokens, found more")));
                    }
                    tokens.push(token);
                }
                Ok(Vocabulary(tokens))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Vocabulary, A::Error> {
                while seq.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                Ok(Vocabulary::default())
            }
        }
        source.deserialize_any(All)
    }
}

/// Merges as `"left right"`, from that or from `["left", "right"]`.
#[derive(Default)]
struct Merges(Strings);

#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Joined(String),
    Pair([String; 2]),
}

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(source: D) -> std::result::Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Merges;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of merges")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Merges, A::Error> {
                let mut merges = Strings::default();
                while let Some(merge) = seq.next_element()? {
                    if merges.len() == MAX_MERGES {
                        return Err(A::Error::custom(format!("expected at most {MAX_MERGES} merges, found more")));
                    }
                    match merge {
                        Merge::Joined(text) => merges.push(&text),
                        Merge::Pair([left, right]) if left.contains(' ') => {
                            return Err(A::Error::custom(format!("a merge of {left:.50?} and {right:.50?} has a space in it")));
                        }
                        Merge::Pair([left, right]) => merges.push(&format!("{left} {right}")),
                    }
                }
                Ok(Merges(merges))
            }
        }
        source.deserialize_seq(All)
    }
}

/// The metadata of a directory's tokenizer and chat template.
///
/// # Errors
/// `unsupported-tokenizer` for a kind of model, normalizer or pre-tokenizer that GGUF has no name for; `bad-file` for what
/// contradicts itself.
pub fn vocabulary(config: &Config, texts: &Texts) -> Result<Vec<(String, Value)>> {
    let file: File = json::parse("tokenizer.json", &texts.tokenizer)?;
    let settings = optional("tokenizer_config.json", texts.config.as_deref())?;
    let generation = optional("generation_config.json", texts.generation.as_deref())?;
    match file.model.kind.as_deref() {
        Some("BPE") | None => {}
        Some(other) => return Err(err!(UnsupportedTokenizer, "tokenizer.json: expected a model of type BPE, found {other:.50}")),
    }
    let affixes = [&file.model.continuing_subword_prefix, &file.model.end_of_word_suffix];
    if affixes.iter().any(|affix| affix.as_ref().is_some_and(|text| !text.is_empty())) {
        return Err(err!(UnsupportedTokenizer, "tokenizer.json: tokens with a prefix or suffix of their own are not supported"));
    }
    let mut out: Vec<(&str, Value)> = Vec::new();
    if file.model.byte_fallback {
        out.push(("model", Value::String("llama".into())));
        out.push(("pre", Value::String("default".into())));
        out.push(("add_space_prefix", Value::Bool(sentence_piece(&file)?)));
    } else {
        let name = pretokenizer::name(&file.normalizer, &file.pre_tokenizer, file.model.ignore_merges)?;
        out.push(("model", Value::String("gpt2".into())));
        out.push(("pre", Value::String(name.into())));
    }
    let (tokens, types) = tokens(&file)?;
    let ids = Ids { tokens: &tokens, settings: &settings };
    let bos = ids.named("bos_token").or_else(|| ids.numbers(&config.json().value["bos_token_id"]).first().copied());
    let eos = ids.named("eos_token");
    // The first ends a text; others end a turn.
    let others = [&generation["eos_token_id"], &config.json().value["eos_token_id"]];
    let mut ends: Vec<u32> = eos.into_iter().chain(others.into_iter().flat_map(|value| ids.numbers(value))).collect();
    let mut seen = Vec::new();
    ends.retain(|id| !seen.contains(id) && (seen.push(*id), true).1);
    for (key, id) in ["eos_token_id", "eot_token_id", "eom_token_id"].into_iter().zip(ends) {
        out.push((key, Value::U32(id)));
    }
    let add_bos = begins_with_special(&file.post_processor) || settings["add_bos_token"] == Json::Bool(true);
    out.push(("add_bos_token", Value::Bool(add_bos && bos.is_some())));
    out.extend(bos.map(|id| ("bos_token_id", Value::U32(id))));
    let unknown = file.model.unk_token.as_deref().and_then(|text| ids.of(text));
    out.extend(unknown.map(|id| ("unknown_token_id", Value::U32(id))));
    out.extend(ids.named("pad_token").map(|id| ("padding_token_id", Value::U32(id))));
    out.push(("tokens", Value::Array(Array::String(tokens))));
    out.push(("token_type", Value::Array(Array::I32(types))));
    out.push(("merges", Value::Array(Array::String(file.model.merges.0))));
    let mut metadata: Vec<(String, Value)> =
        out.into_iter().map(|(key, value)| (format!("tokenizer.ggml.{key}"), value)).collect();
    templates(texts, &settings, &mut metadata)?;
    Ok(metadata)
}

fn optional(name: &str, bytes: Option<&[u8]>) -> Result<Json> {
    bytes.map_or(Ok(Json::Null), |bytes| json::parse(name, bytes))
}

/// Texts and types by id. Ids that no token has, below the highest, are unused ones.
fn tokens(file: &File) -> Result<(Strings, Vec<i32>)> {
    let highest = file.model.vocab.0.iter().map(|(_, id)| *id).chain(file.added_tokens.iter().map(|added| added.id)).max();
    let n = match highest {
        Some(highest) if highest < MAX_TOKENS => highest as usize + 1,
        found => {
            let found = found.map_or("none".into(), |id| format!("id {id}"));
            return Err(err!(BadFile, "tokenizer.json: expected tokens with ids below {MAX_TOKENS}, found {found}"));
        }
    };
    let mut texts: Vec<Option<&str>> = vec![None; n];
    let mut types = vec![NORMAL; n];
    for (text, id) in &file.model.vocab.0 {
        let slot = &mut texts[*id as usize];
        if let Some(first) = slot {
            return Err(err!(BadFile, "tokenizer.json: tokens {first:.50?} and {text:.50?} have the same id {id}"));
        }
        *slot = Some(text);
        if file.model.byte_fallback && is_byte(text) {
            types[*id as usize] = BYTE;
        }
    }
    for added in &file.added_tokens {
        let id = added.id as usize;
        texts[id] = Some(&added.content);
        types[id] = match added {
            added if file.model.unk_token.as_deref() == Some(&added.content) && file.model.byte_fallback => UNKNOWN,
            Added { special: true, .. } => CONTROL,
            Added { special: false, .. } => USER_DEFINED,
        };
    }
    let mut out = Strings::with_capacity(n, texts.iter().flatten().map(|text| text.len()).sum());
    for (id, text) in texts.iter().enumerate() {
        match text {
            Some(text) => out.push(text),
            None => {
                out.push(&format!("[PAD{id}]"));
                types[id] = UNUSED;
            }
        }
    }
    Ok((out, types))
}

/// Whether a text is that of a byte, such as `<0x0A>`.
fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Checks that a tokenizer with byte tokens treats spaces as SentencePiece does, and tells whether it begins texts with one.
fn sentence_piece(file: &File) -> Result<bool> {
    let unsupported = |what: &str, found: &Json| {
        let found = found.to_string();
        err!(UnsupportedTokenizer, "tokenizer.json: the {what} {found:.200} is not supported with byte tokens")
    };
    let mut prefix = false;
    let mut replaced = false;
    let normalizers = match &file.normalizer["normalizers"] {
        Json::Array(all) => all.as_slice(),
        _ if file.normalizer.is_null() => &[],
        _ => std::slice::from_ref(&file.normalizer),
    };
    for normalizer in normalizers {
        match normalizer["type"].as_str() {
            Some("Prepend") if normalizer["prepend"] == SPACE => prefix = true,
            Some("Replace") if normalizer["pattern"]["String"] == " " && normalizer["content"] == SPACE => replaced = true,
            _ => return Err(unsupported("normalizer", normalizer)),
        }
    }
    let pre = &file.pre_tokenizer;
    match pre["type"].as_str() {
        None => {}
        // What is a space no more is not split at.
        Some("Split") if replaced && pre["pattern"]["String"] == " " => {}
        Some("Metaspace") if pre["replacement"] == SPACE && pre["split"] == Json::Bool(false) => {
            replaced = true;
            prefix = pre["prepend_scheme"] != "never";
        }
        _ => return Err(unsupported("pre-tokenizer", pre)),
    }
    match replaced {
        true => Ok(prefix),
        false => Err(unsupported("normalizer", &file.normalizer)),
    }
}

/// Whether texts get a special token in front.
fn begins_with_special(processor: &Json) -> bool {
    match processor["type"].as_str() {
        Some("Sequence") => processor["processors"].as_array().into_iter().flatten().any(begins_with_special),
        Some("TemplateProcessing") => processor["single"].get(0).is_some_and(|first| first.get("SpecialToken").is_some()),
        _ => false,
    }
}

/// Ids of tokens that have a meaning.
struct Ids<'a> {
    tokens: &'a Strings,
    settings: &'a Json,
}

impl Ids<'_> {
    fn of(&self, text: &str) -> Option<u32> {
        self.tokens.iter().position(|token| token == text).map(|id| id as u32)
    }

    /// The token that `tokenizer_config.json` names: a string, or an object with one.
    fn named(&self, key: &str) -> Option<u32> {
        let value = &self.settings[key];
        value.as_str().or_else(|| value["content"].as_str()).and_then(|text| self.of(text))
    }

    /// One id or several, of those that there are.
    fn numbers(&self, value: &Json) -> Vec<u32> {
        let one = std::slice::from_ref(value);
        let all = value.as_array().map_or(one, Vec::as_slice);
        let ids = all.iter().filter_map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()));
        ids.filter(|id| (*id as usize) < self.tokens.len()).collect()
    }
}

/// The chat template: a file of its own, or a part of the settings, alone or by names.
fn templates(texts: &Texts, settings: &Json, metadata: &mut Vec<(String, Value)>) -> Result<()> {
    let mut push = |name: &str, text: &str| {
        let key = if name == "default" { "tokenizer.chat_template".into() } else { format!("tokenizer.chat_template.{name}") };
        metadata.push((key, Value::String(text.into())));
    };
    if let Some(bytes) = &texts.template {
        let text = std::str::from_utf8(bytes).map_err(|_| err!(BadFile, "chat_template.jinja: expected UTF-8"))?;
        push("default", text);
        return Ok(());
    }
    match &settings["chat_template"] {
        Json::String(text) => push("default", text),
        Json::Array(all) => {
            for one in all {
                if let (Some(name), Some(text)) = (one["name"].as_str(), one["template"].as_str()) {
                    push(name, text);
                }
            }
        }
        _ => {}
    }
    Ok(())
}
