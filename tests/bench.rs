//! What a measurement reports. No rate is looked at: only that all of it is there, and the counts are right.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // also outside of #[test]

mod common;

use std::rc::Rc;
use std::time::Instant;

use common::data;
use common::models::gpu;
use pollster::block_on;
use rivulet::engine::{
    BenchOptions, BenchReport, Cancel, Engine, GenerateOptions, Host, LoadOptions, MemorySource, Progress, Prompt, read_header,
};
use rivulet::error::{Code, Error, Result};
use rivulet::gpu::{Gpu, GpuOptions};
use rivulet::kernels::attention::KvType;
use rivulet::model::Architecture;
use serde_json::{Value, json};

struct Clock(Instant);

impl Host for Clock {
    fn now_ms(&self) -> f64 {
        self.0.elapsed().as_secs_f64() * 1000.0
    }

    fn unix_seconds(&self) -> i64 {
        0
    }

    fn entropy(&self) -> u64 {
        0
    }
}

fn bench(file: &str, options: Value, cancel: &dyn Cancel) -> Result<(Architecture, BenchReport, Vec<Progress>)> {
    let source = MemorySource(std::fs::read(data(file)).unwrap());
    let options: BenchOptions = serde_json::from_value(options).unwrap();
    let load: LoadOptions = serde_json::from_value(json!({ "kvType": "f16" })).unwrap();
    let mut seen = Vec::new();
    let header = block_on(read_header(&source)).unwrap();
    let host = Box::new(Clock(Instant::now()));
    let gpu = gpu(None).unwrap();
    let mut progress = |p| seen.push(p);
    let (engine, report) = block_on(Engine::bench(header, &source, gpu, &load, &options, host, &mut progress, cancel))?;
    Ok((engine.architecture().clone(), report, seen))
}

#[test]
fn a_report_has_every_figure_and_the_right_counts() {
    let options = json!({ "contexts": [64, 0, 100_000], "promptTokens": 40, "maxTokens": 9, "runs": 2 });
    let (a, report, seen) = bench("models/q-llama/Q4_0.gguf", options, &|| false).unwrap();
    let json = json!(report);
    for name in [
        "adapter",
        "backend",
        "tier",
        "model",
        "quantization",
        "architecture",
        "prefillTps",
        "decodeTps",
        "ttftMs",
        "loadMs",
        "bytesPerToken",
        "bandwidthGBps",
        "measuredBandwidthGBps",
        "share",
        "dispatchesPerToken",
        "submitsPerToken",
        "readbacksPerToken",
        "writesPerToken",
        "objectsCreatedPerToken",
        "weightBytesPerToken",
        "peakGpuBytes",
        "pipelines",
    ] {
        assert!(!json[name].is_null(), "{name} is missing in {json:#}");
    }
    assert_eq!((json["kind"].as_str(), json["runs"].as_u64()), (Some("rivulet-bench"), Some(2)));
    assert_eq!(json["skippedContexts"], json!([100_000]));
    let rows = json["contexts"].as_array().unwrap();
    assert_eq!(rows.iter().map(|r| r["context"].as_u64().unwrap()).collect::<Vec<_>>(), [64, 0]);
    for row in rows {
        assert_eq!(row["decodeTpsRuns"].as_array().unwrap().len(), 2);
        assert_eq!(row["objectsCreatedPerToken"], 0.0);
        assert!(row["decodeTps"].as_f64().unwrap() > 0.0 && row["prefillTps"].as_f64().unwrap() > 0.0);
        assert!(row["readbacksPerToken"].as_f64().unwrap() <= 1.0);
        assert!(row["dispatchesPerToken"].as_f64().unwrap() >= 4.0 * report.layers as f64);
    }
    // 64 tokens more of keys and values, in f16.
    let each = a.kv_bytes_per_position(KvType::F16);
    let bytes = |row: usize| rows[row]["bytesPerToken"].as_u64().unwrap();
    assert_eq!(bytes(0) - bytes(1), 64 * each);
    assert_eq!(bytes(1), report.weight_bytes_per_token + (1 + 9 / 2) * each);
    let phases: Vec<&str> = seen.iter().map(|p| p.phase).collect();
    assert_eq!((phases.first(), phases.last()), (Some(&"bandwidth"), Some(&"measure")));
    assert_eq!(phases.iter().filter(|p| **p == "measure").count(), 2 * 2 + 1);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let code = |options: Value| bench("models/q-llama/Q4_0.gguf", options, &|| false).map(|r| r.1).unwrap_err().code;
    assert_eq!(code(json!({ "contexts": [] })), Code::BadOption);
    assert_eq!(code(json!({ "maxTokens": 1 })), Code::BadOption);
    assert_eq!(code(json!({ "contexts": [1_000_000], "promptTokens": 2, "maxTokens": 2 })), Code::ContextOverflow);
    let aborted = bench("models/q-llama/Q4_0.gguf", json!({}), &|| true).map(|r| r.1).unwrap_err();
    assert_eq!(aborted.code, Code::Aborted);
    assert!(serde_json::from_value::<BenchOptions>(json!({ "context": [0] })).is_err(), "an unknown name");
}

#[test]
fn a_profile_times_every_kernel_of_each_pass() {
    let source = MemorySource(std::fs::read(data("models/q-llama/Q4_0.gguf")).unwrap());
    let load: LoadOptions = serde_json::from_value(json!({ "contextLength": 128 })).unwrap();
    let profile = |timestamps| {
        let gpu = Rc::new(block_on(Gpu::request(GpuOptions { timestamps, ..Default::default() }))?);
        let host = Box::new(Clock(Instant::now()));
        let mut engine = block_on(Engine::load(&source, gpu, &load, host, &mut |_| {}, &|| false))?;
        let profile = block_on(engine.profile(&[0, 64], 2))?;
        // What it played leaves nothing behind.
        let (prompt, options) = (Prompt::Ids(vec![1, 2, 3]), GenerateOptions { max_tokens: Some(2), ..Default::default() });
        assert_eq!(block_on(engine.generate(&prompt, &options, &mut |_| {}, &|| false))?.usage.cached_tokens, 0);
        Ok((engine.architecture().n_layers, profile))
    };
    let (layers, found) = match profile(true) {
        Ok(found) => found,
        Err(Error { code: Code::BadOption, message }) => return common::skip("a_profile_times_every_kernel", &message),
        Err(e) => panic!("{e}"),
    };
    let passes: Vec<_> = found.passes.iter().map(|p| (p.pass, p.context)).collect();
    let expected = [0, 64].map(|context| ["prefill", "decode", "head", "sample"].map(|pass| (pass, context)));
    assert_eq!(passes, expected.concat());
    for pass in &found.passes {
        let shares: f64 = pass.kernels.iter().map(|k| k.share).sum();
        assert!(pass.ms > 0.0 && (shares - 1.0).abs() < 1e-6, "{pass:?}");
    }
    let calls: u32 = found.passes[1].kernels.iter().map(|k| k.calls).sum();
    assert!(calls > 4 * layers, "{calls} dispatches in {layers} layers");
    assert_eq!(profile(false).unwrap_err().code, Code::BadOption, "a device without timestamps");
}
