//! The native companion: the engine without a browser. It is how the engine is checked, and measured on a real GPU.
//!
//! Every command takes `--json` (one JSON object on stdout, nothing else there); a failure exits with 1 and writes the
//! error's code and message to stderr.

mod args;
mod bench;
mod host;
mod model;
mod sampling;
mod text;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;
use rivulet::error::Result;
use serde_json::Value;

use args::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(report) => {
            if let Err(e) = report.print(cli.json)
                && e.kind() != ErrorKind::BrokenPipe
            {
                eprintln!("internal: writing to stdout: {e}");
                return ExitCode::FAILURE;
            }
            if report.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            eprintln!("{}: {}", error.code, error.message);
            ExitCode::FAILURE
        }
    }
}

/// What a command prints: an object for programs, lines for people.
struct Report {
    json: Value,
    text: String,
    /// The command ran and found something wrong (a self-test).
    failed: bool,
}

impl Report {
    fn new(json: Value, text: impl Into<String>) -> Self {
        Self { json, text: text.into(), failed: false }
    }

    fn print(&self, json: bool) -> std::io::Result<()> {
        let mut out = std::io::stdout();
        if json {
            writeln!(out, "{}", self.json)?;
        } else if !self.text.is_empty() {
            writeln!(out, "{}", self.text)?;
        }
        out.flush()
    }
}

fn run(cli: &Cli) -> Result<Report> {
    match &cli.command {
        Command::Inspect { model } => model::inspect(model, &cli.device),
        Command::Tokenize { model, text, texts, special, bos } => {
            text::tokenize(model, text.as_deref(), texts.as_deref(), *special, *bos)
        }
        Command::Detokenize { model, ids } => text::detokenize(model, &ids.0),
        Command::Render(args) => text::render(args),
        Command::Logits { model, ids, prompts, all } => {
            model::logits(model, ids.as_ref().map(|i| i.0.as_slice()), prompts.as_deref(), *all, &cli.device)
        }
        Command::Score { model, text } => model::score(model, text, &cli.device),
        Command::Embed(args) => model::embed(args, &cli.device),
        // `--reference` asks for what is done anyway.
        Command::Sample { logits, options, history, reference: _ } => sampling::sample(logits, options, history.as_deref()),
        Command::Generate(args) => model::generate(args, cli.json, &cli.device),
        Command::Bench(args) => bench::bench(args, &cli.device),
        Command::Selftest => bench::selftest(&cli.device),
        Command::Shaders { dir } => bench::shaders(dir),
    }
}
