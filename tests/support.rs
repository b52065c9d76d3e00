//! What is supported, as measured: every tiny model and every weight format against references that others computed, in f32 and in the
//! top tier; and README's tables of that, which this test makes (`RIVULET_BLESS=1 cargo test … --test support`) and checks.
//!
//! References: transformers in f32 on the file's own weights, dequantised. Tolerances, on logits with a standard deviation of
//! about 3: 1e-3 in f32; in f16 5e-2, or three times what llama.cpp's own f16 path is off on the same file where that is
//! more (the goldens say it: 3.6e-2 for a tiny Gemma 1; it rounds activations, our f16 tiles products and sums of four as well), and 5e-1 where rounding may change a choice or grows in a recurrence (experts, delta nets), as
//! `shared/fixtures/README.md` has measured them. KV caches are f32, but for one pass in f16.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // also outside of #[test]

mod common;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use common::models::{Golden, gpu, greedy, load, logits_of, numbers, sure_steps};
use common::{data, shared, skip};
use rivulet::engine::{Engine, MemorySource};

const F32: f32 = 1e-3;
const F16: f32 = 5e-2;
const F16_CHOICES: f32 = 5e-1;
/// f16 arithmetic on quantised weights (`shared/fixtures/README.md`).
const F16_QUANTISED: f32 = 1e-1;

/// Base arithmetic by both kinds of kernels: barrier-free ones and those with workgroups.
const BASE: [&str; 2] = ["cpu+base", "gpu+base"];
/// f32 as well; played where the adapter has subgroups.
const SUBGROUPS: &str = "gpu+subgroup";
const TOP: &str = "gpu+f16+subgroup";

/// One line of a table.
#[derive(Clone)]
struct Row {
    table: &'static str,
    name: String,
    /// The architecture, or the models that a format was tried in.
    of: String,
    base: f32,
    top: Option<f32>,
}

#[derive(Clone)]
enum Job {
    Model(String),
    /// A model and the place of one of its formats in its golden.json.
    Format(&'static str, usize),
}

/// Folders with a golden.json, in the repository or in the developers' fixtures.
fn names(kind: &str) -> Vec<String> {
    let folders = [Some(data("models")), shared().map(|s| s.join("fixtures").join(kind))];
    let entries = folders.into_iter().flatten().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let named = entries.filter(|e| e.path().join("golden.json").is_file()).map(|e| e.file_name().into_string().unwrap());
    let mut names: Vec<String> = named.collect();
    names.sort();
    names.dedup();
    names
}

/// Fails above the tolerance.
fn compare(what: &str, got: &[f32], want: &[f32], tolerance: f32) -> f32 {
    let worst = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let nan = got.iter().any(|v| v.is_nan());
    assert!(worst <= tolerance && !nan, "{what}: logits differ by {worst} (NaN: {nan}), tolerance {tolerance}");
    worst
}

/// A model; its context within that of the first training, where longrope's factors depend on it.
fn open(golden: &Golden, path: &Path, kv: &str, tier: &str) -> Engine {
    let context = golden.json["config"]["original_max_position_embeddings"].as_u64();
    let options = serde_json::json!({ "kvType": kv, "autotune": false, "contextLength": context });
    let source = MemorySource(std::fs::read(path).unwrap());
    load(source, gpu(Some(tier)).unwrap(), &serde_json::from_value(options).unwrap())
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every golden row of a model; the largest difference.
fn model(name: &str, golden: &Golden, kv: &str, tier: &str, tolerance: f32) -> f32 {
    let mut engine = open(golden, &golden.file("model.gguf"), kv, tier);
    let mut worst = 0f32;
    for prompt in golden.json["prompts"].as_array().unwrap() {
        let ids = numbers(&prompt["ids"]);
        let rows = logits_of(&mut engine, &ids, true);
        for row in prompt["logits"].as_array().unwrap() {
            let pos = row["pos"].as_u64().unwrap() as usize;
            let want = golden.floats(&row["transformers_offset"], rows[pos].len());
            worst = worst.max(compare(&format!("{name} {tier} {kv} {} at {pos}", prompt["name"]), &rows[pos], want, tolerance));
        }
        if prompt["greedy"]["transformers"].is_array() {
            let want = numbers(&prompt["greedy"]["transformers"]);
            let sure = sure_steps(&prompt["greedy"]["margins"], 4.0 * f64::from(tolerance)).min(want.len());
            assert_eq!(greedy(&mut engine, &ids, sure), want[..sure], "{name} {tier} {kv} {}", prompt["name"]);
        }
    }
    worst
}

/// Every prompt of a quantised model; the largest difference to the f32 model of its dequantised weights.
fn format(golden: &Golden, index: usize, path: &Path, tier: &str, tolerance: f32) -> f32 {
    let format = &golden.json["formats"][index];
    let mut engine = open(golden, path, "f32", tier);
    let mut worst = 0f32;
    for prompt in format["prompts"].as_array().unwrap() {
        let ids = numbers(&golden.json["prompt_ids"][prompt["name"].as_str().unwrap()]);
        let rows = logits_of(&mut engine, &ids, false);
        let want = golden.floats(&prompt["f32_dequant_offset"], rows[0].len());
        let what = format!("{} {tier} {}", format["format"], prompt["name"]);
        worst = worst.max(compare(&what, &rows[0], want, tolerance));
        let want = numbers(&prompt["greedy_f32_dequant"]);
        let sure = sure_steps(&prompt["greedy_margins"], 4.0 * f64::from(tolerance)).min(want.len());
        assert_eq!(greedy(&mut engine, &ids, sure), want[..sure], "{what}");
    }
    worst
}

fn play(job: &Job) -> Row {
    let top = gpu(Some(TOP)).is_ok().then_some(TOP);
    match job {
        Job::Model(name) => {
            let golden = Golden::find(&format!("models/{name}")).unwrap();
            let architecture = golden.json["architecture"].as_str().unwrap().to_owned();
            let config = golden.json["config"].to_string();
            let chooses = ["num_experts", "num_local_experts", "linear_num_value_heads"].iter().any(|key| config.contains(key));
            let tiers = BASE.into_iter().chain(gpu(Some(SUBGROUPS)).is_ok().then_some(SUBGROUPS));
            let base = tiers.map(|tier| model(name, &golden, "f32", tier, F32)).fold(0.0, f32::max);
            let of_llamacpp = golden.json["max_abs_diff_llamacpp_shipped_vs_f32"].as_f64().unwrap_or(0.0) as f32;
            let loose = if chooses { F16_CHOICES } else { F16.max(3.0 * of_llamacpp) };
            model(name, &golden, "f16", BASE[0], loose);
            let top = top.map(|tier| model(name, &golden, "f32", tier, loose));
            Row { table: "models", name: name.clone(), of: architecture, base, top }
        }
        Job::Format(of, index) => {
            let golden = quantised(of).unwrap();
            let name = golden.json["formats"][*index]["format"].as_str().unwrap().to_owned();
            let path = file(&golden, *index).unwrap();
            let base = BASE.map(|tier| format(&golden, *index, &path, tier, F32)).into_iter().fold(0.0, f32::max);
            let top = top.map(|tier| format(&golden, *index, &path, tier, F16_QUANTISED));
            Row { table: "formats", name, of: of.trim_start_matches("q-").to_owned(), base, top }
        }
    }
}

/// A model in many formats: the developers' fixtures have all of them, the repository some.
fn quantised(name: &str) -> Option<Golden> {
    let all = shared().map(|s| s.join("fixtures/quants").join(name)).filter(|f| f.join("golden.json").is_file());
    all.map(|folder| Golden::open(&folder)).or_else(|| Golden::find(&format!("models/{name}")))
}

/// None for a format that the quantizer skipped, and one that is only in the developers' fixtures.
fn file(golden: &Golden, index: usize) -> Option<PathBuf> {
    let name = golden.json["formats"][index]["file"].as_str()?;
    Some(golden.file(name)).filter(|path| path.is_file())
}

/// A difference with two digits, rounded up.
fn digits(error: f32) -> String {
    let step = 10f64.powi(f64::from(error.max(1e-9)).log10().floor() as i32 - 1);
    format!("{:.1e}", (f64::from(error) / step).ceil() * step)
}

fn table(rows: &[Row], table: &str) -> BTreeMap<String, String> {
    let mut lines: BTreeMap<String, Row> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.table == table) {
        let line = lines.entry(row.name.clone()).or_insert_with(|| row.clone());
        if line.of != row.of {
            line.of = format!("{}, {}", line.of, row.of);
        }
        line.base = line.base.max(row.base);
        line.top = line.top.zip(row.top).map(|(a, b)| a.max(b));
    }
    let top = |row: &Row| row.top.map_or("–".into(), digits);
    lines
        .into_iter()
        .map(|(name, row)| (name.clone(), format!("| {name} | {} | {} | {} |", row.of, digits(row.base), top(&row))))
        .collect()
}

/// The lines of README's table between its markers.
fn section<'a>(readme: &'a str, table: &str) -> (usize, usize, Vec<&'a str>) {
    let marker = format!("<!-- {table}: made by tests/support.rs -->\n");
    let start = readme.find(&marker).unwrap_or_else(|| panic!("README.md has no {marker}")) + marker.len();
    let end = start + readme[start..].find("<!-- end -->").expect("README.md: the table has an end");
    (start, end, readme[start..end].lines().skip(2).collect())
}

#[test]
fn every_family_and_format_equals_its_reference() {
    let mut jobs: VecDeque<Job> = VecDeque::new();
    for name in ["q-llama", "q-qwen3"] {
        let Some(golden) = quantised(name) else { continue };
        let formats = golden.json["formats"].as_array().unwrap().len();
        jobs.extend((0..formats).filter(|i| file(&golden, *i).is_some()).map(|i| Job::Format(name, i)));
    }
    let formats = jobs.len();
    let models = names("models").into_iter().filter(|name| {
        let golden = Golden::find(&format!("models/{name}")).unwrap();
        golden.json["prompts"].is_array() && golden.file("model.gguf").is_file()
    });
    jobs.extend(models.map(Job::Model));
    if let Ok(part) = std::env::var("RIVULET_CASES") {
        jobs.retain(|job| matches!(job, Job::Model(name) if name.contains(&part)));
        jobs.iter().for_each(|job| println!("{:?}", play(job).base));
        return;
    }
    assert!(formats >= 12 && jobs.len() - formats >= 5, "{formats} formats, {} models", jobs.len() - formats);
    if shared().is_none() {
        skip("every_family_and_format_equals_its_reference", "most models are only in the developers' fixtures");
    }
    if gpu(Some(TOP)).is_err() {
        skip("every_family_and_format_equals_its_reference", &format!("this adapter has no tier {TOP}"));
    }

    // A thread a core: each has its device.
    let (queue, rows) = (Mutex::new(jobs), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get().min(4)) {
            scope.spawn(|| {
                loop {
                    let Some(job) = queue.lock().unwrap().pop_front() else { break };
                    let row = play(&job);
                    println!("{} {} ({}): {:.1e}, {:?}", row.table, row.name, row.of, row.base, row.top);
                    rows.lock().unwrap().push(row);
                }
            });
        }
    });

    let rows = rows.into_inner().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let mut readme = std::fs::read_to_string(&path).unwrap();
    for (name, head) in
        [("models", "| model | architecture | f32 | f16 tier |"), ("formats", "| format | tried in | f32 | f16 tier |")]
    {
        let lines = table(&rows, name);
        if std::env::var_os("RIVULET_BLESS").is_some() {
            let (start, end, _) = section(&readme, name);
            let body: String = lines.values().map(|line| format!("{line}\n")).collect();
            readme.replace_range(start..end, &format!("{head}\n|---|---|---|---|\n{body}"));
            std::fs::write(&path, &readme).unwrap();
            continue;
        }
        let (_, _, listed) = section(&readme, name);
        let cells =
            |line: &str| -> Vec<String> { line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect() };
        let listed: BTreeMap<String, Vec<String>> =
            listed.into_iter().map(|line| (cells(line)[0].clone(), cells(line))).collect();
        for (name, line) in &lines {
            let (now, then) =
                (cells(line), listed.get(name).unwrap_or_else(|| panic!("README.md does not list {name}; bless it")));
            for column in 2..4 {
                // Adapters differ in the order of sums; what grows beyond that must be seen.
                let (Ok(now), Ok(then)) = (now[column].parse::<f32>(), then[column].parse::<f32>()) else { continue };
                assert!(now <= 4.0 * then, "{name}: README.md says {then:.1e}, measured {now:.1e}");
            }
        }
        if shared().is_some() {
            assert_eq!(listed.keys().collect::<Vec<_>>(), lines.keys().collect::<Vec<_>>(), "README.md lists what was played");
        }
    }
}
