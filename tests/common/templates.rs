//! Rendering small templates in tests.

use rivulet::error::Result;
use rivulet::text::{ChatTemplate, DateTime, RenderOptions, to_value};
use serde_json::json;

/// Variables and no tools, at a fixed time.
pub fn options(variables: serde_json::Value) -> RenderOptions {
    let now = DateTime::parse("2025-01-15T12:30:45").unwrap();
    RenderOptions { tools: None, variables: to_value(variables), add_generation_prompt: false, now }
}

/// Renders a template with variables and no messages.
pub fn render(template: &str, variables: serde_json::Value) -> Result<String> {
    ChatTemplate::new(template)?.render(&to_value(json!([])), &options(variables))
}

/// Renders a template without variables.
pub fn print(template: &str) -> String {
    render(template, json!({})).unwrap_or_else(|e| panic!("{template}: {e}"))
}
