//! `bench`, `selftest` and `shaders`.

use std::collections::BTreeMap;
use std::path::Path;

use pollster::block_on;
use rivulet::engine::{GenerateOptions, Prompt, selftest};
use rivulet::err;
use rivulet::error::Result;
use rivulet::kernels::{Access, Target};
use rivulet::reference::{self, case};
use rivulet::sample::SamplingOptions;
use rivulet::tensor::Tier;
use serde_json::json;

use crate::Report;
use crate::args::{Bench, Device};
use crate::model::{gpu, load};

/// `bench`: rates as medians, and what a token costs in dispatches, submits, created objects and readbacks.
pub fn bench(args: &Bench, device: &Device) -> Result<Report> {
    let mut engine = load(&args.model, device)?;
    let n_vocab = u64::from(engine.architecture().n_vocab);
    let options = GenerateOptions {
        max_tokens: Some(args.max_tokens.max(2)),
        ignore_eos: true,
        sampling: SamplingOptions { temperature: 0.0, ..Default::default() },
        ..Default::default()
    };
    let mut noise = case::Noise(1);
    let mut runs = Vec::new();
    for _ in 0..args.runs.max(1) {
        // A fresh prompt each time, so that nothing of it is cached.
        let ids: Vec<u32> = (0..args.prompt_tokens.max(1)).map(|_| (noise.bits() % n_vocab) as u32).collect();
        runs.push(block_on(engine.generate(&Prompt::Ids(ids), &options, &mut |_| {}, &|| false))?);
    }
    let median = |value: fn(&rivulet::engine::Generated) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    let last = runs.last().ok_or_else(|| err!(Internal, "no run"))?;
    let tokens = f64::from(last.usage.completion_tokens.saturating_sub(1).max(1));
    let per_token = |count: u64| count as f64 / tokens;
    let decode_tps = median(|r| r.timings.decode_tps);
    let bytes = engine.info().weight_bytes_per_token;
    let report = engine.gpu().report();
    let json = json!({
        "adapter": report.name, "backend": report.backend, "tier": report.tier,
        "model": engine.info().name, "quantization": engine.info().quantization,
        "promptTokens": args.prompt_tokens, "maxTokens": args.max_tokens, "runs": runs.len(),
        "prefillTps": median(|r| r.timings.prefill_tps), "decodeTps": decode_tps, "ttftMs": median(|r| r.timings.ttft_ms),
        "loadMs": engine.load_ms(),
        "bytesPerToken": bytes, "bandwidthGBps": bytes as f64 * decode_tps / 1e9,
        "dispatchesPerToken": per_token(last.decode_cost.dispatches),
        "submitsPerToken": per_token(last.decode_cost.submits),
        "readbacksPerToken": per_token(last.decode_cost.readbacks),
        "objectsCreatedPerToken": per_token(last.decode_cost.objects),
        "layers": engine.architecture().n_layers,
        "pipelines": engine.gpu().counters().pipelines,
        "deviceBytes": engine.info().memory_bytes,
    });
    let text = format!("{json:#}");
    Ok(Report::new(json, text))
}

/// `selftest`
pub fn selftest(device: &Device) -> Result<Report> {
    let gpu = gpu(device)?;
    let mut lines = Vec::new();
    let mut failures = Vec::new();
    let cases = reference::cases(gpu.tier())?;
    for case in &cases {
        match block_on(selftest::check(&gpu, case)) {
            Ok(o) if o.error <= 1.0 => lines.push(format!("ok   {} ({:.2} of the tolerance)", o.name, o.error)),
            Ok(o) => failures.push(format!("FAIL {}: {}", o.name, o.detail)),
            Err(e) => failures.push(format!("FAIL {}: {e}", case.name)),
        }
    }
    let json = json!({ "adapter": gpu.report(), "cases": cases.len(), "failed": failures });
    let failed = !failures.is_empty();
    lines.extend(failures);
    Ok(Report { json, text: lines.join("\n"), failed })
}

/// `shaders`: every variant that the kernels' cases link, in every tier, as a browser gets it, and `index.json`, which says
/// with which overrides and features each is compiled and how its bindings are accessed.
pub fn shaders(dir: &Path) -> Result<Report> {
    let mut variants = BTreeMap::new();
    for bits in 0..8 {
        let tier = Tier { cpu: bits & 1 != 0, f16: bits & 2 != 0, subgroups: bits & 4 != 0, ..Tier::BASE };
        for dispatch in reference::cases(tier)?.into_iter().flat_map(|c| c.recording.dispatches) {
            let access: Vec<bool> = dispatch.bindings.iter().map(|b| b.access == Access::Read).collect();
            variants.insert(dispatch.variant.label(), (dispatch.variant, access));
        }
    }
    let fail = |e: std::io::Error| err!(BadOption, "writing into {}: {e}", dir.display());
    std::fs::create_dir_all(dir).map_err(fail)?;
    let mut index = Vec::new();
    for (number, (label, (variant, read_only))) in variants.iter().enumerate() {
        let file = format!("{number:04}-{}.wgsl", variant.kernel.name.replace('/', "-"));
        std::fs::write(dir.join(&file), variant.link(Target::Browser)).map_err(fail)?;
        let overrides: BTreeMap<_, _> = variant.overrides.iter().copied().collect();
        index.push(json!({
            "file": file, "label": label, "overrides": overrides, "f16": variant.f16, "subgroups": variant.subgroups,
            "readOnly": read_only,
        }));
    }
    std::fs::write(dir.join("index.json"), format!("{:#}", json!(index))).map_err(fail)?;
    let text = format!("{} variants in {}", index.len(), dir.display());
    Ok(Report::new(json!({ "variants": index.len() }), text))
}
