//! Measuring in a page: what the companion's `bench` does, and what only a page knows.

use std::rc::Rc;

use serde::Serialize;
use wasm_bindgen::prelude::*;

use super::compiler::JsCompiler;
use super::convert;
use super::model::{DeviceOptions, JsResult, split};
use super::source::{AbortFlag, BrowserHost, JsModelFiles};
use crate::engine::{self, BenchOptions, BenchReport, ByteSource, Engine, LoadOptions, NoiseSource};
use crate::err;
use crate::error::Result;
use crate::gguf::Header;
use crate::gpu::Gpu;
use crate::model::synthetic;

/// See `BenchReport` in `www/sdk/src/bench.ts`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageReport {
    #[serde(flatten)]
    report: BenchReport,
    /// The WebAssembly's memory never shrinks: what it is at the end is the most that it was.
    peak_wasm_bytes: u64,
}

/// Loads the model of `files`, or the synthetic one of this name, measures it and frees it. `load`: the options of
/// `Model.load`; `bench`: `contexts`, `promptTokens`, `maxTokens`, `runs`. An abort is the error `aborted`.
#[wasm_bindgen]
pub async fn benchmark(
    files: Option<JsModelFiles>,
    synthetic: Option<String>,
    load: js_sys::Object,
    bench: JsValue,
    on_progress: js_sys::Function,
    abort: &AbortFlag,
    compiler: JsCompiler,
) -> JsResult<JsValue> {
    let cancel = abort.watch();
    let options = Options { load: &load, bench, on_progress: &on_progress, cancel: &cancel, compiler };
    let report = match (files, synthetic) {
        (Some(files), None) => of_files(&files, options).await,
        (None, Some(name)) => of_name(&name, options).await,
        _ => Err(err!(BadOption, "benchmark: expected files or the name of a synthetic model")),
    };
    let report = report.map_err(convert::error)?;
    let peak_wasm_bytes = core::arch::wasm32::memory_size::<0>() as u64 * 65_536;
    convert::to_js(&PageReport { report, peak_wasm_bytes })
}

struct Options<'a> {
    load: &'a js_sys::Object,
    bench: JsValue,
    on_progress: &'a js_sys::Function,
    cancel: &'a engine::AbortFlag,
    compiler: JsCompiler,
}

async fn of_files(files: &JsModelFiles, options: Options<'_>) -> Result<BenchReport> {
    let load: LoadOptions = convert::options("benchmark", split(options.load)?.1)?;
    let (header, source) = super::source::open(files, load.quantize).await?;
    measure(header, &source, options).await
}

async fn of_name(name: &str, options: Options<'_>) -> Result<BenchReport> {
    let header = synthetic::header(name)?;
    let source = NoiseSource(header.file_len);
    measure(header, &source, options).await
}

async fn measure(header: Header, source: &impl ByteSource, options: Options<'_>) -> Result<BenchReport> {
    let (device, rest) = split(options.load)?;
    let device: DeviceOptions = convert::options("benchmark", device)?;
    let load: LoadOptions = convert::options("benchmark", rest)?;
    let bench: BenchOptions = convert::options("benchmark", options.bench)?;
    super::need_webgpu()?;
    let gpu = Gpu::request(device.into()).await?;
    gpu.compile_with(Box::new(options.compiler));
    let gpu = Rc::new(gpu);
    let mut progress = |p: engine::Progress| {
        // The host's own callback: it posts a message, and has nobody to tell when that fails.
        if let Ok(p) = convert::to_js(&p) {
            let _ = options.on_progress.call1(&JsValue::NULL, &p);
        }
    };
    let host = Box::new(BrowserHost);
    let measured = Engine::bench(header, source, gpu, &load, &bench, host, &mut progress, options.cancel).await?;
    Ok(measured.1)
}
