//! `sample`: what the chain of samplers makes of logits.

use std::path::Path;

use rivulet::err;
use rivulet::error::Result;
use rivulet::sample::{SamplingOptions, probabilities};
use serde_json::json;

use crate::Report;
use crate::host::read_json;

/// The distribution after the whole chain. It is the CPU's: the GPU draws a token and never writes a distribution.
pub fn sample(logits: &Path, options: &Path, history: Option<&Path>) -> Result<Report> {
    let logits: Vec<Option<f32>> = read_json(logits)?;
    let logits: Vec<f32> = logits.into_iter().map(|l| l.unwrap_or(f32::NEG_INFINITY)).collect();
    let options: serde_json::Value = read_json(options)?;
    let options = SamplingOptions::parse(options)?;
    options.validate(logits.len())?;
    let history: Vec<u32> = history.map_or_else(|| Ok(Vec::new()), read_json)?;
    if let Some(id) = history.iter().find(|id| **id as usize >= logits.len()) {
        return Err(err!(BadOption, "history: expected ids below {}, found {id}", logits.len()));
    }
    let probs = probabilities(&logits, &history, &options)?;
    let text = format!("{probs:?}");
    Ok(Report::new(json!({ "probs": probs }), text))
}
