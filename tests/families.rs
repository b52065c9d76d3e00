//! What a header may say of a model, and what is refused before any weight is fetched.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // also outside of #[test]

use rivulet::error::Error;
use rivulet::gguf::{Array, Header, Metadata, Value};
use rivulet::model::{self, Architecture, synthetic};

const LAYERS: usize = 16;

/// A llama's header that says other things, or more.
fn read(changes: &[(&str, Value)]) -> Result<Architecture, Error> {
    let mut header: Header = synthetic::header("llama-3.2-1b:q4_0").unwrap();
    let kept = header.metadata.iter().filter(|(key, _)| changes.iter().all(|change| change.0 != *key));
    let kept = kept.map(|(key, value)| (key.to_owned(), value.clone()));
    let entries = kept.chain(changes.iter().map(|(key, value)| ((*key).to_owned(), value.clone()))).collect();
    header.metadata = Metadata::from_entries(entries);
    model::read(&header)
}

fn refused(changes: &[(&str, Value)], code: &str, part: &str) {
    let error = read(changes).expect_err(&format!("{changes:?}"));
    let fits = error.code.as_str() == code && error.message.contains(part);
    assert!(fits, "{changes:?}: expected {code} with {part:?}, found {error}");
}

#[test]
fn an_unknown_family_is_named_beside_those_there_are() {
    let name = [("general.architecture", Value::String("mamba".into()))];
    for part in ["\"mamba\"", "llama", "gemma2", "command-r", "gptneox", "starcoder2"] {
        refused(&name, "unsupported-architecture", part);
    }
    refused(&[("general.architecture", Value::U32(1))], "bad-file", "general.architecture");
}

#[test]
fn numbers_that_describe_no_model_are_bad_files() {
    let array = Value::Array(Array::F32(vec![1.0; LAYERS]));
    for (key, values) in [
        ("llama.block_count", vec![Value::U32(0), Value::U32(1 << 20), Value::U64(1 << 40), Value::I32(-1), array.clone()]),
        ("llama.embedding_length", vec![Value::U32(0), Value::U32(u32::MAX), array.clone(), Value::String("64".into())]),
        ("llama.feed_forward_length", vec![Value::U32(0), Value::U32(u32::MAX), array.clone()]),
        ("llama.attention.head_count", vec![Value::U32(0), Value::U32(u32::MAX), array.clone()]),
        ("llama.attention.head_count_kv", vec![Value::U32(0), Value::U32(u32::MAX), array.clone()]),
        ("llama.context_length", vec![Value::U32(0), Value::U32(u32::MAX), array.clone()]),
        (
            "llama.attention.layer_norm_rms_epsilon",
            vec![Value::F32(f32::NAN), Value::F32(-1.0), Value::F64(1e300), array.clone()],
        ),
        ("llama.rope.freq_base", vec![Value::F32(f32::NAN), Value::F32(0.0), Value::F32(f32::INFINITY), array.clone()]),
        ("llama.rope.scaling.factor", vec![Value::F32(f32::NAN), Value::F32(0.0), Value::F32(-2.0), array.clone()]),
        ("llama.rope.scaling.attn_factor", vec![Value::F32(f32::NAN), Value::F32(0.0), array.clone()]),
        ("llama.rope.scaling.type", vec![Value::U32(1), array]),
    ] {
        for value in values {
            refused(&[(key, value)], "bad-file", "llama");
        }
    }
    let yarn = ("llama.rope.scaling.type", Value::String("yarn".into()));
    for (key, value) in [
        ("llama.rope.scaling.original_context_length", Value::U32(0)),
        ("llama.rope.scaling.yarn_beta_fast", Value::F32(f32::NAN)),
        ("llama.rope.scaling.yarn_beta_slow", Value::F32(0.0)),
        ("llama.rope.scaling.yarn_ext_factor", Value::F32(2.0)),
    ] {
        refused(&[yarn.clone(), (key, value)], "bad-file", "");
    }
}

#[test]
fn a_vocabulary_size_must_be_that_of_the_embedding() {
    refused(&[("llama.vocab_size", Value::U32(32_000))], "bad-file", "128256 rows, found 32000");
    assert!(read(&[("llama.vocab_size", Value::U32(128_256))]).is_ok());
}

#[test]
fn what_would_be_left_out_is_refused_by_name() {
    for (key, value) in [
        ("llama.attention.scale", Value::F32(0.25)),
        ("llama.logit_scale", Value::F32(0.5)),
        ("llama.residual_scale", Value::F32(0.5)),
        ("llama.embedding_scale", Value::F32(12.0)),
        ("llama.attn_logit_softcapping", Value::F32(50.0)),
        ("llama.attention.max_alibi_bias", Value::F32(8.0)),
        ("llama.use_parallel_residual", Value::Bool(true)),
    ] {
        refused(&[(key, value)], "unsupported-architecture", key);
    }
    // A zero says that there is none.
    assert!(read(&[("llama.attention.scale", Value::F32(0.0)), ("llama.use_parallel_residual", Value::Bool(false))]).is_ok());
    refused(&[("llama.rope.scaling.type", Value::String("dynamic".into()))], "unsupported-architecture", "\"dynamic\"");
}

#[test]
fn a_number_may_be_given_for_each_layer() {
    let heads = |heads: Vec<u32>| [("llama.attention.head_count_kv", Value::Array(Array::U32(heads)))];
    let alternating: Vec<u32> = (0..LAYERS).map(|layer| if layer % 2 == 0 { 4 } else { 8 }).collect();
    let a = read(&heads(alternating.clone())).unwrap();
    assert_eq!(a.layers.iter().map(|layer| layer.n_kv_heads).collect::<Vec<_>>(), alternating);
    refused(&heads(vec![8; LAYERS - 1]), "bad-file", "each of 16 layers, found 15");
    refused(&heads([vec![8; LAYERS - 1], vec![0]].concat()), "bad-file", "head_count_kv");
    refused(&heads([vec![8; LAYERS - 1], vec![7]].concat()), "unsupported-architecture", "key/value heads");
    let widths = [8192; LAYERS - 1].into_iter().chain([4096]).collect();
    refused(
        &[("llama.feed_forward_length", Value::Array(Array::I32(widths)))],
        "unsupported-architecture",
        "feed_forward_length",
    );
    assert!(read(&[("llama.feed_forward_length", Value::Array(Array::I32(vec![8192; LAYERS])))]).is_ok());
}
