//! Models whose layers remember: what they remember is exact, or it is not used.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // also outside of #[test]

mod common;

use std::path::PathBuf;

use common::gguf_writer::{Gguf, array, types};
use common::models::{Golden, gpu, greedy, load, logits_of, numbers};
use pollster::block_on;
use rivulet::engine::{Engine, Finish, GenerateOptions, Generated, LoadOptions, MemorySource, Prompt, read_header};
use rivulet::error::Code;
use rivulet::kernels::attention::{KvType, SplitRule};
use rivulet::model::{Plan, PlanOptions};
use rivulet::tensor::{Format, Tier};
use serde_json::json;

const TIERS: [&str; 2] = ["cpu+base", "gpu+base"];

/// A model of each mixer that remembers, with a long prompt.
fn models() -> [(&'static str, PathBuf, Vec<u32>); 2] {
    ["lfm2-tiny", "qwen35-tiny"].map(|name| {
        let golden = Golden::find(&format!("models/{name}")).expect("in tests/data/models");
        let prompts = golden.json["prompts"].as_array().unwrap();
        let long = prompts.iter().find(|p| p["name"] == "long").unwrap();
        (name, golden.file("model.gguf"), numbers(&long["ids"]))
    })
}

fn engine(path: &std::path::Path, tier: &str, max_prefill: Option<u32>) -> Engine {
    let options = LoadOptions { kv_type: Some(KvType::F32), autotune: Some(false), max_prefill, ..Default::default() };
    load(MemorySource(std::fs::read(path).unwrap()), gpu(Some(tier)).unwrap(), &options).unwrap()
}

fn generate(engine: &mut Engine, ids: &[u32], json: serde_json::Value) -> Generated {
    let options = GenerateOptions::parse(json).unwrap();
    block_on(engine.generate(&Prompt::Ids(ids.to_vec()), &options, &mut |_| {}, &|| false)).unwrap()
}

fn greedily(tokens: u32) -> serde_json::Value {
    json!({ "maxTokens": tokens, "ignoreEos": true, "temperature": 0 })
}

#[test]
fn a_memory_goes_on_from_pass_to_pass() {
    for (name, path, ids) in models() {
        for tier in TIERS {
            let whole = logits_of(&mut engine(&path, tier, Some(128)), &ids, true);
            // In passes of one token, of fewer tokens than a convolution has taps, and of many.
            for most in [1, 2, 33] {
                let parts = logits_of(&mut engine(&path, tier, Some(most)), &ids, true);
                let differ = |(a, b): (&Vec<f32>, &Vec<f32>)| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                let worst = whole.iter().zip(&parts).map(differ).fold(0.0, f32::max);
                println!("{name} {tier}: passes of {most} tokens differ by {worst:.1e}");
                assert!(worst < 1e-3, "{name} {tier}: passes of {most} tokens differ by {worst}");
            }
        }
    }
}

#[test]
fn a_prompt_goes_on_only_behind_all_that_is_remembered() {
    for (name, path, ids) in models() {
        for tier in TIERS {
            let mut engine = engine(&path, tier, Some(16));
            let mut check = |what: &str, ids: &[u32], cached: u32| {
                let got = generate(&mut engine, ids, greedily(6));
                assert_eq!(got.usage.cached_tokens, cached, "{name} {tier}: {what}");
                // What it says with nothing in the cache.
                let fresh = greedy(&mut self::engine(&path, tier, Some(16)), ids, 6);
                assert_eq!(got.tokens, fresh, "{name} {tier}: {what}");
                fresh
            };
            let tokens = check("the first prompt", &ids[..40], 0);
            let longer = [&ids[..40], &tokens[..], &ids[50..61]].concat();
            check("one that goes on behind all but the last token, which was never computed", &longer, 45);
            check("the same again", &longer, 0);
            check("another beginning", &ids[1..20], 0);
            check("a part of it", &ids[1..20], 0);
        }
    }
}

#[test]
fn what_ran_ahead_is_forgotten() {
    for (name, path, ids) in models() {
        let mut engine = engine(&path, "cpu+base", Some(16));
        let whole = generate(&mut engine, &ids[..20], greedily(24));
        let longer: Vec<u32> = ids[..20].iter().chain(&whole.tokens).chain(&ids[3..9]).copied().collect();
        let right = greedy(&mut self::engine(&path, "cpu+base", Some(16)), &longer, 8);
        // Whoever comes after an answer that ended somehow gets the right one, whatever part of it was kept.
        let after = |engine: &mut Engine, what: &str| {
            let next = generate(engine, &longer, greedily(8));
            assert_eq!(next.tokens, right, "{name}: after {what}");
            next.usage.cached_tokens
        };
        assert_eq!(after(&mut engine, "an answer of full length"), 43, "{name}: all but the last token");

        // Stop strings: the device has gone on, in the same group and in those behind it.
        let mut stops = 0;
        for taken in 1..13 {
            let prefix = generate(&mut engine, &ids[..20], greedily(taken)).text;
            let Some(stop) = prefix.chars().last().filter(|c| c.is_ascii()) else { continue };
            stops += 1;
            let stopped =
                generate(&mut engine, &ids[..20], json!({ "maxTokens": 24, "ignoreEos": true, "temperature": 0, "stop": stop }));
            assert_eq!(stopped.finish_reason, Finish::StopString, "{name}");
            after(&mut engine, "a stop string");
        }
        assert!(stops > 1, "{name}: only {stops} stop strings");

        // Aborts: between two tokens, and within the prompt.
        for most in [0, 1, 3, 7] {
            let seen = std::cell::Cell::new(0);
            let options = GenerateOptions::parse(json!({ "ignoreEos": true, "temperature": 0 })).unwrap();
            let prompt = Prompt::Ids(ids[..20].to_vec());
            let aborted = block_on(engine.generate(&prompt, &options, &mut |_| seen.set(seen.get() + 1), &|| seen.get() > most));
            assert_eq!(aborted.unwrap().finish_reason, Finish::Aborted, "{name}");
            after(&mut engine, "an abort");
        }
        for asked in [1, 2, 4] {
            let polls = std::cell::Cell::new(0);
            let cancel = || {
                polls.set(polls.get() + 1);
                polls.get() > asked
            };
            let prompt = Prompt::Ids(ids.clone());
            let aborted = block_on(engine.generate(&prompt, &GenerateOptions::default(), &mut |_| {}, &cancel)).unwrap();
            assert_eq!(aborted.finish_reason, Finish::Aborted, "{name}");
            after(&mut engine, "an abort in the prompt");
        }

        // Steps that the CPU samples are played once.
        let typical = json!({ "maxTokens": 9, "ignoreEos": true, "temperature": 1e-6, "typicalP": 0.999 });
        let sampled = generate(&mut engine, &ids[..20], typical);
        assert_eq!(sampled.tokens, whole.tokens[..9], "{name}: sampled on the CPU");
        assert_eq!(after(&mut engine, "steps that the CPU sampled"), 28, "{name}");

        // A score begins anew and leaves nothing.
        let scored = block_on(engine.score(&longer)).unwrap();
        assert_eq!(after(&mut engine, "a score"), 0, "{name}");
        assert_eq!(block_on(engine.score(&longer)).unwrap(), scored, "{name}");
    }
}

/// Only layers with attention have a cache, and what a token costs: 6 dispatches a layer with a delta net, 5 with a short
/// convolution, 4 for embedding, head and sampler.
#[test]
fn a_token_takes_few_dispatches() {
    for (name, path, _) in models() {
        let header = block_on(read_header(&MemorySource(std::fs::read(path).unwrap()))).unwrap();
        for cpu in [false, true] {
            let tier = Tier { cpu, ..Tier::BASE };
            let split_rule = SplitRule::of(tier);
            let options = PlanOptions { tier, context_length: 512, kv: KvType::F16, max_prefill: 64, split_rule };
            let plan = Plan::new(rivulet::model::read(&header).unwrap(), &header, options).unwrap();
            let dispatches = plan.decode(512).unwrap().dispatches.len();
            let caches = plan.buffers.iter().filter(|b| b.label.contains("KV cache")).count();
            let expected = if name == "lfm2-tiny" { 1 + 2 * 5 + 5 } else { 1 + 2 * 6 + 7 };
            assert_eq!((caches, dispatches), (1, expected), "{name}, cpu: {cpu}");
        }
    }
}

/// A header that says as much as the architecture of Qwen 3.5 or LFM2 needs to, with some numbers changed.
fn header(architecture: &str, changed: &[(&str, u32)]) -> Gguf {
    let numbers = [
        ("block_count", 4),
        ("embedding_length", 64),
        ("feed_forward_length", 128),
        ("attention.head_count", 2),
        ("context_length", 64),
        ("ssm.conv_kernel", 4),
        ("ssm.state_size", 32),
        ("ssm.group_count", 2),
        ("ssm.time_step_rank", 4),
        ("ssm.inner_size", 128),
        ("shortconv.l_cache", 3),
    ];
    let mut file = Gguf::default().text("general.architecture", architecture);
    for (key, number) in numbers {
        let number = changed.iter().find(|c| c.0 == key).map_or(number, |c| c.1);
        file = file.number(&format!("{architecture}.{key}"), number);
    }
    file = file.pair(format!("{architecture}.attention.layer_norm_rms_epsilon"), types::F32, 1e-6f32.to_le_bytes());
    if architecture == "lfm2" {
        let heads: Vec<Vec<u8>> = [0u32, 1, 0, 1].map(|n| n.to_le_bytes().to_vec()).into();
        file = file.pair("lfm2.attention.head_count_kv", types::ARRAY, array(types::U32, &heads));
    }
    file.zeros("token_embd.weight", Format::F32, &[64, 32])
}

fn read(file: &Gguf) -> rivulet::error::Result<rivulet::model::Architecture> {
    rivulet::model::read(&block_on(read_header(&MemorySource(file.bytes()))).unwrap())
}

#[test]
fn sizes_that_no_memory_can_have_are_refused() {
    for architecture in ["lfm2", "qwen35"] {
        let read = read(&header(architecture, &[])).unwrap();
        assert!(read.is_recurrent() && read.recurrent(0).is_some() && read.recurrent(3).is_none(), "{architecture}");
    }
    let (bad, unsupported) = (Code::BadFile, Code::UnsupportedArchitecture);
    for (architecture, changed, code) in [
        ("lfm2", vec![("shortconv.l_cache", 0)], unsupported),
        ("lfm2", vec![("shortconv.l_cache", 9)], unsupported),
        ("lfm2", vec![("shortconv.l_cache", u32::MAX)], unsupported),
        ("lfm2", vec![("block_count", 5)], bad),
        ("lfm2", vec![("block_count", u32::MAX)], bad),
        ("qwen35", vec![("block_count", u32::MAX)], bad),
        ("qwen35", vec![("ssm.conv_kernel", 0)], unsupported),
        ("qwen35", vec![("ssm.conv_kernel", 9)], unsupported),
        ("qwen35", vec![("ssm.state_size", 0)], unsupported),
        ("qwen35", vec![("ssm.state_size", 260)], unsupported),
        ("qwen35", vec![("ssm.state_size", u32::MAX)], unsupported),
        ("qwen35", vec![("ssm.group_count", 0)], unsupported),
        ("qwen35", vec![("ssm.group_count", 3)], unsupported),
        ("qwen35", vec![("ssm.group_count", 8)], unsupported),
        ("qwen35", vec![("ssm.time_step_rank", 0)], bad),
        ("qwen35", vec![("ssm.time_step_rank", 3)], bad),
        ("qwen35", vec![("ssm.time_step_rank", u32::MAX), ("ssm.inner_size", u32::MAX)], unsupported),
        ("qwen35", vec![("ssm.inner_size", 0)], bad),
        ("qwen35", vec![("ssm.inner_size", u32::MAX - 3)], unsupported),
        ("qwen35", vec![("ssm.inner_size", 16)], unsupported),
    ] {
        let found = read(&header(architecture, &changed)).unwrap_err();
        assert_eq!(found.code, code, "{architecture} {changed:?}: {found}");
    }
    let flags = |n: usize| array(types::BOOL, &vec![vec![1]; n]);
    let with = |n| header("qwen35", &[]).pair("qwen35.attention.recurrent_layers", types::ARRAY, flags(n));
    assert!(read(&with(4)).unwrap().recurrent(3).is_some());
    assert_eq!(read(&with(3)).unwrap_err().code, bad);
    let heads: Vec<Vec<u8>> = [2i32, -1, 2, 2].map(|n| n.to_le_bytes().to_vec()).into();
    let negative = header("qwen35", &[]).pair("qwen35.attention.head_count_kv", types::ARRAY, array(types::I32, &heads));
    assert_eq!(read(&negative).unwrap_err().code, bad);
}
