//! The house keeps its floors: a module names only what lies below it, and one place names each outside world.
#![allow(clippy::expect_used)] // also outside of #[test]

use std::path::{Path, PathBuf};

/// Each module and its floor; `src/lib.rs` tells the same to people.
const FLOORS: [(&str, u32); 13] = [
    ("error", 0),
    ("tensor", 0),
    ("gguf", 1),
    ("quant", 1),
    ("text", 1),
    ("sample", 1),
    ("hf", 2),
    ("kernels", 2),
    ("reference", 2),
    ("model", 3),
    ("gpu", 3),
    ("engine", 4),
    ("web", 5),
];

/// Crates that only one module may name.
const WORLDS: [(&str, &[&str]); 5] =
    [("wgpu", &["gpu"]), ("wasm_bindgen", &["web"]), ("js_sys", &["web"]), ("web_sys", &["web"]), ("clap", &["bin"])];

/// What modules that do no I/O must not name.
const PURE: [&str; 8] = ["gguf", "hf", "quant", "text", "sample", "kernels", "reference", "model"];
const IO: [&str; 5] = ["std::fs", "std::net", "std::time", "std::env", "std::thread"];

fn sources() -> Vec<(String, String)> {
    fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("src can be read").flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, files);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    walk(&root, &mut files);
    let name = |path: &Path| path.strip_prefix(&root).expect("below src").to_string_lossy().replace('\\', "/");
    files.iter().map(|f| (name(f), std::fs::read_to_string(f).expect("a source"))).collect()
}

/// The code of a file: no comments, no tests.
fn code(text: &str) -> String {
    let tests = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    text[..tests].lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn module(file: &str) -> &str {
    file.split(['/', '.']).next().unwrap_or(file)
}

#[test]
fn a_module_looks_only_down() {
    let floor = |name: &str| FLOORS.iter().find(|f| f.0 == name).map(|f| f.1);
    let mut wrong = Vec::new();
    let mut checked = 0;
    for (file, text) in sources() {
        let Some(own) = floor(module(&file)) else { continue };
        let code = code(&text);
        checked += 1;
        for (other, theirs) in FLOORS {
            let named = [
                format!("crate::{other}::"),
                format!("crate::{other};"),
                format!("crate::{other},"),
                format!("crate::{{{other}"),
            ];
            let up = theirs > own || (theirs == own && other != module(&file) && own > 0);
            if up && named.iter().any(|n| code.contains(n)) && !same_floor_allowed(module(&file), other) {
                wrong.push(format!("{file} (floor {own}) names {other} (floor {theirs})"));
            }
        }
    }
    assert!(checked > 40, "only {checked} files were looked at");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Within a floor: text reads GGUF metadata, and the twins are handed what kernels build.
fn same_floor_allowed(from: &str, to: &str) -> bool {
    matches!((from, to), ("text", "gguf") | ("reference", "kernels"))
}

#[test]
fn one_place_names_each_outside_world() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let code = code(&text);
        for (name, places) in WORLDS {
            if code.contains(&format!("{name}::")) && !places.contains(&module(&file)) {
                wrong.push(format!("{file} names {name}"));
            }
        }
        if PURE.contains(&module(&file)) {
            wrong.extend(IO.iter().filter(|io| code.contains(**io)).map(|io| format!("{file} names {io}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
