//! What the tests share: where data and models are, how a test skips, a writer of small GGUF files, random numbers.
#![allow(dead_code)] // each test binary uses some of it
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a helper that fails fails its test

pub mod files;
pub mod gguf_writer;
pub mod models;
pub mod templates;

use std::io::Write;
use std::path::{Path, PathBuf};

/// A file below `tests/data`.
pub fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(path)
}

/// The developers' fixtures, which are not part of the repository: `RIVULET_SHARED`, or `../shared` beside it.
pub fn shared() -> Option<PathBuf> {
    let folder = match std::env::var_os("RIVULET_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.join("shared"),
    };
    folder.is_dir().then_some(folder)
}

/// A real model by its file name, in the folder `RIVULET_MODELS`.
pub fn model(file: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("RIVULET_MODELS")?).join(file);
    path.is_file().then_some(path)
}

/// Says that the test `name` was skipped and why, also in the file `RIVULET_SKIPS`, so that the suite can list all skips.
pub fn skip(name: &str, why: &str) {
    eprintln!("skipped {name}: {why}");
    if let Some(path) = std::env::var_os("RIVULET_SKIPS") {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("RIVULET_SKIPS can be written");
        writeln!(file, "{name}: {why}").expect("RIVULET_SKIPS can be written");
    }
}

/// A file of raw little-endian f32.
pub fn read_f32(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// A JSON file.
pub fn read_json(path: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A seeded generator of random numbers (splitmix64): the same on every machine.
pub struct Rng(pub u64);

impl Rng {
    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// A number in -1..1, a multiple of 2^-23.
    pub fn signed(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// `n` random bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| (self.next() >> 56) as u8).collect()
    }
}
