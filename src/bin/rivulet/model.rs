//! Commands that run a model.

use std::io::Write;
use std::path::Path;
use std::rc::Rc;

use pollster::block_on;
use rivulet::engine::{AdapterUse, Engine, GenerateOptions, LoadOptions, Prompt, describe};
use rivulet::err;
use rivulet::error::Result;
use rivulet::gguf::{Array, Value};
use rivulet::gpu::{Gpu, GpuOptions};
use rivulet::tensor::Tier;
use rivulet::text::{EncodeOptions, Tokenizer};
use serde_json::{Map, json};

use crate::Report;
use crate::args::{Device, Embed, Generate};
use crate::host::{System, open, read_json, read_text};

/// The device that the options ask for.
pub fn gpu(device: &Device) -> Result<Gpu> {
    block_on(Gpu::request(gpu_options(device)))
}

/// Which device the options ask for.
pub fn gpu_options(device: &Device) -> GpuOptions {
    GpuOptions { adapter: device.adapter.clone(), tier: device.tier.clone(), ..Default::default() }
}

/// The options of a load.
pub fn load_options(device: &Device) -> Result<LoadOptions> {
    let mut options = Map::new();
    let lower = |text: &Option<String>| text.as_ref().map(|text| text.to_lowercase());
    for (option, name, value) in [
        ("context-length", "contextLength", json!(device.context_length)),
        ("kv-type", "kvType", json!(lower(&device.kv_type))),
        ("autotune", "autotune", json!(device.autotune)),
        ("quantize", "quantize", json!(lower(&device.quantize))),
        ("precision", "precision", json!(lower(&device.precision))),
    ] {
        if value.is_null() {
            continue;
        }
        let alone = Map::from_iter([(name.to_owned(), value.clone())]);
        serde_json::from_value::<LoadOptions>(alone.into()).map_err(|e| err!(BadOption, "--{option}: {e}"))?;
        options.insert(name.into(), value);
    }
    serde_json::from_value(options.into()).map_err(|e| err!(BadOption, "{e}"))
}

/// Loads a model and its adapters, which are chosen.
pub fn load(path: &Path, device: &Device) -> Result<Engine> {
    load_with(path, device, load_options(device)?)
}

fn load_with(path: &Path, device: &Device, options: LoadOptions) -> Result<Engine> {
    let (header, source) = open(path, options.quantize)?;
    let adapters = adapters(device)?;
    let gpu = Rc::new(gpu(device)?);
    let host = Box::new(System::start());
    let mut engine = block_on(Engine::load_header(header, &source, gpu, &options, host, &mut |_| {}, &|| false))?;
    for file in &device.lora {
        if file.is_dir() {
            return Err(err!(BadFile, "--lora {}: expected a GGUF file, found a directory", file.display()));
        }
        let (header, source) = open(file, None)?;
        block_on(engine.load_adapter(&header, &source, &|| false))?;
    }
    block_on(engine.choose_adapters(&adapters))?;
    Ok(engine)
}

/// The adapters of the command line, numbered in its order.
fn adapters(device: &Device) -> Result<Vec<AdapterUse>> {
    let (files, scales) = (&device.lora, &device.lora_scale);
    if scales.len() > files.len() {
        return Err(err!(
            BadOption,
            "--lora-scale: expected at most one for each --lora, found {} for {}",
            scales.len(),
            files.len()
        ));
    }
    let scales = scales.iter().copied().chain(std::iter::repeat(1.0));
    Ok((0..files.len() as u32).zip(scales).map(|(id, scale)| AdapterUse { id, scale }).collect())
}

/// `inspect`: the header alone.
pub fn inspect(path: &Path, device: &Device) -> Result<Report> {
    let options = load_options(device)?;
    let (header, _) = open(path, options.quantize)?;
    // Without a device: planned for one without limits, so that every file can be looked at.
    let tier = Tier { max_binding_bytes: u64::MAX, ..Tier::BASE };
    let info = describe(&header, tier, &options).and_then(|info| Tokenizer::check(&header.metadata).map(|()| info));
    let mut metadata = Map::new();
    let mut text = format!("GGUF version {}, {} tensors, {} bytes\n", header.version, header.tensors.len(), header.file_len);
    for (key, value) in header.metadata.iter() {
        let short = short(value);
        text.push_str(&format!("{key} = {short}\n"));
        metadata.insert(key.into(), short);
    }
    let tensors: Vec<_> = header
        .tensors
        .iter()
        .map(|t| json!({ "name": t.name, "type": t.format.name(), "shape": t.shape, "offset": t.offset, "bytes": t.bytes }))
        .collect();
    let (info, unsupported) = match info {
        Ok(info) => (json!(info), json!(null)),
        Err(e) => (json!(null), json!({ "code": e.code.as_str(), "message": e.message })),
    };
    text.push_str(&if info.is_null() { format!("not supported: {}", unsupported["message"]) } else { format!("{info:#}") });
    let json = json!({
        "version": header.version, "alignment": header.alignment, "dataOffset": header.data_offset, "fileBytes": header.file_len,
        "metadata": metadata, "tensors": tensors, "info": info, "unsupported": unsupported,
    });
    Ok(Report::new(json, text))
}

/// A value, long arrays by their length only.
fn short(value: &Value) -> serde_json::Value {
    macro_rules! array {
        ($v:expr) => {
            if $v.len() > 16 { json!(format!("[{} values]", $v.len())) } else { json!($v) }
        };
    }
    match value {
        Value::U8(v) => json!(v),
        Value::I8(v) => json!(v),
        Value::U16(v) => json!(v),
        Value::I16(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::I32(v) => json!(v),
        Value::F32(v) => json!(v),
        Value::Bool(v) => json!(v),
        Value::String(v) => json!(v),
        Value::U64(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::F64(v) => json!(v),
        Value::Array(array) => match array {
            Array::U8(v) => array!(v),
            Array::I8(v) => array!(v),
            Array::U16(v) => array!(v),
            Array::I16(v) => array!(v),
            Array::U32(v) => array!(v),
            Array::I32(v) => array!(v),
            Array::F32(v) => array!(v),
            Array::Bool(v) => array!(v),
            Array::U64(v) => array!(v),
            Array::I64(v) => array!(v),
            Array::F64(v) => array!(v),
            Array::String(v) if v.len() > 16 => json!(format!("[{} values]", v.len())),
            Array::String(v) => json!(v.iter().collect::<Vec<_>>()),
        },
    }
}

/// `logits`
pub fn logits(path: &Path, ids: Option<&[u32]>, prompts: Option<&Path>, all: bool, device: &Device) -> Result<Report> {
    let mut engine = load(path, device)?;
    let mut rows_of = |ids: &[u32]| -> Result<Vec<Vec<f32>>> {
        let mut rows = Vec::new();
        block_on(engine.logits(ids, all, &mut |_, logits| {
            rows.push(logits);
            Ok(())
        }))?;
        Ok(rows)
    };
    let json = match (ids, prompts) {
        (Some(ids), _) => json!({ "logits": rows_of(ids)? }),
        (None, Some(file)) => {
            let prompts: Vec<Vec<u32>> = read_json(file)?;
            let results = prompts.iter().map(|ids| Ok(json!({ "logits": rows_of(ids)? }))).collect::<Result<Vec<_>>>()?;
            json!({ "results": results })
        }
        (None, None) => return Err(err!(BadOption, "logits: expected --ids or --prompts")),
    };
    let text = json.to_string();
    Ok(Report::new(json, text))
}

/// `score`
pub fn score(path: &Path, text: &str, device: &Device) -> Result<Report> {
    let mut engine = load(path, device)?;
    let ids = engine.tokenizer().encode(text, EncodeOptions { parse_special: false, add_bos: true, add_eos: false })?;
    let scored = block_on(engine.score(&ids))?;
    let line = format!("perplexity {:.4} over {} tokens", scored.perplexity, scored.logprobs.len());
    Ok(Report::new(json!(scored), line))
}

/// `embed`
pub fn embed(args: &Embed, device: &Device) -> Result<Report> {
    let mut options = Map::new();
    options.insert("normalize".into(), (!args.no_normalize).into());
    options.insert("dimensions".into(), json!(args.dimensions));
    options.insert("pooling".into(), json!(args.pooling));
    let options = serde_json::from_value(options.into()).map_err(|e| err!(BadOption, "embed: {e}"))?;
    let texts: Vec<String> = match (&args.text, &args.texts) {
        (None, Some(file)) => read_json(file)?,
        (text, _) => text.iter().cloned().collect(),
    };
    let mut engine = load(&args.model, device)?;
    let mut results = Vec::new();
    for text in &texts {
        results.push(json!({ "embedding": block_on(engine.embed(text, &options, &|| false))? }));
    }
    let lines: Vec<String> = results.iter().map(|r| r["embedding"].to_string()).collect();
    let json = if args.text.is_some() { results.remove(0) } else { json!({ "results": results }) };
    Ok(Report::new(json, lines.join("\n")))
}

fn generate_options(args: &Generate) -> Result<GenerateOptions> {
    let mut o = Map::new();
    macro_rules! set {
        ($($name:literal: $value:expr),* $(,)?) => { $( if let Some(v) = &$value {
            let json = json!(v);
            if json.is_null() {
                // JSON has no NaN and no infinity, and null would mean the default.
                return Err(err!(BadOption, "{}: expected a number, found {v}", $name));
            }
            o.insert($name.into(), json);
        } )* };
    }
    set! {
        "maxTokens": args.max_tokens, "temperature": args.temperature, "topK": args.top_k, "topP": args.top_p, "minP": args.min_p,
        "typicalP": args.typical_p, "repetitionPenalty": args.repetition_penalty, "frequencyPenalty": args.frequency_penalty,
        "presencePenalty": args.presence_penalty, "penaltyWindow": args.penalty_window, "seed": args.seed,
    }
    if let Some(bias) = &args.logit_bias {
        let bias: serde_json::Value = serde_json::from_str(bias).map_err(|e| err!(BadOption, "--logit-bias: {e}"))?;
        o.insert("logitBias".into(), bias);
    }
    for (name, file) in [("tools", &args.tools), ("templateVars", &args.vars)] {
        if let Some(file) = file {
            o.insert(name.into(), read_json::<serde_json::Value>(file)?);
        }
    }
    o.insert("stop".into(), json!(args.stop));
    o.insert("ignoreEos".into(), json!(args.ignore_eos));
    o.insert("parseSpecial".into(), json!(args.special));
    GenerateOptions::parse(serde_json::Value::Object(o))
}

/// `generate`: streams to stdout, or prints one object at the end.
pub fn generate(args: &Generate, json: bool, device: &Device) -> Result<Report> {
    let mut options = generate_options(args)?;
    options.adapters = adapters(device)?;
    let prompt = match (&args.prompt, &args.ids, &args.messages) {
        (_, _, Some(file)) => Prompt::Messages(read_json(file)?),
        (_, Some(ids), _) => Prompt::Ids(ids.0.clone()),
        (Some(text), ..) => Prompt::Text(text.clone()),
        _ => return Err(err!(BadOption, "generate: expected --prompt, --ids or --messages")),
    };
    let template = args.template.as_deref().map(read_text).transpose()?;
    let mut engine = load_with(&args.model, device, LoadOptions { template, ..load_options(device)? })?;
    let mut stream = |event: rivulet::engine::TokenEvent| {
        if !json {
            // A closed pipe is the reader's choice, and the answer is complete without it.
            let mut out = std::io::stdout();
            let _ = write!(out, "{}", event.text).and_then(|()| out.flush());
        }
    };
    let done = block_on(engine.generate(&prompt, &options, &mut stream, &|| false))?;
    let timings = done.timings;
    if !json {
        let _ = writeln!(std::io::stdout());
        eprintln!("{:.1} tokens a second, first token after {:.0} ms", timings.decode_tps, timings.ttft_ms);
    }
    let object = json!({
        "text": done.text, "ids": done.tokens, "finishReason": done.finish_reason, "usage": done.usage, "timings": timings,
    });
    Ok(Report::new(object, ""))
}
