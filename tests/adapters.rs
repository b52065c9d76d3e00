//! LoRA adapters against transformers on merged weights (`tests/tools/fixtures/lora.py`), and adapters that do not fit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // also outside of #[test]

mod common;

use common::gguf_writer::{Gguf, types};
use common::models::{engine, gpu, logits_of, numbers};
use common::{data, read_f32, read_json};
use pollster::block_on;
use rivulet::engine::{AdapterUse, Engine, GenerateOptions, MemorySource, Prompt, read_header};
use rivulet::error::{Code, Result};
use rivulet::sample::SamplingOptions;
use rivulet::tensor::Format;
use serde_json::json;

/// As for the models themselves: f32 arithmetic on both sides, logits with a standard deviation of about 3.
const TOLERANCE: f32 = 1e-3;

fn file(name: &str) -> Vec<u8> {
    std::fs::read(data("adapters").join(name)).unwrap()
}

fn add(engine: &mut Engine, bytes: Vec<u8>) -> Result<u32> {
    let source = MemorySource(bytes);
    block_on(async { engine.load_adapter(&read_header(&source).await?, &source, &|| false).await })
}

#[test]
fn adapters_equal_merged_weights() {
    let golden = read_json(&data("adapters/golden.json"));
    let floats = read_f32(&data("adapters/golden.f32"));
    let tiers = ["cpu+base", "gpu+base", "gpu+f16+subgroup"].into_iter().filter(|tier| gpu(Some(tier)).is_ok());
    for tier in tiers {
        let tolerance = if tier.contains("f16") { 5e-2 } else { TOLERANCE };
        for model in ["llama-spm", "gemma3"] {
            let mut engine = engine(&data(&format!("models/{model}/model.gguf")), "f32", Some(tier));
            let mut loaded: Vec<String> = Vec::new();
            let mut worst = 0f32;
            for case in golden["cases"].as_array().unwrap().iter().filter(|case| case["model"] == model) {
                let mut chosen = Vec::new();
                for (name, scale) in case["adapters"].as_object().unwrap() {
                    let known = loaded.iter().position(|n| n == name);
                    let id = known.map_or_else(|| add(&mut engine, file(&format!("{name}.gguf"))).unwrap(), |id| id as u32);
                    if known.is_none() {
                        loaded.push(name.clone());
                    }
                    chosen.push(AdapterUse { id, scale: scale.as_f64().unwrap() as f32 });
                }
                block_on(engine.choose_adapters(&chosen)).unwrap();
                let ids = numbers(&case["ids"]);
                // The prompt as prefill passes, and its last token by itself, which is decode.
                let row = logits_of(&mut engine, &ids, false).remove(0);
                let want = &floats[case["offset"].as_u64().unwrap() as usize..][..row.len()];
                let error = row.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
                assert!(error <= tolerance, "{model} {tier} {}: {error}", case["adapters"]);
                worst = worst.max(error);
                let decoded = decode_logprob(&mut engine, &ids, chosen);
                let best = want.iter().copied().fold(f32::MIN, f32::max);
                let total: f64 = want.iter().map(|v| f64::from(v - best).exp()).sum();
                assert!((f64::from(decoded) + total.ln()).abs() <= f64::from(tolerance) * 2.0, "{model} {tier} decode");
            }
            println!("{model} {tier}: {worst:.1e}");
        }
    }
}

/// The log-probability of the most probable token, where the prompt's last token passes decode.
fn decode_logprob(engine: &mut Engine, ids: &[u32], adapters: Vec<AdapterUse>) -> f32 {
    let sampling = SamplingOptions { temperature: 0.0, ..Default::default() };
    let options = GenerateOptions { max_tokens: Some(1), ignore_eos: true, sampling, adapters, ..Default::default() };
    let mut logprob = f32::NAN;
    for prompt in [&ids[..ids.len() - 1], ids] {
        block_on(engine.generate(&Prompt::Ids(prompt.to_vec()), &options, &mut |t| logprob = t.logprob, &|| false)).unwrap();
    }
    logprob
}

#[test]
fn each_answer_has_its_own_choice() {
    let mut engine = engine(&data("models/llama-spm/model.gguf"), "f32", Some("cpu+base"));
    let answer = |engine: &mut Engine, adapters: serde_json::Value| {
        let options = json!({ "temperature": 0, "maxTokens": 12, "ignoreEos": true, "adapters": adapters });
        let options = GenerateOptions::parse(options)?;
        block_on(engine.generate(&Prompt::Ids(vec![1, 5, 6, 7]), &options, &mut |_| {}, &|| false)).map(|done| done.tokens)
    };
    let plain = answer(&mut engine, json!([])).unwrap();
    let id = add(&mut engine, file("llama-all.gguf")).unwrap();
    assert_eq!(answer(&mut engine, json!([])).unwrap(), plain, "an adapter that is not chosen changes nothing");
    let changed = answer(&mut engine, json!([{ "id": id }])).unwrap();
    assert_ne!(changed, plain);
    assert_eq!(answer(&mut engine, json!([{ "id": id, "scale": 0 }])).unwrap(), plain);
    assert_eq!(answer(&mut engine, json!([{ "id": id, "scale": 1 }])).unwrap(), changed);
    for bad in
        [json!([{ "id": 1 }]), json!([{ "id": 0 }, { "id": 0 }]), json!([{ "id": 0, "scale": "much" }]), json!([{ "name": 0 }])]
    {
        assert_eq!(answer(&mut engine, bad.clone()).unwrap_err().code, Code::BadOption, "{bad}");
        assert_eq!(answer(&mut engine, json!([])).unwrap(), plain);
    }
}

#[test]
fn adapters_that_do_not_fit_are_refused_and_the_model_still_works() {
    let mut engine = engine(&data("models/llama-spm/model.gguf"), "f32", Some("cpu+base"));
    let before = logits_of(&mut engine, &[1, 5, 6, 7], false);
    let lora = |kind: &str, of: &str, tensors: &[(&str, &[u64])]| {
        let mut file = Gguf::default()
            .text("general.type", kind)
            .text("general.architecture", of)
            .text("adapter.type", "lora")
            .pair("adapter.lora.alpha", types::F32, 8f32.to_le_bytes());
        for (name, shape) in tensors {
            file = file.tensor(name, Format::F32, shape, &vec![0; shape.iter().product::<u64>() as usize * 4]);
        }
        file.bytes()
    };
    let (a, b) = (("blk.0.attn_q.weight.lora_a", &[128, 4][..]), ("blk.0.attn_q.weight.lora_b", &[4, 128][..]));
    let mut truncated = file("llama-all.gguf");
    truncated.truncate(truncated.len() / 2);
    let bad = [
        ("a model", std::fs::read(data("models/llama-spm/model.gguf")).unwrap(), Code::BadFile),
        ("cut short", truncated, Code::BadFile),
        ("no GGUF", b"not a model at all".to_vec(), Code::BadFile),
        ("another family", file("gemma-all.gguf"), Code::BadFile),
        ("another kind", lora("model", "llama", &[a, b]), Code::BadFile),
        ("no tensors", lora("adapter", "llama", &[]), Code::BadFile),
        ("one of a pair", lora("adapter", "llama", &[a]), Code::BadFile),
        ("the other of a pair", lora("adapter", "llama", &[b]), Code::BadFile),
        ("two ranks", lora("adapter", "llama", &[a, (b.0, &[8, 128])]), Code::BadFile),
        ("a wider model", lora("adapter", "llama", &[(a.0, &[256, 4]), b]), Code::BadFile),
        ("another height", lora("adapter", "llama", &[a, (b.0, &[4, 64])]), Code::BadFile),
        ("a rank beyond all bounds", lora("adapter", "llama", &[(a.0, &[128, 2048]), (b.0, &[2048, 128])]), Code::BadFile),
        (
            "a layer too far",
            lora("adapter", "llama", &[("blk.7.attn_q.weight.lora_a", a.1), ("blk.7.attn_q.weight.lora_b", b.1)]),
            Code::BadFile,
        ),
        (
            "the embedding",
            lora("adapter", "llama", &[("token_embd.weight.lora_a", &[128, 4]), ("token_embd.weight.lora_b", &[4, 1000])]),
            Code::UnsupportedArchitecture,
        ),
    ];
    for (what, bytes, code) in bad {
        let error = add(&mut engine, bytes).expect_err(what);
        assert_eq!(error.code, code, "{what}: {error}");
        println!("{what}: {error}");
    }
    assert_eq!(logits_of(&mut engine, &[1, 5, 6, 7], false), before);
    assert_eq!(add(&mut engine, lora("adapter", "llama", &[a, b])).unwrap(), 0, "what failed left no number behind");
    let as_model =
        common::models::load(MemorySource(file("llama-all.gguf")), gpu(Some("cpu+base")).unwrap(), &Default::default());
    assert_eq!(as_model.err().unwrap().code, Code::BadFile, "an adapter is no model");
}

/// What an adapter of no numbers leaves in an f32 cache must not be multiplied into later answers.
#[test]
fn an_adapter_of_no_numbers_spoils_its_own_answer_only() {
    let plain = file("llama-all.gguf");
    let header = block_on(read_header(&MemorySource(plain.clone()))).unwrap();
    for (what, half) in [("NaN", 0x7e00u16), ("beyond all bounds", 0x7bff)] {
        let mut bytes = plain.clone();
        bytes[header.data_offset as usize..].chunks_exact_mut(2).for_each(|pair| pair.copy_from_slice(&half.to_le_bytes()));
        for tier in ["cpu+base", "gpu+base"] {
            let mut engine = engine(&data("models/llama-spm/model.gguf"), "f32", Some(tier));
            let answer = |engine: &mut Engine, adapters: Vec<AdapterUse>| {
                let sampling = SamplingOptions { temperature: 0.0, ..Default::default() };
                let options = GenerateOptions { max_tokens: Some(8), ignore_eos: true, sampling, adapters, ..Default::default() };
                let ids = (1..50).collect();
                block_on(engine.generate(&Prompt::Ids(ids), &options, &mut |_| {}, &|| false)).map(|done| done.tokens)
            };
            let before = answer(&mut engine, Vec::new()).unwrap();
            let id = add(&mut engine, bytes.clone()).unwrap();
            match answer(&mut engine, vec![AdapterUse { id, scale: 1.0 }]) {
                Err(error) => assert_eq!(error.code, Code::BadFile, "{what} {tier}: {error}"),
                Ok(_) => assert_ne!(what, "NaN"),
            }
            assert_eq!(answer(&mut engine, Vec::new()).unwrap(), before, "{what} {tier}");
            let logits = logits_of(&mut engine, &[1, 5, 6, 7], false);
            assert!(logits[0].iter().all(|v| v.is_finite()));
        }
    }
}
