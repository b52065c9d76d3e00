//! Embeddings against transformers: tiny models of each kind, with the vectors that it pools in f32 (`tests/tools/fixtures/embed.py`).
//! Vectors are compared before they are scaled; their length is 3 to 9.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // also outside of #[test]

mod common;

use common::models::{Golden, engine, gpu, load, numbers};
use common::{data, skip};
use pollster::block_on;
use rivulet::engine::{EmbedOptions, Engine, GenerateOptions, LoadOptions, MemorySource, Prompt, describe, read_header};
use rivulet::error::{Code, Error};
use rivulet::gguf::{Header, Metadata, Value};
use rivulet::model::Pooling;
use rivulet::tensor::Tier;

const FIXTURES: [&str; 4] = ["bert-mean", "bert-cls", "nomic-bert", "qwen3-last"];
const POOLINGS: [Pooling; 3] = [Pooling::Mean, Pooling::Cls, Pooling::Last];

/// Base arithmetic with an f32 cache; f16 tiles or an f16 cache.
const EXACT: f32 = 1e-4;
const F16: f32 = 1e-2;

fn golden(name: &str) -> Golden {
    Golden::find(&format!("models-embed/{name}")).unwrap()
}

fn raw(pooling: Option<Pooling>) -> EmbedOptions {
    EmbedOptions { pooling, normalize: false, dimensions: None }
}

fn embed(engine: &mut Engine, text: &str, options: &EmbedOptions) -> Result<Vec<f32>, Error> {
    block_on(engine.embed(text, options, &|| false))
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().all(|v| v.is_finite()));
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// The largest difference over all texts and all poolings, the file's own by its name alone.
fn check(name: &str, kv: &str, tier: &str, tolerance: f32) -> f32 {
    let golden = golden(name);
    let mut engine = engine(&golden.file("model.gguf"), kv, Some(tier));
    let width = golden.json["n_embd"].as_u64().unwrap() as usize;
    let own: Pooling = serde_json::from_value(golden.json["pooling"].clone()).unwrap();
    assert_eq!(engine.architecture().pooling, Some(own));
    let mut worst = 0f32;
    for text in golden.json["texts"].as_array().unwrap() {
        let want = golden.floats(&text["offset"], 3 * width);
        for (pooling, want) in POOLINGS.into_iter().zip(want.chunks_exact(width)) {
            let options = raw((pooling != own).then_some(pooling));
            let got = embed(&mut engine, text["text"].as_str().unwrap(), &options).unwrap();
            let off = difference(&got, want);
            assert!(off <= tolerance, "{name} {tier} {kv} {} {pooling:?}: off by {off}", text["name"]);
            worst = worst.max(off);
        }
    }
    worst
}

#[test]
fn vectors_equal_transformers() {
    let part = std::env::var("RIVULET_CASES").unwrap_or_default();
    for name in FIXTURES.into_iter().filter(|name| name.contains(&part)) {
        for tier in ["cpu+base", "gpu+base"] {
            println!("{name} {tier}: f32 cache {:.1e}", check(name, "f32", tier, EXACT));
        }
        println!("{name} cpu+base: f16 cache {:.1e}", check(name, "f16", "cpu+base", F16));
        match gpu(Some("gpu+f16+subgroup")) {
            Ok(_) => println!("{name} gpu+f16+subgroup: {:.1e}", check(name, "f32", "gpu+f16+subgroup", F16)),
            Err(_) => skip("vectors_equal_transformers", "this adapter has no tier gpu+f16+subgroup"),
        }
    }
}

#[test]
fn texts_become_the_tokens_of_transformers() {
    for name in FIXTURES {
        let golden = golden(name);
        let mut engine = engine(&golden.file("model.gguf"), "f32", Some("cpu+base"));
        for text in golden.json["texts"].as_array().unwrap() {
            let by_ids = block_on(engine.embed_ids(&numbers(&text["ids"]), &raw(None), &|| false)).unwrap();
            assert_eq!(
                embed(&mut engine, text["text"].as_str().unwrap(), &raw(None)).unwrap(),
                by_ids,
                "{name} {}",
                text["name"]
            );
        }
    }
}

#[test]
fn vectors_are_scaled_and_cut() {
    let mut engine = engine(&golden("bert-mean").file("model.gguf"), "f32", Some("cpu+base"));
    let whole = embed(&mut engine, "the river", &EmbedOptions::default()).unwrap();
    let length = |v: &[f32]| v.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
    assert!((length(&whole) - 1.0).abs() < 1e-6);
    let unscaled = embed(&mut engine, "the river", &raw(None)).unwrap();
    let factor = 1.0 / length(&unscaled) as f32;
    assert!(difference(&whole, &unscaled.iter().map(|v| v * factor).collect::<Vec<_>>()) < 1e-6);
    let short = embed(&mut engine, "the river", &EmbedOptions { dimensions: Some(16), ..Default::default() }).unwrap();
    assert_eq!(short.len(), 16);
    assert!((length(&short) - 1.0).abs() < 1e-6, "scaled after it was cut");
    assert!((short[0] / short[1] - whole[0] / whole[1]).abs() < 1e-5);
    // One text does not change the next.
    assert_eq!(embed(&mut engine, "the river", &EmbedOptions::default()).unwrap(), whole);
    for dimensions in [0, 65] {
        let error = embed(&mut engine, "a", &EmbedOptions { dimensions: Some(dimensions), ..Default::default() }).unwrap_err();
        assert_eq!(error.code, Code::BadOption);
    }
    let unknown = serde_json::from_str::<EmbedOptions>(r#"{"pool": "mean"}"#).unwrap_err().to_string();
    assert!(unknown.contains("pool"), "{unknown}");
}

/// All tokens of an encoder are in one pass, up to its context; a text that does not fit is refused, and the model still works.
#[test]
fn a_text_fills_the_context_and_no_more() {
    for (name, context) in [("bert-mean", 128), ("qwen3-last", 512)] {
        let mut engine = engine(&golden(name).file("model.gguf"), "f32", Some("cpu+base"));
        let ids = vec![7; context + 1];
        let fits = block_on(engine.embed_ids(&ids[1..], &raw(None), &|| false)).unwrap();
        assert!(fits.iter().all(|v| v.is_finite()));
        let error = block_on(engine.embed_ids(&ids, &raw(None), &|| false)).unwrap_err();
        assert_eq!(error.code, Code::ContextOverflow, "{error}");
        assert_eq!(block_on(engine.embed_ids(&ids[1..], &raw(None), &|| false)).unwrap(), fits);
    }
    let file = std::fs::read(golden("bert-mean").file("model.gguf")).unwrap();
    let options = LoadOptions { context_length: Some(20), ..Default::default() };
    let mut small = load(MemorySource(file), gpu(Some("cpu+base")).unwrap(), &options).unwrap();
    let error = block_on(small.embed_ids(&[7; 21], &raw(None), &|| false)).unwrap_err();
    assert_eq!(error.code, Code::ContextOverflow);
    block_on(small.embed_ids(&[7; 20], &raw(None), &|| false)).unwrap();
    block_on(small.embed_ids(&[7], &raw(None), &|| false)).unwrap();
}

#[test]
fn what_cannot_be_embedded_is_refused() {
    let mut bert = engine(&golden("bert-mean").file("model.gguf"), "f16", Some("cpu+base"));
    for ids in [&[][..], &[1_000_000]] {
        assert_eq!(block_on(bert.embed_ids(ids, &raw(None), &|| false)).unwrap_err().code, Code::BadOption);
    }
    assert_eq!(block_on(bert.embed("a", &raw(None), &|| true)).unwrap_err().code, Code::Aborted);
    embed(&mut bert, "a", &raw(None)).unwrap();
    // A model that generates has no pooling of its own, but takes one.
    let mut llama = engine(&data("models/llama-spm/model.gguf"), "f16", Some("cpu+base"));
    let error = embed(&mut llama, "a", &raw(None)).unwrap_err();
    assert_eq!(error.code, Code::BadOption);
    assert!(error.message.contains("pooling"), "{error}");
    let vector = embed(&mut llama, "a", &raw(Some(Pooling::Mean))).unwrap();
    assert_eq!(vector.len() as u32, llama.architecture().n_embd);
}

/// An encoder has nothing that continues a text; a decoder that embeds has.
#[test]
fn an_encoder_does_not_generate() {
    let mut bert = engine(&golden("bert-mean").file("model.gguf"), "f16", Some("cpu+base"));
    let options = GenerateOptions { max_tokens: Some(2), ..Default::default() };
    let generate = |engine: &mut Engine| {
        block_on(engine.generate(&Prompt::Ids(vec![5, 6]), &options, &mut |_| {}, &|| false)).map(|done| done.tokens.len())
    };
    let refusals = [
        generate(&mut bert).unwrap_err(),
        block_on(bert.logits(&[5, 6], false, &mut |_, _| Ok(()))).unwrap_err(),
        block_on(bert.score(&[5, 6])).unwrap_err(),
    ];
    for error in refusals {
        assert_eq!(error.code, Code::UnsupportedArchitecture);
        assert!(error.message.contains("bert") && error.message.contains("embed"), "{error}");
    }
    let mut qwen = engine(&golden("qwen3-last").file("model.gguf"), "f16", Some("cpu+base"));
    assert!(generate(&mut qwen).unwrap() > 0);
}

/// Puts a value in place of a key's.
fn with(key: &'static str, value: Value) -> impl Fn(&mut Header) {
    move |header| {
        // The first of two counts.
        let others = header.metadata.iter().map(|(key, value)| (key.to_owned(), value.clone()));
        header.metadata = Metadata::from_entries([(key.to_owned(), value.clone())].into_iter().chain(others).collect());
    }
}

/// What a header with one thing changed is planned as: bytes on the device.
fn planned(name: &str, change: impl Fn(&mut Header), options: &LoadOptions) -> Result<u64, Error> {
    let file = std::fs::read(golden(name).file("model.gguf")).unwrap();
    let mut header = block_on(read_header(&MemorySource(file))).unwrap();
    change(&mut header);
    let tier = Tier { max_binding_bytes: 1 << 30, ..Tier::BASE };
    describe(&header, tier, options).map(|info| info.memory_bytes)
}

#[test]
fn hostile_headers_are_refused_before_memory_is_taken() {
    let plain = LoadOptions::default();
    let code = |name: &str, key: &'static str, value: Value| planned(name, with(key, value), &plain).map_err(|e| e.code);
    assert!(planned("bert-mean", |_| {}, &plain).unwrap() < 8 << 20);
    // Pooling that there is not, by number or by kind.
    for kind in [4, 99] {
        assert_eq!(code("bert-mean", "bert.pooling_type", Value::U32(kind)).unwrap_err(), Code::UnsupportedArchitecture);
    }
    assert_eq!(code("bert-mean", "bert.pooling_type", Value::String("mean".into())).unwrap_err(), Code::BadFile);
    // More positions than the table has.
    assert_eq!(code("bert-mean", "bert.context_length", Value::U32(1 << 20)).unwrap_err(), Code::BadFile);
    // A context that needs too much for one pass is not the default, and is not to be had.
    let long = with("nomic-bert.context_length", Value::U32(1 << 20));
    assert!(planned("nomic-bert", long, &plain).unwrap() < 64 << 20);
    let long = with("nomic-bert.context_length", Value::U32(1 << 20));
    let asked = LoadOptions { context_length: Some(1 << 20), ..Default::default() };
    assert_eq!(planned("nomic-bert", long, &asked).unwrap_err().code, Code::BadOption);
    // Missing tensors, and ones of another shape.
    for part in ["token_types.weight", "token_embd_norm.bias", "blk.1.layer_output_norm.weight", "position_embd.weight"] {
        let cut = |header: &mut Header| header.tensors.iter_mut().filter(|t| t.name == part).for_each(|t| t.shape[0] -= 32);
        assert_eq!(planned("bert-mean", cut, &plain).unwrap_err().code, Code::BadFile, "{part}");
    }
    // Windows and recurrences are for models that read forwards.
    assert!(code("bert-mean", "bert.attention.causal", Value::U32(1)).is_err());
}
