//! `bench`, `selftest` and `shaders`.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use pollster::block_on;
use rivulet::engine::{BenchOptions, BenchReport, ByteSource, Engine, NoiseSource, Precision, Profile, Progress, selftest};
use rivulet::err;
use rivulet::error::Result;
use rivulet::gguf::Header;
use rivulet::gpu::{Gpu, GpuOptions};
use rivulet::kernels::{Access, Target};
use rivulet::reference;
use rivulet::tensor::Tier;
use serde_json::{Value, json};

use crate::Report;
use crate::args::{Bench, Device};
use crate::host::{System, open};
use crate::model::{gpu, gpu_options, load_options};

/// `bench`: rates over context lengths, and what a token costs; or how long each kernel takes.
pub fn bench(args: &Bench, device: &Device) -> Result<Report> {
    // What cannot be written should be said before minutes are spent.
    let folder = args.out.as_deref().map(|out| out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")));
    if let (Some(out), Some(folder)) = (&args.out, folder)
        && (!folder.is_dir() || out.is_dir())
    {
        return Err(err!(BadOption, "--out: {} is no file in a folder that is there", out.display()));
    }
    let (json, text) = match (&args.synthetic, &args.model) {
        (Some(name), _) => {
            let header = rivulet::model::synthetic::header(name)?;
            let source = NoiseSource(header.file_len);
            measure(header, &source, args, device)?
        }
        (None, Some(path)) => {
            let (header, source) = open(path, load_options(device)?.quantize)?;
            measure(header, &source, args, device)?
        }
        (None, None) => return Err(err!(BadOption, "bench: expected a model or --synthetic")),
    };
    if let Some(path) = &args.out {
        std::fs::write(path, format!("{json:#}\n")).map_err(|e| err!(BadOption, "writing {}: {e}", path.display()))?;
    }
    Ok(Report::new(json, text))
}

/// The report as JSON and for people.
fn measure(header: Header, source: &impl ByteSource, args: &Bench, device: &Device) -> Result<(Value, String)> {
    let load = load_options(device)?;
    let host = Box::new(System::start());
    let contexts = args.contexts.as_ref().map(|c| c.0.clone());
    if args.profile {
        let gpu = Rc::new(block_on(Gpu::request(GpuOptions { timestamps: true, ..gpu_options(device) }))?);
        let profile = async {
            let mut engine = Engine::load_header(header, source, gpu, &load, host, &mut |_| {}, &|| false).await?;
            engine.profile(&contexts.unwrap_or_else(|| vec![0]), args.runs.unwrap_or(20)).await
        };
        let profile = block_on(profile)?;
        return Ok((json!(profile), profile_table(&profile)));
    }
    let options = BenchOptions { contexts, prompt_tokens: args.prompt_tokens, max_tokens: args.max_tokens, runs: args.runs };
    let mut progress = |p: Progress| {
        if p.phase == "measure" && p.loaded < p.total {
            eprintln!("run {} of {}", p.loaded + 1, p.total);
        }
    };
    let gpu = Rc::new(gpu(device)?);
    let report = block_on(Engine::bench(header, source, gpu, &load, &options, host, &mut progress, &|| false))?.1;
    Ok((json!(report), table(&report)))
}

/// A profile for people.
fn profile_table(p: &Profile) -> String {
    let mut text = format!("{} on {} ({}): medians of {}\n", p.model, p.device.adapter, p.device.tier, p.repeats);
    for pass in &p.passes {
        text.push_str(&format!("\n{} of {} tokens after {}: {:.3} ms\n", pass.pass, pass.tokens, pass.context, pass.ms));
        text.push_str("calls        ms  share    GB/s  kernel\n");
        for k in &pass.kernels {
            let gbps = k.gbps.map_or(String::new(), |g| format!("{g:.1}"));
            text.push_str(&format!("{:5} {:9.3} {:4.0} % {gbps:>7}  {}\n", k.calls, k.ms, k.share * 100.0, k.kernel));
        }
    }
    text
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
    let fast = load_options(device)?.precision == Some(Precision::Fast);
    let tier = if fast { gpu.fast_tier()? } else { gpu.tier() };
    let cases = reference::cases(tier)?;
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
    for bits in 0..16 {
        let bit = |n: u32| bits & n != 0;
        let tier = Tier { cpu: bit(1), f16: bit(2), subgroups: bit(4), packed_dot: bit(8), ..Tier::BASE };
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
