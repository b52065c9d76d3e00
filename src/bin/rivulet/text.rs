//! Commands that need a vocabulary or a template, and no device.

use std::path::Path;

use minijinja::Value;
use rivulet::err;
use rivulet::error::Result;
use rivulet::gguf::Header;
use rivulet::text::{ChatTemplate, DateTime, EncodeOptions, RenderOptions, Tokenizer};
use serde::Deserialize;
use serde_json::json;

use crate::Report;
use crate::args::Render;
use crate::host::{self, System, read_json, read_text};
use rivulet::engine::Host;

fn open(path: &Path) -> Result<(Header, Tokenizer)> {
    let (mut header, _) = host::open(path, None)?;
    let tokenizer = Tokenizer::from_metadata(&mut header.metadata)?;
    Ok((header, tokenizer))
}

/// `tokenize`
pub fn tokenize(model: &Path, text: Option<&str>, texts: Option<&Path>, special: bool, bos: bool) -> Result<Report> {
    let (_, tokenizer) = open(model)?;
    let options = EncodeOptions { parse_special: special, add_bos: bos, add_eos: false };
    if let Some(text) = text {
        let ids = tokenizer.encode(text, options)?;
        return Ok(Report::new(json!({ "ids": ids }), format!("{ids:?}")));
    }
    let texts: Vec<String> = texts.map_or_else(|| Ok(Vec::new()), read_json)?;
    let results = texts.iter().map(|t| Ok(json!({ "ids": tokenizer.encode(t, options)? }))).collect::<Result<Vec<_>>>()?;
    let lines: Vec<String> = results.iter().map(|r| r["ids"].to_string()).collect();
    Ok(Report::new(json!({ "results": results }), lines.join("\n")))
}

/// `detokenize`
pub fn detokenize(model: &Path, ids: &[u32]) -> Result<Report> {
    let (_, tokenizer) = open(model)?;
    let text = tokenizer.decode(ids, false)?;
    Ok(Report::new(json!({ "text": text }), text))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Job {
    messages: Value,
    #[serde(default)]
    tools: Option<Value>,
    #[serde(default)]
    vars: Option<Value>,
    #[serde(default = "yes")]
    add_generation_prompt: bool,
}

fn yes() -> bool {
    true
}

/// `render`
pub fn render(args: &Render) -> Result<Report> {
    let template = match (&args.template, &args.model) {
        (Some(file), None) => ChatTemplate::new(&read_text(file)?)?,
        (Some(file), Some(model)) => ChatTemplate::new(&read_text(file)?)?.with_tokens_of(&open(model)?.1),
        (None, Some(model)) => {
            let (header, tokenizer) = open(model)?;
            let found = ChatTemplate::from_metadata(&header.metadata)?;
            let found =
                found.ok_or_else(|| err!(BadTemplate, "{} has no chat template: name one with --template", model.display()));
            found?.with_tokens_of(&tokenizer)
        }
        (None, None) => return Err(err!(BadOption, "render: expected a model or --template")),
    };
    let now = match &args.now {
        Some(text) => DateTime::parse(text)?,
        None => DateTime::from_unix(System::start().unix_seconds()),
    };
    let one = |job: Job| {
        let options = RenderOptions {
            tools: job.tools,
            variables: job.vars.unwrap_or(Value::UNDEFINED),
            add_generation_prompt: job.add_generation_prompt,
            now,
        };
        template.render(&job.messages, &options)
    };
    if let Some(batch) = &args.batch {
        let jobs: Vec<Job> = read_json(batch)?;
        let results: Vec<_> = jobs
            .into_iter()
            .map(|job| match one(job) {
                Ok(text) => json!({ "text": text }),
                Err(e) => json!({ "error": e.to_string() }),
            })
            .collect();
        let object = json!({ "results": results });
        let text = format!("{object:#}");
        return Ok(Report::new(object, text));
    }
    let optional = |path: &Option<std::path::PathBuf>| path.as_deref().map(read_json).transpose();
    let messages = args.messages.as_deref().ok_or_else(|| err!(BadOption, "render: expected --messages or --batch"))?;
    let text = one(Job {
        messages: read_json(messages)?,
        tools: optional(&args.tools)?,
        vars: optional(&args.vars)?,
        add_generation_prompt: !args.no_generation_prompt,
    })?;
    Ok(Report::new(json!({ "text": text }), text))
}
