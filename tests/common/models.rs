//! Loading models in tests, and the reference outputs beside them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use pollster::block_on;
use rivulet::engine::{Engine, Host, LoadOptions, MemorySource};
use rivulet::gpu::{Gpu, GpuOptions};
use serde_json::{Value, json};

use super::{data, read_f32, read_json, shared};

/// A clock that stands still: tests measure no time.
pub struct StillHost;

impl Host for StillHost {
    fn now_ms(&self) -> f64 {
        0.0
    }

    fn unix_seconds(&self) -> i64 {
        0
    }

    fn entropy(&self) -> u64 {
        0
    }
}

thread_local! {
    static DEVICES: RefCell<HashMap<Option<String>, Rc<Gpu>>> = RefCell::default();
}

/// A device in this tier, or in the best that the adapter has: one a thread, so that its pipelines are compiled once.
pub fn gpu(tier: Option<&str>) -> rivulet::error::Result<Rc<Gpu>> {
    let tier = tier.map(str::to_owned);
    if let Some(known) = DEVICES.with_borrow(|d| d.get(&tier).cloned()) {
        return Ok(known);
    }
    let gpu = Rc::new(block_on(Gpu::request(GpuOptions { tier: tier.clone(), ..Default::default() }))?);
    DEVICES.with_borrow_mut(|d| d.insert(tier, gpu.clone()));
    Ok(gpu)
}

/// A loaded model.
pub fn engine(path: &Path, kv_type: &str, tier: Option<&str>) -> Engine {
    let source = MemorySource(std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())));
    let options: LoadOptions = serde_json::from_value(json!({ "kvType": kv_type, "autotune": false })).unwrap();
    load(source, gpu(tier).unwrap(), &options).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Loads a file in memory.
pub fn load(source: MemorySource, gpu: Rc<Gpu>, options: &LoadOptions) -> rivulet::error::Result<Engine> {
    block_on(Engine::load(&source, gpu, options, Box::new(StillHost), &mut |_| {}, &|| false))
}

/// The logits after each token, or after the last.
pub fn logits_of(engine: &mut Engine, ids: &[u32], all: bool) -> Vec<Vec<f32>> {
    let mut rows = Vec::new();
    let each = &mut |_, row| {
        rows.push(row);
        Ok(())
    };
    block_on(engine.logits(ids, all, each)).unwrap();
    rows
}

/// Greedy tokens, past any end of generation.
pub fn greedy(engine: &mut Engine, ids: &[u32], n: usize) -> Vec<u32> {
    if n == 0 {
        return Vec::new();
    }
    let options = rivulet::engine::GenerateOptions {
        max_tokens: Some(n as u32),
        ignore_eos: true,
        sampling: rivulet::sample::SamplingOptions { temperature: 0.0, ..Default::default() },
        ..Default::default()
    };
    let prompt = rivulet::engine::Prompt::Ids(ids.to_vec());
    block_on(engine.generate(&prompt, &options, &mut |_| {}, &|| false)).unwrap().tokens
}

/// A folder with golden.json and golden.f32.
pub struct Golden {
    folder: PathBuf,
    pub json: Value,
    floats: Vec<f32>,
}

impl Golden {
    /// `models/q-llama`, say: in tests/data, or in the developers' fixtures.
    pub fn find(name: &str) -> Option<Self> {
        let folder = [Some(data(name)), shared().map(|s| s.join("fixtures").join(name))].into_iter().flatten();
        folder.into_iter().find(|f| f.join("golden.json").is_file()).map(|folder| Self::open(&folder))
    }

    /// The reference outputs in a folder.
    pub fn open(folder: &Path) -> Self {
        let (json, floats) = (read_json(&folder.join("golden.json")), read_f32(&folder.join("golden.f32")));
        Self { folder: folder.to_owned(), json, floats }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// `n` floats at an offset that the JSON gives.
    pub fn floats(&self, offset: &Value, n: usize) -> &[f32] {
        let at = offset.as_u64().unwrap() as usize;
        &self.floats[at..at + n]
    }
}

/// An array of numbers.
pub fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

/// How many steps of a greedy path are sure: those before the first margin below `least`.
pub fn sure_steps(margins: &Value, least: f64) -> usize {
    let margins = margins.as_array().unwrap();
    margins.iter().position(|m| m.as_f64().unwrap() < least).unwrap_or(margins.len())
}
