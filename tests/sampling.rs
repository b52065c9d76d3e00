//! The CPU sampling chain: against the probabilities of llama.cpp and transformers (tests/data/sampling), and on the
//! inputs that nobody should send.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // also outside of #[test]

use rivulet::error::Code;
use rivulet::sample::{CpuSampler, Mode, Plan, SamplingOptions, log_softmax_at, probabilities, top_logprobs};
use serde_json::{Map, Value, json};

fn options(value: Value) -> SamplingOptions {
    SamplingOptions::parse(value).expect("valid options")
}

/// The file's snake_case parameters as the JavaScript options.
fn from_golden(params: &Value) -> SamplingOptions {
    let camel = |name: &str| {
        let mut words = name.split('_');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |text, word| text + &word[..1].to_uppercase() + &word[1..])
    };
    let renamed: Map<String, Value> =
        params.as_object().expect("params").iter().map(|(name, value)| (camel(name), value.clone())).collect();
    options(Value::Object(renamed))
}

/// Where the references differ by design, which one this chain follows, and why.
fn reference_of(vector: &str, case: &str) -> (&'static str, bool) {
    match (vector, case) {
        // 0 * ln 0 is 0: llama.cpp's entropy becomes NaN.
        ("neg_inf", "typical_p") => ("transformers", false),
        // Top-k keeps exactly k of the tied, as llama.cpp does. Which of the tied top-k and top-p keep is an accident of
        // the references' unstable sorts, here the lowest ids: so the probabilities are compared as a multiset.
        ("thousand_ties", "top_p" | "combo_llamacpp_order_full") => ("llamacpp", true),
        _ => ("llamacpp", false),
    }
}

#[test]
fn the_chain_gives_the_probabilities_of_llamacpp_and_transformers() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/sampling");
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(format!("{data}/golden.json")).unwrap()).unwrap();
    let bytes = std::fs::read(format!("{data}/golden.f32")).unwrap();
    let floats: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    let slice = |offset: &Value, n: usize| &floats[offset.as_u64().unwrap() as usize..][..n];
    let (mut checked, mut worst) = (0, 0.0f64);
    for vector in golden["vectors"].as_array().unwrap() {
        let (name, n) = (vector["vector"].as_str().unwrap(), vector["n"].as_u64().unwrap() as usize);
        let logits = slice(&vector["logits_offset"], n);
        let history: Vec<u32> = serde_json::from_value(vector["history"].clone()).unwrap();
        for case in vector["cases"].as_array().unwrap() {
            let case_name = case["case"].as_str().unwrap();
            if case_name == "top_n_sigma" {
                continue; // not an option of ours
            }
            let mut found = probabilities(logits, &history, &from_golden(&case["params"])).unwrap();
            let (reference, as_multiset) = reference_of(name, case_name);
            let both: &[&str] = if case["agree"].as_bool().unwrap() { &["llamacpp", "transformers"] } else { &[reference] };
            for reference in both {
                let entry = if case[reference].is_null() { &case["transformers_or_formula"] } else { &case[reference] };
                let mut expected: Vec<f64> = slice(&entry["offset"], n).iter().map(|p| f64::from(*p)).collect();
                if as_multiset {
                    found.sort_by(f64::total_cmp);
                    expected.sort_by(f64::total_cmp);
                }
                let error = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(error <= 1e-5, "{name}/{case_name} against {reference}: {error}");
                checked += 1;
                worst = worst.max(error);
            }
        }
    }
    println!("{checked} comparisons, largest difference {worst:.1e}");
    assert_eq!(checked, 5 * 14 * 2 - 3, "every case, the three that disagree against one reference");
}

fn bad(value: Value) -> String {
    let error = SamplingOptions::parse(value).and_then(|options| options.validate(100)).expect_err("bad options");
    assert_eq!(error.code, Code::BadOption);
    error.message
}

#[test]
fn a_bad_option_is_named_with_what_was_expected_and_found() {
    for (value, parts) in [
        (json!({"temprature": 1}), ["temprature", "temperature, topK"]),
        (json!({"temperature": -1}), ["temperature: expected a number from 0", "found -1"]),
        (json!({"temperature": "hot"}), ["temperature", "\"hot\""]),
        (json!({"topK": -3}), ["topK", "-3"]),
        (json!({"topK": 2.5}), ["topK", "2.5"]),
        (json!({"topP": 1.01}), ["topP: expected a number from 0 to 1", "found 1.01"]),
        (json!({"minP": 2}), ["minP", "found 2"]),
        (json!({"typicalP": -0.1}), ["typicalP", "-0.1"]),
        (json!({"repetitionPenalty": 0}), ["repetitionPenalty", "found 0"]),
        (json!({"frequencyPenalty": 1e9}), ["frequencyPenalty", "1000000000"]),
        (json!({"presencePenalty": 1e300}), ["presencePenalty", "inf"]),
        (json!({"penaltyWindow": "all"}), ["penaltyWindow", "all"]),
        (json!({"seed": -1}), ["seed", "-1"]),
        (json!({"logitBias": {"100": 1}}), ["logitBias: expected token ids below 100", "found 100"]),
        (json!({"logitBias": {"x": 1}}), ["logitBias: expected a token id", "\"x\""]),
        (json!({"logitBias": [[1, 2], [1, 3]]}), ["logitBias", "token 1 twice"]),
        (json!({"logitBias": [[1, 1e30]]}), ["logitBias of token 1", "found 1"]),
        (json!({"order": ["topQ"]}), ["order", "topQ"]),
        (json!({"order": ["topK", "top_k"]}), ["order", "topK twice"]),
        (json!({"order": ["topK"], "topP": 0.5}), ["order", "topP set and not named"]),
        (json!([1]), ["object", "sequence"]),
    ] {
        let message = bad(value.clone());
        for part in parts {
            assert!(message.contains(part), "{value}: {message:?} lacks {part:?}");
        }
    }
    let nan = SamplingOptions { top_p: f32::NAN, ..Default::default() };
    assert!(nan.validate(1).expect_err("NaN").message.contains("topP: expected a number from 0 to 1, found NaN"));
    assert_eq!(options(json!({"topK": null, "seed": null, "logitBias": null})), SamplingOptions::default());
    let pairs = options(json!({"logitBias": [[3, -1.5]]}));
    assert_eq!(pairs, options(json!({"logitBias": {"3": -1.5}})));
}

#[test]
fn every_field_is_listed() {
    for name in SamplingOptions::FIELDS {
        assert!(SamplingOptions::parse(json!({*name: null})).is_ok(), "{name}");
    }
}

#[test]
fn ties_infinities_and_nan() {
    let greedy = options(json!({"temperature": 0}));
    let sampler = CpuSampler::new(greedy.clone(), 5, 1).unwrap();
    let drawn = sampler.draw(&[1.0, 3.0, -1.0, 3.0, 3.0], &[], 0).unwrap();
    assert_eq!(drawn.token, 1, "the lowest id among equals");
    assert!((f64::from(drawn.logprob) - log_softmax_at(&[1.0, 3.0, -1.0, 3.0, 3.0], 1).unwrap()).abs() < 1e-6);

    let infinite = f32::NEG_INFINITY;
    assert_eq!(probabilities(&[infinite, 2.0, infinite], &[], &greedy).unwrap(), [0.0, 1.0, 0.0]);
    for (logits, part) in [
        (vec![infinite; 3], "no finite one"),
        (vec![0.0, f32::NAN, 0.0], "found NaN for token 1"),
        (vec![0.0, 0.0, f32::INFINITY], "found inf for token 2"),
        (vec![], "found 0 logits"),
    ] {
        let error = probabilities(&logits, &[], &SamplingOptions::default()).expect_err(part);
        assert!(error.code == Code::Internal && error.message.contains(part), "{error}");
    }
    let ban = SamplingOptions { logit_bias: vec![(0, infinite), (1, infinite)], ..Default::default() };
    assert!(probabilities(&[1.0, 2.0], &[], &ban).expect_err("all banned").message.contains("logitBias"));
    assert_eq!(probabilities(&[1.0, 2.0, 3.0], &[], &ban).unwrap(), [0.0, 0.0, 1.0]);
    let history = probabilities(&[1.0, 2.0], &[2], &options(json!({"presencePenalty": 1})));
    assert!(history.expect_err("an id beyond").message.contains("history"));
    // A single token, and sets that would be empty.
    for value in [json!({"topP": 0}), json!({"typicalP": 0}), json!({"minP": 1}), json!({"topK": 1})] {
        assert_eq!(probabilities(&[0.5], &[0], &options(value.clone())).unwrap(), [1.0], "{value}");
    }
}

#[test]
fn the_window_limits_what_the_penalties_see() {
    let logits = [0.0, 0.0, 0.0];
    let seen = |window: Value| {
        let options = options(json!({"frequencyPenalty": 1, "penaltyWindow": window}));
        probabilities(&logits, &[0, 0, 1, 2], &options).unwrap()
    };
    assert_eq!(seen(json!(0)), [1.0 / 3.0; 3]);
    assert!(seen(json!(2))[0] > seen(json!(2))[1]);
    assert!(seen(json!(null))[0] < seen(json!(null))[1]);
    assert_eq!(seen(json!(4)), seen(json!(null)));
}

#[test]
fn logprobs_are_those_of_the_model_before_the_chain() {
    let top = top_logprobs(&[0.0, 2.0, 1.0, f32::NEG_INFINITY], 10).unwrap();
    assert_eq!(top.iter().map(|each| each.0).collect::<Vec<_>>(), [1, 2, 0]);
    assert!((top.iter().map(|each| each.1.exp()).sum::<f64>() - 1.0).abs() < 1e-12);
    assert_eq!(log_softmax_at(&[0.0], 1), None);
}

/// Draws over many seeds follow the probabilities, in the Gumbel draw and in the inverse-CDF draw.
#[test]
fn draws_follow_the_distribution() {
    let logits = [1.0, 0.0, 2.0, -1.0, 0.5];
    for value in [json!({"temperature": 0.8}), json!({"temperature": 0.8, "topK": 4, "minP": 0.01})] {
        let expected = probabilities(&logits, &[], &options(value.clone())).unwrap();
        let mut counts = [0u32; 5];
        for seed in 0..20_000 {
            let sampler = CpuSampler::new(options(value.clone()), 5, seed).unwrap();
            counts[sampler.draw(&logits, &[], (seed % 7) as u32).unwrap().token as usize] += 1;
        }
        for (count, p) in counts.iter().zip(&expected) {
            let deviation = (f64::from(*count) - 20_000.0 * p).abs();
            assert!(deviation <= 4.5 * (20_000.0 * p * (1.0 - p)).sqrt(), "{value}: {counts:?} for {expected:?}");
        }
    }
}

#[test]
fn the_plan_leaves_to_the_cpu_what_the_kernels_cannot_do() {
    for (value, mode) in [
        (json!({}), Mode::Gumbel),
        (json!({"temperature": 0}), Mode::Greedy),
        (json!({"temperature": 0, "topK": 500, "topP": 0.5}), Mode::Greedy),
        (json!({"topK": 64}), Mode::Restricted),
        (json!({"topK": 65}), Mode::Cpu),
        (json!({"topK": 5000}), Mode::Gumbel),
        (json!({"typicalP": 0.9}), Mode::Cpu),
        (json!({"topP": 0.9, "minP": 0.1, "order": ["topP", "minP"]}), Mode::Restricted),
        (json!({"topP": 0.9, "minP": 0.1, "order": ["minP", "topP"]}), Mode::Cpu),
        (json!({"temperature": 0.5, "topP": 0.9, "order": ["temperature", "topP"]}), Mode::Restricted),
        (json!({"temperature": 0.5, "topP": 0.9, "minP": 0.1, "order": ["topP", "temperature", "minP"]}), Mode::Cpu),
        (json!({"repetitionPenalty": 1.1, "topK": 5, "order": ["topK", "repetitionPenalty"]}), Mode::Cpu),
        (json!({"repetitionPenalty": 1.1, "penaltyWindow": 64}), Mode::Gumbel),
        (json!({"repetitionPenalty": 1.1, "penaltyWindow": 5000}), Mode::Cpu),
        (json!({"repetitionPenalty": 1.1, "logitBias": {"1": 1}, "order": ["repetitionPenalty", "logitBias"]}), Mode::Cpu),
    ] {
        assert_eq!(Plan::new(&options(value.clone()), 1000).mode, mode, "{value}");
    }
    let first = Plan::new(&options(json!({"temperature": 0.5, "topP": 0.9, "order": ["temperature", "topP"]})), 1000);
    assert_eq!((first.select_temperature, first.draw_temperature), (0.5, 0.5));
    let last = Plan::new(&options(json!({"temperature": 0.5, "topP": 0.9})), 1000);
    assert_eq!((last.select_temperature, last.draw_temperature), (1.0, 0.5));
}
