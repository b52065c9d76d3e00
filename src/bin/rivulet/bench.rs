//! `bench`, `selftest` and `shaders`.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use pollster::block_on;
use rivulet::engine::{BenchOptions, BenchReport, ByteSource, Engine, NoiseSource, Progress, read_header, selftest};
use rivulet::err;
use rivulet::error::Result;
use rivulet::gguf::Header;
use rivulet::kernels::{Access, Target};
use rivulet::reference;
use rivulet::tensor::Tier;
use serde_json::json;

use crate::Report;
use crate::args::{Bench, Device};
use crate::host::{FileSource, System};
use crate::model::{gpu, load_options};

/// `bench`: rates over context lengths, and what a token costs.
pub fn bench(args: &Bench, device: &Device) -> Result<Report> {
    let options = BenchOptions {
        contexts: args.contexts.as_ref().map(|c| c.0.clone()),
        prompt_tokens: args.prompt_tokens,
        max_tokens: args.max_tokens,
        runs: args.runs,
    };
    let report = match (&args.synthetic, &args.model) {
        (Some(name), _) => {
            let header = rivulet::model::synthetic::header(name)?;
            let source = NoiseSource(header.file_len);
            measure(header, &source, &options, device)?
        }
        (None, Some(path)) => {
            let source = FileSource::open(path)?;
            measure(block_on(read_header(&source))?, &source, &options, device)?
        }
        (None, None) => return Err(err!(BadOption, "bench: expected a model or --synthetic")),
    };
    let json = json!(report);
    if let Some(path) = &args.out {
        std::fs::write(path, format!("{json:#}\n")).map_err(|e| err!(BadOption, "writing {}: {e}", path.display()))?;
    }
    Ok(Report::new(json, table(&report)))
}

fn measure(header: Header, source: &impl ByteSource, options: &BenchOptions, device: &Device) -> Result<BenchReport> {
    let (gpu, load) = (Rc::new(gpu(device)?), load_options(device)?);
    let mut progress = |p: Progress| {
        if p.phase == "measure" {
            eprintln!("run {} of {}", (p.loaded + 1).min(p.total), p.total);
        }
    };
    let measured = Engine::bench(header, source, gpu, &load, options, Box::new(System::start()), &mut progress, &|| false);
    Ok(block_on(measured)?.1)
}

/// A report for people.
fn table(r: &BenchReport) -> String {
    let mut text = format!(
        "{} ({}), {} on {} ({})\nloaded in {:.0} ms, {:.0} MB on the device; its memory reads {:.1} GB/s\n\n\
         context  prefill t/s  first token ms  decode t/s  MB a token  GB/s  share\n",
        r.model,
        r.quantization,
        r.device.tier,
        r.device.adapter,
        r.device.backend,
        r.load_ms,
        r.peak_gpu_bytes as f64 / 1e6,
        r.measured_bandwidth_g_bps,
    );
    for row in &r.contexts {
        let m = row.measured;
        text.push_str(&format!(
            "{:7} {:12.1} {:15.0} {:11.2} {:11.1} {:5.1} {:5.0} %\n",
            row.context,
            m.prefill_tps,
            m.ttft_ms,
            m.decode_tps,
            m.bytes_per_token as f64 / 1e6,
            m.bandwidth_g_bps,
            m.share * 100.0
        ));
    }
    let m = r.first;
    text.push_str(&format!(
        "\na token: {:.1} dispatches, {:.2} submits, {:.2} readbacks, {:.2} writes, {:.2} objects created",
        m.dispatches_per_token, m.submits_per_token, m.readbacks_per_token, m.writes_per_token, m.objects_created_per_token
    ));
    if !r.skipped_contexts.is_empty() {
        text.push_str(&format!("\nbeyond the context of {}: {:?}", r.context_length, r.skipped_contexts));
    }
    text
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
