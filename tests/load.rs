//! The whole loader, from bytes to tokens: damaged files, aborts, wrong options, prefixes kept in the cache.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // also outside of #[test]

mod common;

use common::gguf_writer::{Gguf, types};
use common::models::{StillHost, engine, gpu, greedy, load, logits_of};
use common::{Rng, data};
use pollster::block_on;
use rivulet::engine::{
    AbortFlag, Engine, Finish, GenerateOptions, Host, LoadOptions, MemorySource, Prompt, describe, read_header,
};
use rivulet::error::{Code, Error};
use rivulet::sample::SamplingOptions;
use rivulet::tensor::{Format, Tier};
use serde_json::json;

const MODEL: &str = "models/q-llama/Q4_K_M.gguf";

/// Damaged copies that are loaded whole; the parser alone sees a thousand more in tests/fuzz.rs.
const COPIES: usize = 1000;

fn options(json: serde_json::Value) -> GenerateOptions {
    GenerateOptions::parse(json).unwrap()
}

fn generate(engine: &mut Engine, prompt: &[u32], json: serde_json::Value) -> Result<rivulet::engine::Generated, Error> {
    block_on(engine.generate(&Prompt::Ids(prompt.to_vec()), &options(json), &mut |_| {}, &|| false))
}

#[test]
fn damaged_files_give_errors_or_tokens() {
    let good = std::fs::read(data(MODEL)).unwrap();
    let device = gpu(Some("cpu+base")).unwrap();
    let load_options: LoadOptions = serde_json::from_value(json!({ "contextLength": 64 })).unwrap();
    let mut rng = Rng(2026);
    let (mut loaded, mut refused) = (0, std::collections::BTreeMap::<&str, usize>::new());
    for copy in 0..COPIES {
        let mut bytes = good.clone();
        // Most of the damage falls on the header, where it hurts.
        let within = if copy % 4 == 0 { bytes.len() } else { 24 << 10 };
        for _ in 0..=rng.below(3) {
            let at = rng.below(within.min(bytes.len()));
            match rng.below(4) {
                0 => bytes[at] ^= 1 << rng.below(8),
                1 => bytes[at] = rng.next() as u8,
                2 => {
                    let from = rng.below(bytes.len() - 64);
                    let piece = bytes[from..from + 64].to_vec();
                    let end = (at + 64).min(bytes.len());
                    bytes[at..end].copy_from_slice(&piece[..end - at]);
                }
                _ if rng.below(4) == 0 => bytes.truncate(at.max(100)),
                _ => {}
            }
        }
        match load(MemorySource(bytes), device.clone(), &load_options) {
            Ok(mut engine) => {
                loaded += 1;
                // Weights that became NaN are an error of the sampler's, not a hang.
                if let Err(e) = generate(&mut engine, &[1, 2, 3], json!({ "maxTokens": 2, "temperature": 0, "ignoreEos": true }))
                {
                    assert_eq!(e.code, Code::BadFile, "copy {copy}: {e}");
                    *refused.entry("damaged weights").or_default() += 1;
                }
            }
            Err(e) => {
                let expected = [
                    Code::BadFile,
                    Code::UnsupportedQuant,
                    Code::UnsupportedArchitecture,
                    Code::UnsupportedTokenizer,
                    Code::BadTemplate,
                    Code::BadOption,
                    Code::OutOfMemory,
                ];
                assert!(expected.contains(&e.code), "copy {copy}: {e}");
                *refused.entry(e.code.as_str()).or_default() += 1;
            }
        }
    }
    println!("{loaded} of {COPIES} loaded; refused: {refused:?}");
    assert!(loaded > 20 && refused.len() >= 3, "the damage is too great or too small to tell: {loaded}, {refused:?}");
    // The device still works after all that.
    assert_eq!(greedy(&mut engine(&data(MODEL), "f32", Some("cpu+base")), &[1, 2, 3], 4).len(), 4);
}

#[test]
fn what_the_cache_holds_is_not_computed_again() {
    let mut engine = engine(&data(MODEL), "f32", Some("cpu+base"));
    let prompt: Vec<u32> = (1..80).collect();
    let greedy = json!({ "maxTokens": 6, "temperature": 0, "ignoreEos": true });
    let first = generate(&mut engine, &prompt, greedy.clone()).unwrap();
    assert_eq!((first.usage.cached_tokens, first.usage.completion_tokens), (0, 6));
    let again = generate(&mut engine, &prompt, greedy.clone()).unwrap();
    assert_eq!((again.usage.cached_tokens, &again.tokens), (78, &first.tokens));
    // A conversation goes on: prompt, answer, more.
    let mut longer = prompt.clone();
    longer.extend(&first.tokens);
    longer.extend([9, 8, 7]);
    let warm = generate(&mut engine, &longer, greedy.clone()).unwrap();
    assert_eq!(warm.usage.cached_tokens, 84, "all of the first answer but its last token, which was never computed");
    // Another prompt in between, then the same again from nothing: the same tokens.
    generate(&mut engine, &[5, 6, 7], greedy.clone()).unwrap();
    let cold = generate(&mut engine, &longer, greedy).unwrap();
    assert_eq!((cold.usage.cached_tokens, cold.tokens), (0, warm.tokens));
}

#[test]
fn tokens_are_delivered_once_in_order_and_add_up_to_the_text() {
    let mut engine = engine(&data(MODEL), "f16", None);
    let mut seen = Vec::new();
    let options = options(json!({ "maxTokens": 40, "temperature": 1.0, "seed": 7, "ignoreEos": true }));
    let done = block_on(engine.generate(&Prompt::Text("The quick".into()), &options, &mut |t| seen.push(t), &|| false)).unwrap();
    assert_eq!(done.tokens.len(), 40);
    assert_eq!(seen.iter().map(|t| t.id).collect::<Vec<_>>(), done.tokens);
    assert_eq!(seen.iter().map(|t| t.index).collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
    assert_eq!(seen.iter().map(|t| t.text.as_str()).collect::<String>(), done.text);
    assert!(seen.iter().all(|t| t.logprob <= 0.0));
    let again = block_on(engine.generate(&Prompt::Text("The quick".into()), &options, &mut |_| {}, &|| false)).unwrap();
    assert_eq!(again.tokens, done.tokens, "the same seed");
    // A stop string in the middle of what was generated ends there, and is not part of the text.
    let stop: String = done.text.chars().skip(12).take(3).collect();
    let stopped = block_on(engine.generate(
        &Prompt::Text("The quick".into()),
        &GenerateOptions { stop: vec![stop.clone()], ..options.clone() },
        &mut |_| {},
        &|| false,
    ))
    .unwrap();
    assert_eq!(stopped.finish_reason, Finish::StopString);
    assert_eq!(stopped.text, done.text[..done.text.find(&stop).unwrap()]);
}

#[test]
fn samplers_on_the_device_and_on_the_cpu_draw_alike() {
    let mut engine = engine(&data(MODEL), "f32", None);
    // typicalP is left to the CPU at every step; at 1 it changes nothing but who draws.
    for extra in
        [json!({ "topK": 20 }), json!({ "topP": 0.5 }), json!({ "minP": 0.05 }), json!({ "repetitionPenalty": 1.3, "topK": 40 })]
    {
        let mut on_gpu = json!({ "maxTokens": 12, "temperature": 0.8, "seed": 11, "ignoreEos": true });
        on_gpu.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let mut on_cpu = on_gpu.clone();
        // An order that no kernel follows, with the same meaning: temperature comes last in both.
        on_cpu["order"] = json!([
            "presencePenalty",
            "frequencyPenalty",
            "repetitionPenalty",
            "logitBias",
            "topK",
            "topP",
            "minP",
            "temperature"
        ]);
        let a = generate(&mut engine, &[1, 2, 3, 4], on_gpu).unwrap();
        let b = generate(&mut engine, &[1, 2, 3, 4], on_cpu).unwrap();
        assert_eq!(a.tokens, b.tokens, "{extra}");
    }
}

#[test]
fn wrong_options_name_the_option() {
    let mut engine = engine(&data(MODEL), "f32", Some("cpu+base"));
    let bad = |engine: &mut Engine, json: serde_json::Value| match GenerateOptions::parse(json) {
        Err(e) => e,
        Ok(o) => block_on(engine.generate(&Prompt::Ids(vec![1]), &o, &mut |_| {}, &|| false)).unwrap_err(),
    };
    for (json, word) in [
        (json!({ "temprature": 1 }), "temprature"),
        (json!({ "temperature": -1 }), "temperature"),
        (json!({ "topP": 2 }), "topP"),
        (json!({ "maxTokens": 0 }), "maxTokens"),
        (json!({ "stop": [""] }), "stop"),
        (json!({ "logitBias": { "999999": 1 } }), "logitBias"),
    ] {
        let e = bad(&mut engine, json);
        assert!(e.code == Code::BadOption && e.message.contains(word), "{word}: {e}");
    }
    let run = |engine: &mut Engine, prompt: Prompt| {
        block_on(engine.generate(&prompt, &GenerateOptions::default(), &mut |_| {}, &|| false)).unwrap_err().code
    };
    assert_eq!(run(&mut engine, Prompt::Ids(vec![])), Code::BadOption);
    assert_eq!(run(&mut engine, Prompt::Ids(vec![1_000_000])), Code::BadOption);
    assert_eq!(run(&mut engine, Prompt::Ids(vec![1; 600])), Code::ContextOverflow);
    let messages: minijinja::Value = serde_json::from_value(json!([{ "role": "user", "content": "hi" }])).unwrap();
    assert_eq!(run(&mut engine, Prompt::Messages(messages)), Code::BadTemplate, "a model without a template");
    // None of it broke the engine.
    assert_eq!(greedy(&mut engine, &[1, 2], 3).len(), 3);
    let too_long: LoadOptions = serde_json::from_value(json!({ "contextLength": 1_000_000 })).unwrap();
    let source = MemorySource(std::fs::read(data(MODEL)).unwrap());
    let refused = load(source, gpu(Some("cpu+base")).unwrap(), &too_long).err().unwrap();
    assert!(refused.code == Code::BadOption && refused.message.contains("contextLength"), "{refused}");
}

#[test]
fn aborting_ends_a_load_with_an_error_and_an_answer_without_one() {
    let source = MemorySource(std::fs::read(data(MODEL)).unwrap());
    let device = gpu(Some("cpu+base")).unwrap();
    let options = LoadOptions::default();
    let loaded = block_on(Engine::load(&source, device, &options, Box::new(StillHost), &mut |_| {}, &|| true));
    assert_eq!(loaded.err().unwrap().code, Code::Aborted);
    let mut engine = engine(&data(MODEL), "f32", Some("cpu+base"));
    let count = std::cell::Cell::new(0);
    let options = GenerateOptions {
        ignore_eos: true,
        sampling: SamplingOptions { temperature: 0.0, ..Default::default() },
        ..Default::default()
    };
    let stop = || count.get() >= 3;
    let done = block_on(engine.generate(&Prompt::Ids(vec![1, 2]), &options, &mut |_| count.set(count.get() + 1), &stop)).unwrap();
    assert_eq!(done.finish_reason, Finish::Aborted);
    assert!(done.tokens.len() >= 3 && done.tokens.len() < 40, "{}", done.tokens.len());
    // The next answer is whole, and equal to one that nothing preceded.
    let next = greedy(&mut engine, &[1, 2], 10);
    assert_eq!(next[..done.tokens.len().min(10)], done.tokens[..done.tokens.len().min(10)]);
    // The context's end is a length, not an error.
    let full = block_on(engine.generate(&Prompt::Ids(vec![1, 2]), &options, &mut |_| {}, &|| false)).unwrap();
    assert_eq!((full.finish_reason, full.usage.prompt_tokens + full.usage.completion_tokens), (Finish::Length, 512));
}

#[test]
fn an_abort_ends_the_wait_for_the_device_and_the_next_answer_is_whole() {
    let mut engine = engine(&data(MODEL), "f32", Some("cpu+base"));
    let long: Vec<u32> = (0..500).map(|i| 1 + i % 300).collect();
    let (short_answer, long_answer) = (greedy(&mut engine, &[1, 2], 10), greedy(&mut engine, &long, 4));
    let options = options(json!({ "temperature": 0, "ignoreEos": true }));
    for (prompt, after_ms) in [(vec![1, 2], 40), (vec![1, 2], 0), (long.clone(), 0), (long.clone(), 5)] {
        let _ = greedy(&mut engine, &[7, 7, 7], 1); // nothing of the prompt is cached
        let flag = AbortFlag::default();
        let raised = flag.clone();
        let raiser = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(after_ms));
            raised.abort();
            std::time::Instant::now()
        });
        let mut seen = Vec::new();
        let done = block_on(engine.generate(&Prompt::Ids(prompt.clone()), &options, &mut |t| seen.push(t.id), &flag)).unwrap();
        let waited = std::time::Instant::now().saturating_duration_since(raiser.join().unwrap());
        assert_eq!((done.finish_reason, &done.tokens), (Finish::Aborted, &seen), "after {after_ms} ms");
        println!("{} tokens of prompt, {} of answer: the abort took {waited:?}", prompt.len(), seen.len());
        // What was in flight does not harm what follows, whether it goes on from the same prompt or not.
        assert_eq!(greedy(&mut engine, &[1, 2], 10), short_answer, "after {after_ms} ms");
        assert_eq!(greedy(&mut engine, &long, 4), long_answer, "after {after_ms} ms");
    }
}

#[test]
fn a_token_costs_a_part_of_a_submit_and_creates_nothing() {
    let mut engine = engine(&data(MODEL), "f32", Some("cpu+base"));
    let prompt: Vec<u32> = (0..300).map(|i| 1 + i % 300).collect();
    let mut costs = Vec::new();
    for tokens in [2, 101] {
        let json = json!({ "maxTokens": tokens, "temperature": 0, "ignoreEos": true });
        let done = generate(&mut engine, &prompt, json).unwrap();
        assert_eq!(done.finish_reason, Finish::Length);
        costs.push(done.decode_cost);
        if tokens == 2 {
            assert!(done.timings.prefill_submits > 4, "{} submits for the prompt", done.timings.prefill_submits);
        }
    }
    let [one, hundred] = costs[..] else { panic!() };
    assert_eq!((one.objects, one.submits, one.readbacks), (0, 1, 1));
    assert_eq!((hundred.objects, hundred.dispatches), (0, 100 * one.dispatches), "no step was played in vain");
    // The clock of this test stands still, so groups grow to their most.
    assert!(hundred.submits <= 12 && hundred.readbacks == hundred.submits, "{hundred:?}");
}

/// A clock that goes, so that the time for tuning runs out.
struct GoingHost(std::time::Instant);

impl Host for GoingHost {
    fn now_ms(&self) -> f64 {
        self.0.elapsed().as_secs_f64() * 1000.0
    }

    fn unix_seconds(&self) -> i64 {
        0
    }

    fn entropy(&self) -> u64 {
        0
    }
}

#[test]
fn tuning_changes_no_answer_and_is_found_again() {
    let source = || MemorySource(std::fs::read(data(MODEL)).unwrap());
    let device = gpu(Some("gpu+base")).unwrap();
    let load_with = |options: serde_json::Value| {
        let options: LoadOptions = serde_json::from_value(options).unwrap();
        let host = Box::new(GoingHost(std::time::Instant::now()));
        let mut engine = block_on(Engine::load(&source(), device.clone(), &options, host, &mut |_| {}, &|| false)).unwrap();
        let tuning = serde_json::to_value(&engine.info().tuning).unwrap();
        (logits_of(&mut engine, &[1, 2, 3, 4, 5], false).remove(0), greedy(&mut engine, &[1, 2], 8), tuning)
    };
    let (logits, tokens, untuned) = load_with(json!({ "autotune": false }));
    assert_eq!((&untuned["source"], &untuned["measured"]), (&json!("default"), &json!(0)));
    let key = untuned["key"].as_str().unwrap();
    let same = |(other, answer, tuning): (Vec<f32>, Vec<u32>, serde_json::Value), source: &str| {
        let error = logits.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(error < 1e-4 && answer == tokens, "{tuning}: {error}");
        assert_eq!(tuning["source"], source);
        tuning
    };
    let measured = same(load_with(json!({})), "measured");
    assert!(measured["measured"].as_u64() > Some(0) && measured["key"] == key, "{measured}");
    // Other choices than the default, as a visit before may have found them.
    for (rows, invocations) in [(1, 32), (2, 256), (4, 64)] {
        let choice = |rows: u32| json!({ "rows": rows, "invocations": invocations });
        let (one, gated) = (choice(rows), choice(rows.max(2)));
        let choices = json!({ "qkv": one, "out": one, "gate_up": gated, "down": one, "head": one });
        let stored = same(load_with(json!({ "tunings": { key: choices } })), "stored");
        assert_eq!(stored["choices"], choices);
    }
    // What no kernel can be made of is measured again, and what was stored for another model is passed over.
    for bad in [json!("?"), json!({ "qkv": 1 }), json!(null)] {
        same(load_with(json!({ "tunings": { key: bad, "other": 3 } })), "measured");
    }
    let mut wild = measured["choices"].clone();
    wild["head"]["invocations"] = json!(3_000_000);
    same(load_with(json!({ "tunings": { key: wild } })), "measured");
}

#[test]
fn precision_is_exact_or_fast() {
    let error = serde_json::from_value::<LoadOptions>(json!({ "precision": "half" })).unwrap_err().to_string();
    assert!(error.contains("half") && error.contains("exact") && error.contains("fast"), "{error}");
    let device = gpu(Some("cpu+base")).unwrap();
    for (precision, tier) in [(json!(null), "cpu+base"), (json!("exact"), "cpu+base"), (json!("fast"), "cpu+base+int8")] {
        let options: LoadOptions = serde_json::from_value(json!({ "precision": precision })).unwrap();
        let source = MemorySource(std::fs::read(data(MODEL)).unwrap());
        let engine = common::models::load(source, device.clone(), &options).unwrap();
        let named = engine.info().adapter.as_ref().map(|a| a.tier.as_str());
        assert_eq!((engine.report().tier.as_str(), named), (tier, Some(tier)));
        assert!(engine.info().tuning.as_ref().is_some_and(|t| t.key.contains(tier)));
    }
}

/// The header of a small llama, its weights zero.
fn small() -> Gguf {
    let mut file = Gguf::default()
        .text("general.architecture", "llama")
        .number("llama.block_count", 1)
        .number("llama.embedding_length", 64)
        .number("llama.feed_forward_length", 64)
        .number("llama.attention.head_count", 2)
        .number("llama.context_length", 128)
        .pair("llama.attention.layer_norm_rms_epsilon", types::F32, 1e-5f32.to_le_bytes());
    for (name, shape) in [
        ("token_embd.weight", &[64, 96][..]),
        ("output_norm.weight", &[64]),
        ("blk.0.attn_norm.weight", &[64]),
        ("blk.0.ffn_norm.weight", &[64]),
        ("blk.0.attn_q.weight", &[64, 64]),
        ("blk.0.attn_k.weight", &[64, 64]),
        ("blk.0.attn_v.weight", &[64, 64]),
        ("blk.0.attn_output.weight", &[64, 64]),
        ("blk.0.ffn_gate.weight", &[64, 64]),
        ("blk.0.ffn_up.weight", &[64, 64]),
        ("blk.0.ffn_down.weight", &[64, 64]),
    ] {
        file = file.zeros(name, Format::F32, shape);
    }
    file
}

#[test]
fn what_would_change_the_answer_is_refused_not_left_out() {
    let describe = |file: Gguf| {
        let header = block_on(read_header(&MemorySource(file.bytes())))?;
        describe(&header, Tier::BASE, &LoadOptions::default())
    };
    assert_eq!(describe(small()).unwrap().context_length, 128);
    // A broken template is told, and is no reason to refuse the model.
    let broken = describe(small().text("tokenizer.chat_template", "{% if %}")).unwrap();
    assert!(broken.has_chat_template && broken.template_error.unwrap().contains("line 1"));
    let info = describe(small().text("tokenizer.chat_template.default", "x")).unwrap();
    assert!(info.has_chat_template && info.template_error.is_none());
    // Where tokens see later ones, a text is one pass: of any family.
    describe(small().pair("llama.attention.causal", types::BOOL, [0])).unwrap();
    let refused = [
        ("attn_sub_norm", small().zeros("blk.0.attn_sub_norm.weight", Format::F32, &[64])),
        ("blk.7.attn_sinks", small().zeros("blk.7.attn_sinks", Format::F32, &[32])),
        ("llama.attention.clamp_kqv", small().pair("llama.attention.clamp_kqv", types::F32, 8f32.to_le_bytes())),
        ("pooling", small().number("llama.pooling_type", 4)),
        ("dynamic", small().text("llama.rope.scaling.type", "dynamic")),
        ("t5", Gguf::default().text("general.architecture", "t5")),
    ];
    for (word, file) in refused {
        let e = describe(file).unwrap_err();
        assert!(e.code == Code::UnsupportedArchitecture && e.message.contains(word), "{word}: {e}");
    }
    // Blocks that only guess further tokens are left out.
    let ahead = |n| {
        let mut file =
            small().number("llama.nextn_predict_layers", n).zeros("blk.1.nextn.eh_proj.weight", Format::F32, &[64, 64]);
        file.metadata[1].2 = 2u32.to_le_bytes().to_vec(); // block_count
        file
    };
    assert_eq!(describe(ahead(1)).unwrap().memory_bytes, describe(small()).unwrap().memory_bytes);
    assert_eq!(describe(ahead(0)).unwrap_err().code, Code::BadFile);
    assert_eq!(describe(ahead(2)).unwrap_err().code, Code::BadFile);
    assert_eq!(describe(ahead(u32::MAX)).unwrap_err().code, Code::BadFile);
    // A later dispatch could not be checked so cheaply: a tensor of the wrong shape names both shapes.
    let mut wrong = small();
    wrong.tensors[4].shape = vec![64, 32];
    let e = describe(wrong).unwrap_err();
    assert!(e.code == Code::BadFile && e.message.contains("attn_q") && e.message.contains("[64, 64]"), "{e}");
}

/// A context is what was asked for, though the cache has whole blocks: a model of learned positions has no row beyond its last.
#[test]
fn a_context_of_no_whole_number_of_blocks_ends_where_it_says() {
    let path = common::data("models/gpt2/model.gguf");
    let options: LoadOptions = serde_json::from_value(serde_json::json!({ "contextLength": 45, "autotune": false })).unwrap();
    let source = MemorySource(std::fs::read(path).unwrap());
    let mut engine = common::models::load(source, common::models::gpu(Some("cpu+base")).unwrap(), &options).unwrap();
    assert_eq!(engine.info().context_length, 45);
    assert_eq!(common::models::logits_of(&mut engine, &[5; 45], false).len(), 1);
    let error = pollster::block_on(engine.logits(&[5; 46], false, &mut |_, _| Ok(()))).unwrap_err();
    assert_eq!(error.code, Code::ContextOverflow, "{error}");
}
