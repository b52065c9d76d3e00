//! Model directories of safetensors: logits as transformers has them, quantised bit for bit as the reference does, and what is wrong
//! with a directory is said before any weight is read.
#![allow(clippy::unwrap_used, clippy::panic)] // also outside of #[test]

mod common;

use common::files::Folder;
use common::models::{StillHost, gpu, greedy, logits_of, numbers, sure_steps};
use common::{data, read_f32, read_json};
use pollster::block_on;
use rivulet::engine::{ByteSource, Engine, LoadOptions, open_model};
use rivulet::error::{Code, Result};
use rivulet::gguf::{Header, Parsed, parse};
use rivulet::hf::Quantize;
use rivulet::tensor::Format;
use rivulet::{model, quant};

/// Directories below tests/data/hf.
const DIRECTORIES: [&str; 9] = ["llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "olmo2", "granite", "starcoder2"];

/// A directory. Those without a tokenizer have that of another with the same vocabulary.
fn directory(name: &str) -> Folder {
    let files = Folder::read(&data(&format!("hf/{name}")));
    if files.0.contains_key("tokenizer.json") {
        return files;
    }
    let config: serde_json::Value = serde_json::from_slice(&files.0["config.json"]).unwrap();
    let other = if config["bos_token_id"] == 1 { "llama" } else { "qwen3" };
    let tokenizer = std::fs::read(data(&format!("hf/{other}/tokenizer.json"))).unwrap();
    files.with("tokenizer.json", |f| *f = tokenizer)
}

fn header(files: &Folder) -> Result<Header> {
    block_on(open_model(files, "", None)).map(|opened| opened.0)
}

fn load(files: &Folder, quantize: &str) -> Result<Engine> {
    let options = serde_json::json!({ "kvType": "f32", "autotune": false, "quantize": quantize });
    let options: LoadOptions = serde_json::from_value(options).unwrap();
    let (header, source) = block_on(open_model(files, "config.json", options.quantize))?;
    block_on(Engine::load_header(header, &source, gpu(Some("cpu+base"))?, &options, Box::new(StillHost), &mut |_| {}, &|| false))
}

/// Whether this version runs the family of a directory.
fn supported(name: &str) -> bool {
    let header = header(&directory(name)).unwrap();
    let family = header.metadata.string("general.architecture").unwrap().unwrap().to_owned();
    model::families().any(|known| known == family)
}

#[test]
fn logits_of_every_family() {
    for name in DIRECTORIES {
        if !supported(name) {
            common::skip(&format!("logits_of_every_family {name}"), "the family is not supported yet");
            continue;
        }
        let golden = read_json(&data(&format!("hf/{name}/golden.json")));
        let floats = read_f32(&data(&format!("hf/{name}/golden.f32")));
        // Each load compiles its kernels, so that not every family has every format: F16, BF16 and F32 as they are, and four bits once
        // for rows in pairs and once as stored.
        let formats: &[&str] = match name {
            "llama" | "gemma3" => &["none", "q8_0", "q4_0"],
            "qwen3" | "granite" => &["none", "q8_0"],
            _ => &["q8_0"],
        };
        for quantize in formats {
            let offsets = &golden["quantize"][quantize];
            let mut engine = load(&directory(name), quantize).unwrap_or_else(|e| panic!("{name} {quantize}: {e}"));
            let mut worst = 0f32;
            for (prompt, at) in offsets.as_object().unwrap() {
                let found = logits_of(&mut engine, &numbers(&golden["prompt_ids"][prompt]), false).remove(0);
                let expected = &floats[at.as_u64().unwrap() as usize..];
                worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(worst, f32::max);
            }
            println!("{name} {quantize}: {worst:.1e}");
            assert!(worst < 1e-3, "{name} {quantize}: {worst}");
            if *quantize == "q8_0" {
                let sure = sure_steps(&golden["greedy_margins"], 4e-3);
                let expected = numbers(&golden["greedy_q8_0"]);
                let found = greedy(&mut engine, &numbers(&golden["prompt_ids"]["short"]), sure);
                assert_eq!(found, expected[..sure], "{name}");
            }
        }
    }
}

#[test]
fn quantised_bit_for_bit() {
    let read = |name: &str| {
        let bytes = std::fs::read(data(&format!("models/q-llama/{name}.gguf"))).unwrap();
        let Parsed::Header(header) = parse(&bytes, bytes.len() as u64).unwrap() else { panic!("{name} is cut") };
        (bytes, header)
    };
    let (floats, originals) = read("F16");
    for (name, format) in [("Q8_0", Format::Q8_0), ("Q4_0", Format::Q4_0)] {
        let (bytes, header) = read(name);
        let mut compared = 0;
        for tensor in header.tensors.iter().filter(|t| t.format == format) {
            let original = originals.tensor(&tensor.name).unwrap();
            let mut values = vec![0f32; (original.bytes / 2) as usize];
            let source = &floats[original.offset as usize..][..original.bytes as usize];
            quant::supported(original.format).unwrap().dequantize(source, &mut values).unwrap();
            let mut found = vec![0; tensor.bytes as usize];
            quant::quantize(format, &values, &mut found).unwrap();
            assert!(found == bytes[tensor.offset as usize..][..found.len()], "{name}: {}", tensor.name);
            compared += values.len();
        }
        assert!(compared > 400_000, "{name}: {compared} weights");
    }
}

#[test]
fn rows_read_one_by_one_are_those_read_together() {
    let files = directory("llama");
    for quantize in [Quantize::None, Quantize::Q8_0, Quantize::Q4_0] {
        let (header, source) = block_on(open_model(&files, "", Some(quantize))).unwrap();
        assert_eq!(source.len(), header.file_len);
        for tensor in &header.tensors {
            let read = |from: u64, rows: u64| {
                let row = tensor.bytes / tensor.rows();
                let mut out = vec![0; (rows * row) as usize];
                block_on(source.read(tensor.offset + from * row, &mut out)).unwrap();
                out
            };
            let whole = read(0, tensor.rows());
            let single: Vec<u8> = (0..tensor.rows()).flat_map(|row| read(row, 1)).collect();
            assert!(whole == single, "{quantize:?} {}", tensor.name);
        }
    }
}

/// The code and message that a directory ends in; the message must hold the words.
fn fails(files: &Folder, code: Code, says: &[&str]) {
    let error = match header(files) {
        Err(error) => error,
        // What only the family knows is said when it is planned.
        Ok(_) => load(files, "q8_0").map(|_| ()).unwrap_err(),
    };
    assert_eq!(error.code, code, "{}", error.message);
    for word in says {
        assert!(error.message.contains(word), "expected {word:?} in: {}", error.message);
    }
}

/// Replaces a text in a file.
fn replace(from: &str, to: &str) -> impl FnOnce(&mut Vec<u8>) {
    move |file| {
        let text = String::from_utf8(file.clone()).unwrap();
        assert!(text.contains(from), "no {from:?}");
        *file = text.replacen(from, to, 1).into_bytes();
    }
}

/// Replaces a text of the same length in a file that is not all text.
fn overwrite(from: &str, to: &str) -> impl FnOnce(&mut Vec<u8>) {
    move |file| {
        assert_eq!(from.len(), to.len());
        let at = file.windows(from.len()).position(|w| w == from.as_bytes()).unwrap_or_else(|| panic!("no {from:?}"));
        file[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
}

const FIRST: &str = "model-00001-of-00002.safetensors";
const SECOND: &str = "model-00002-of-00002.safetensors";
const INDEX: &str = "model.safetensors.index.json";

#[test]
fn bad_weights_name_the_file() {
    let files = directory("llama");
    fails(&files.without(SECOND), Code::Network, &[SECOND, "missing"]);
    fails(&files.with(SECOND, |f| f.truncate(f.len() - 1)), Code::BadFile, &[SECOND, "truncated"]);
    fails(&files.with(SECOND, |f| f.truncate(100)), Code::BadFile, &[SECOND, "truncated"]);
    fails(&files.with(SECOND, |f| f.truncate(5)), Code::BadFile, &[SECOND, "truncated"]);
    fails(&files.with(FIRST, |f| f[7] = 0x7f), Code::BadFile, &[FIRST, "expected a header"]);
    fails(&files.with(FIRST, |f| *f = b"<!doctype html><p>404".to_vec()), Code::BadFile, &[FIRST]);
    let other = files.0[FIRST].clone();
    fails(&files.with(SECOND, |f| *f = other), Code::BadFile, &[SECOND, "another model"]);
    fails(&files.with(INDEX, replace(SECOND, "model-00009-of-00002.safetensors")), Code::Network, &["model-00009-of-00002"]);
    for hostile in
        ["../../../etc/passwd", "/etc/passwd", "a/b.safetensors", "..safetensors", "http://x/y.safetensors", "a\\\\b.safetensors"]
    {
        fails(&files.with(INDEX, replace(SECOND, hostile)), Code::BadFile, &[INDEX, "beside it"]);
    }
    fails(&files.with(INDEX, |f| *f = b"{}".to_vec()), Code::BadFile, &[INDEX, "weight_map"]);
    fails(&files.with(INDEX, |f| *f = br#"{"weight_map":{}}"#.to_vec()), Code::BadFile, &[INDEX, "1 to 1024 files"]);
    fails(&files.without(INDEX), Code::Network, &["model.safetensors", INDEX]);
    // A tensor that the index leaves out is missing, and one that no family knows has no place.
    let index = replace("\"model.layers.0.mlp.up_proj.weight\"", "\"model.layers.0.mlp.no.weight\"");
    fails(&files.with(INDEX, index), Code::BadFile, &["model.layers.0.mlp.no.weight"]);
}

#[test]
fn bad_headers_of_safetensors() {
    let files = directory("qwen3");
    let single = "model.safetensors";
    let q = "model.layers.0.self_attn.q_proj.weight";
    let bad = |from: &str, to: &str, code, says: &[&str]| fails(&files.with(single, overwrite(from, to)), code, says);
    bad(&format!("{q}\":{{\"dtype\":\"BF16\""), &format!("{q}\":{{\"dtype\":\"F32\" "), Code::BadFile, &[q, "bytes"]);
    bad(&format!("{q}\":{{\"dtype\":\"BF16\""), &format!("{q}\":{{\"dtype\":\"I16\" "), Code::UnsupportedQuant, &[q, "I16"]);
    bad(&format!("{q}\":{{\"dtype\":\"BF16\""), &format!("{q}\":{{\"dtype\":\"FP4x\""), Code::UnsupportedQuant, &[q, "FP4x"]);
    bad("\"shape\":[64,64]", "\"shape\":[32,64]", Code::BadFile, &["bytes"]);
    bad("\"shape\":[64,64]", "\"shape\":[99999]", Code::BadFile, &["bytes"]);
    bad("\"shape\":[32,64]", "\"shape\":[64,32]", Code::BadFile, &["shape"]);
    bad("self_attn.q_proj.weight", "self_attn.k_proj.weight", Code::BadFile, &["twice"]);
    bad("self_attn.q_proj.weight", "self_attn.x_proj.weight", Code::UnsupportedArchitecture, &["x_proj", "no place"]);
    bad("layers.0.self_attn.q_proj", "layers.7.self_attn.q_proj", Code::BadFile, &["layers.7", "expected layers below"]);
    bad("\"dtype\"", "\"dtipe\"", Code::BadFile, &[single]);
    // Bytes of two tensors, and beyond the file. The offsets of a header are made anew.
    let header = |json: &str| {
        let mut file = (json.len() as u64).to_le_bytes().to_vec();
        file.extend(json.bytes());
        file.extend([0; 64]);
        files.with(single, |f| *f = file)
    };
    let of = |a: &str, b: &str| {
        format!(
            r#"{{"a":{{"dtype":"F32","shape":[8],"data_offsets":{a}}},"b":{{"dtype":"F32","shape":[8],"data_offsets":{b}}}}}"#
        )
    };
    fails(&header(&of("[0,32]", "[16,48]")), Code::BadFile, &["overlap"]);
    fails(&header(&of("[0,32]", "[40,72]")), Code::BadFile, &["within 64"]);
    fails(&header(&of("[32,0]", "[32,64]")), Code::BadFile, &["tensor a"]);
    fails(&header(&of("[0,32]", "[18446744073709551600,18446744073709551615]")), Code::BadFile, &["tensor b"]);
    let absurd = r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,32]}}"#;
    fails(&header(absurd), Code::BadFile, &["tensor a"]);
    fails(&header(&format!("{}1", "[".repeat(50_000))), Code::BadFile, &[single]);
}

#[test]
fn bad_configurations() {
    let files = directory("qwen3");
    let config = |from: &str, to: &str, code, says: &[&str]| fails(&files.with("config.json", replace(from, to)), code, says);
    config("\"qwen3\"", "\"mamba\"", Code::UnsupportedArchitecture, &["mamba", "qwen2"]);
    config("\"model_type\"", "\"type_of_model\"", Code::BadFile, &["model_type"]);
    config("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 4000000000", Code::BadFile, &["block_count"]);
    config("\"num_hidden_layers\": 1", "\"num_hidden_layers\": -1", Code::BadFile, &["num_hidden_layers"]);
    config("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 1e30", Code::BadFile, &["num_hidden_layers"]);
    config("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2", Code::BadFile, &["blk.1"]);
    config("\"hidden_size\": 64", "\"hidden_size\": 4294967295", Code::BadFile, &["embedding_length"]);
    config("\"hidden_size\": 64", "\"hidden_size\": 96", Code::BadFile, &["shape"]);
    config("\"head_dim\": 64", "\"head_dim\": 4294967295", Code::BadFile, &["head_dim"]);
    config("\"num_attention_heads\": 2", "\"num_attention_heads\": 0", Code::BadFile, &["num_attention_heads"]);
    config("\"rope_theta\": 10000.0", "\"rope_theta\": \"x\"", Code::BadFile, &["rope_theta"]);
    config("\"default\"", "\"dynamic\"", Code::UnsupportedArchitecture, &["dynamic"]);
    config("\"silu\"", "\"gelu\"", Code::UnsupportedArchitecture, &["hidden_act", "gelu"]);
    config(
        "\"hidden_act\"",
        "\"quantization_config\": {\"quant_method\": \"awq\"}, \"hidden_act\"",
        Code::UnsupportedQuant,
        &["awq"],
    );
    fails(&files.with("config.json", |f| f.truncate(50)), Code::BadFile, &["config.json"]);
    fails(&files.with("config.json", |f| *f = vec![b' '; 2 << 20]), Code::BadFile, &["config.json", "at most"]);
    fails(&files.without("config.json"), Code::Network, &["config.json is missing"]);
    let llama3 = files.with("config.json", replace("\"rope_type\": \"default\"", "\"rope_type\": \"llama3\", \"factor\": 8"));
    fails(&llama3, Code::BadFile, &["low_freq_factor"]);
}

#[test]
fn bad_tokenizers() {
    let files = directory("qwen3");
    let tokenizer =
        |from: &str, to: &str, code, says: &[&str]| fails(&files.with("tokenizer.json", replace(from, to)), code, says);
    fails(&files.without("tokenizer.json"), Code::Network, &["tokenizer.json is missing"]);
    fails(&files.with("tokenizer.json", |f| f.truncate(1000)), Code::BadFile, &["tokenizer.json"]);
    tokenizer("\"type\":\"BPE\"", "\"type\":\"Unigram\"", Code::UnsupportedTokenizer, &["Unigram"]);
    tokenizer("?\\\\p{L}+", "?\\\\p{L}*", Code::UnsupportedTokenizer, &["pre-tokenizer"]);
    tokenizer("\"NFC\"", "\"NFKC\"", Code::UnsupportedTokenizer, &["NFKC"]);
    tokenizer("\"!\":0", "\"!\":4294967295", Code::BadFile, &["ids below"]);
    tokenizer("\"!\":0", "\"!\":1", Code::BadFile, &["same id"]);
    tokenizer("[\"Ġ\",\"Ġ\"]", "[\"Ġ\",\"no such\"]", Code::BadFile, &["no such"]);
    let spm = directory("llama");
    fails(&spm.with("tokenizer.json", replace("\"Prepend\"", "\"Lowercase\"")), Code::UnsupportedTokenizer, &["Lowercase"]);
}

#[test]
fn damaged_directories_end_in_headers_or_errors() {
    let files = directory("llama");
    let mut rng = common::Rng(41);
    let mut codes: std::collections::BTreeMap<&str, u32> = Default::default();
    for name in ["config.json", "tokenizer.json", INDEX, FIRST] {
        // Of weights only the header is damaged: other bytes are other weights.
        let end = files.0[name].len().min(1500);
        for _ in 0..250 {
            let damaged = files.with(name, |file| match rng.below(3) {
                0 => file[rng.below(end)] ^= 1 << rng.below(8),
                1 => {
                    // A digit for another, or many of them.
                    let digits: Vec<usize> = (0..end).filter(|at| file[*at].is_ascii_digit()).collect();
                    let at = digits[rng.below(digits.len())];
                    file[at..(at + 1 + rng.below(3)).min(end)].fill(b'0' + rng.below(10) as u8);
                }
                _ => {
                    let (from, to, n) = (rng.below(end), rng.below(end), rng.below(40));
                    let piece = file[from..(from + n).min(end)].to_vec();
                    let to = to.min(end - piece.len());
                    file[to..to + piece.len()].copy_from_slice(&piece);
                }
            });
            let code = header(&damaged).map_or_else(|e| e.code.as_str(), |_| "header");
            *codes.entry(code).or_default() += 1;
        }
    }
    println!("{codes:?}");
    assert!(!codes.contains_key("internal") && codes["bad-file"] > 100 && codes["header"] > 10, "{codes:?}");
}

#[test]
fn options_of_safetensors_are_theirs_only() {
    let split = Folder::read(&data("split"));
    let error = block_on(open_model(&split, "tiny-00001-of-00002.gguf", Some(Quantize::Q8_0))).map(|_| ()).unwrap_err();
    assert_eq!(error.code, Code::BadOption);
    assert!(serde_json::from_str::<LoadOptions>(r#"{ "quantize": "q3" }"#).unwrap_err().to_string().contains("q8_0"));
}

#[test]
fn a_failed_load_leaves_the_loaded_model_as_it_was() {
    let files = directory("llama");
    let mut engine = load(&files, "q4_0").unwrap();
    let before = logits_of(&mut engine, &[5, 260, 300], false);
    assert!(load(&files.without(SECOND), "q8_0").is_err());
    assert!(load(&files.with("config.json", replace("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 3")), "q8_0").is_err());
    assert_eq!(logits_of(&mut engine, &[5, 260, 300], false), before);
}
