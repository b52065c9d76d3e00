//! Models in several GGUF files: whichever file is named, the model is the same; and what is wrong with one is said of that one.

#![allow(clippy::unwrap_used)] // also outside of #[test]

mod common;

use common::files::Folder;
use common::models::{StillHost, gpu, logits_of, numbers};
use common::{data, read_f32, read_json};
use pollster::block_on;
use rivulet::engine::{Engine, LoadOptions, Progress, open_model, read_header};
use rivulet::error::{Code, Result};
use rivulet::gguf::Header;

const NAMES: [&str; 3] = ["tiny-00001-of-00003.gguf", "tiny-00002-of-00003.gguf", "tiny-00003-of-00003.gguf"];

fn shards() -> Folder {
    Folder::read(&data("split"))
}

fn header(files: &Folder, entry: &str) -> Result<Header> {
    block_on(open_model(files, entry, None)).map(|opened| opened.0)
}

/// Loads a model, and gives the progress with it.
fn load(files: &Folder, entry: &str) -> Result<(Engine, Vec<Progress>)> {
    let options: LoadOptions = serde_json::from_value(serde_json::json!({ "kvType": "f32", "autotune": false })).unwrap();
    let (header, source) = block_on(open_model(files, entry, None))?;
    let mut seen = Vec::new();
    let mut progress = |p| seen.push(p);
    let gpu = gpu(Some("cpu+base"))?;
    let engine = block_on(Engine::load_header(header, &source, gpu, &options, Box::new(StillHost), &mut progress, &|| false))?;
    Ok((engine, seen))
}

#[test]
fn any_shard_names_the_model() {
    let files = shards();
    let whole = header(&files, NAMES[0]).unwrap();
    assert_eq!(whole.tensors.len(), 12 + 1);
    assert_eq!(whole.file_len, files.0.values().map(|f| f.len() as u64).sum::<u64>());
    assert_eq!(whole.metadata.get("split.count"), None);
    for entry in NAMES {
        assert_eq!(header(&files, entry).unwrap().tensors, whole.tensors, "{entry}");
    }
}

#[test]
fn logits_of_a_split_model() {
    let (mut engine, progress) = load(&shards(), NAMES[1]).unwrap();
    let golden = read_json(&data("hf/llama/golden.json"));
    let floats = read_f32(&data("hf/llama/golden.f32"));
    for (name, ids) in golden["prompt_ids"].as_object().unwrap() {
        let at = golden["quantize"]["none"][name].as_u64().unwrap() as usize;
        let found = logits_of(&mut engine, &numbers(ids), false).remove(0);
        let worst = found.iter().zip(&floats[at..]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 1e-3, "{name}: {worst}");
    }
    // All shards count.
    let weights: Vec<&Progress> = progress.iter().filter(|p| p.phase == "weights").collect();
    let last = weights.last().unwrap();
    assert_eq!(last.loaded, last.total);
    assert!(last.total > 100_000 && weights.windows(2).all(|w| w[0].loaded <= w[1].loaded && w[0].total == w[1].total));
}

/// The code and message of a damaged set; the message must name the file.
fn damage(files: &Folder, entry: &str, code: Code, says: &[&str]) {
    let error = header(files, entry).unwrap_err();
    assert_eq!(error.code, code, "{}", error.message);
    for word in says {
        assert!(error.message.contains(word), "expected {word:?} in: {}", error.message);
    }
}

/// Overwrites the u16 or i32 at a key.
fn set(file: &mut [u8], key: &str, value: u8) {
    let at = file.windows(key.len()).position(|w| w == key.as_bytes()).unwrap() + key.len() + 4;
    file[at] = value;
}

#[test]
fn bad_sets_name_the_file() {
    let files = shards();
    damage(&files.without(NAMES[2]), NAMES[0], Code::Network, &[NAMES[2], "missing"]);
    damage(&files.without(NAMES[0]), NAMES[1], Code::Network, &[NAMES[0], "missing"]);
    let short = files.with(NAMES[1], |f| f.truncate(f.len() - 100));
    damage(&short, NAMES[0], Code::BadFile, &[NAMES[1], "truncated"]);
    damage(&files.with(NAMES[2], |f| f.truncate(100)), NAMES[0], Code::BadFile, &[NAMES[2]]);
    damage(&files.with(NAMES[1], |f| f.clear()), NAMES[0], Code::BadFile, &[NAMES[1]]);
    damage(&files.with(NAMES[1], |f| set(f, "split.no", 2)), NAMES[0], Code::BadFile, &[NAMES[1], "split.no", "expected 1"]);
    damage(&files.with(NAMES[2], |f| set(f, "split.count", 4)), NAMES[0], Code::BadFile, &[NAMES[2], "split.count", "found 4"]);
    let counted = files.with(NAMES[2], |f| set(f, "split.tensors.count", 9));
    damage(&counted, NAMES[0], Code::BadFile, &[NAMES[2], "another model"]);
    let fewer = NAMES.iter().fold(files.clone(), |files, name| files.with(name, |f| set(f, "split.tensors.count", 9)));
    damage(&fewer, NAMES[0], Code::BadFile, &["expected 9 tensors", "found 13"]);
    // The second shard's tensors in place of the third's.
    let again = files.with(NAMES[2], |f| {
        *f = files.0[NAMES[1]].clone();
        set(f, "split.no", 2);
    });
    damage(&again, NAMES[0], Code::BadFile, &[NAMES[2], NAMES[1], "already"]);
}

#[test]
fn a_shard_of_another_model() {
    use common::gguf_writer::{Gguf, types};
    let part = |no: u16, arch: Option<&str>| {
        let numbered =
            |g: Gguf| g.pair("split.no", types::U16, no.to_le_bytes()).pair("split.count", types::U16, 2u16.to_le_bytes());
        let g = numbered(Gguf::default());
        let g = if let Some(arch) = arch { g.text("general.architecture", arch) } else { g };
        g.zeros(&format!("t{no}"), rivulet::tensor::Format::F32, &[32]).bytes()
    };
    let set = |second| {
        let files = [("a-00001-of-00002.gguf", part(0, Some("llama"))), ("a-00002-of-00002.gguf", part(1, second))];
        Folder(files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect())
    };
    for same in [None, Some("llama")] {
        assert_eq!(header(&set(same), "a-00001-of-00002.gguf").unwrap().tensors.len(), 2);
    }
    damage(&set(Some("qwen3")), "a-00001-of-00002.gguf", Code::BadFile, &["a-00002-of-00002.gguf", "qwen3", "another model"]);
}

#[test]
fn one_file_of_several_by_itself() {
    let files = shards();
    let renamed = Folder([("model.gguf".to_owned(), files.0[NAMES[0]].clone())].into());
    damage(&renamed, "model.gguf", Code::BadFile, &["model.gguf", "3 files", "NAME-00001-of-00003.gguf"]);
    let source = rivulet::engine::MemorySource(files.0[NAMES[0]].clone());
    assert_eq!(block_on(read_header(&source)).unwrap_err().code, Code::BadFile);
    damage(&files, "no.gguf", Code::Network, &["no.gguf is missing"]);
}

#[test]
fn a_failed_load_leaves_the_loaded_model_as_it_was() {
    let files = shards();
    let (mut engine, _) = load(&files, NAMES[0]).unwrap();
    let before = logits_of(&mut engine, &[5, 260, 300], false);
    assert!(load(&files.without(NAMES[1]), NAMES[0]).is_err());
    assert!(load(&files.with(NAMES[2], |f| f.truncate(5000)), NAMES[0]).is_err());
    assert_eq!(logits_of(&mut engine, &[5, 260, 300], false), before);
}
