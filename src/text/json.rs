//! `tojson` as `transformers` has it, which is Python's `json.dumps(…, ensure_ascii=False)`: no escaping for HTML, ", "
//! and ": " between items, the order of keys kept.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use super::python::{Writer, float};

/// How `json.dumps` lays out its text.
struct Layout {
    indent: Option<String>,
    item: String,
    key: String,
    ascii: bool,
    sort: bool,
}

/// The filter `tojson(indent=None, separators=None, ensure_ascii=False, sort_keys=False)`. Undefined values are an
/// error, as in Python.
pub(super) fn tojson(state: &State, value: &Value, indent: Option<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => kwargs.get::<Option<Value>>("indent")?,
    };
    let indent = indent.filter(|v| !v.is_none()).map(indent_text).transpose()?;
    let separators = kwargs.get::<Option<Vec<String>>>("separators")?;
    let [item, key] = match separators {
        None => [if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()],
        Some(both) => both.try_into().map_err(|_| error("tojson: expected two separators"))?,
    };
    let ascii = kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let sort = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let mut out = Writer::new(state);
    write(&mut out, value, &Layout { indent, item, key, ascii, sort }, 0)?;
    Ok(out.text)
}

fn indent_text(indent: Value) -> Result<String, Error> {
    if let Some(text) = indent.as_str() {
        return Ok(text.to_owned());
    }
    match indent.as_usize() {
        Some(width) if width <= 64 => Ok(" ".repeat(width)),
        _ => Err(error("tojson: expected an indent of 0 to 64 spaces")),
    }
}

fn write(out: &mut Writer, value: &Value, layout: &Layout, depth: usize) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => out.push("null"),
        ValueKind::Bool => out.push(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number if value.is_integer() => out.push(&value.to_string()),
        ValueKind::Number => out.push(&match f64::try_from(value.clone())? {
            v if v.is_nan() => "NaN".to_owned(),
            v if v.is_infinite() => if v > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
            v => float(v),
        }),
        ValueKind::String => string(out, value.as_str().unwrap_or(""), layout.ascii),
        ValueKind::Map => {
            let mut keys = value.try_iter()?.collect::<Vec<_>>();
            if layout.sort {
                keys.sort();
            }
            container(out, ['{', '}'], keys, layout, depth, |out, key| {
                match key.kind() {
                    ValueKind::String => string(out, key.as_str().unwrap_or(""), layout.ascii)?,
                    ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                        out.push("\"")?;
                        write(out, key, layout, depth + 1)?;
                        out.push("\"")?;
                    }
                    kind => return Err(error(&format!("tojson: expected keys that are strings, found {kind}"))),
                }
                out.push(&layout.key)?;
                write(out, &value.get_item(key)?, layout, depth + 1)
            })
        }
        ValueKind::Seq | ValueKind::Iterable => {
            container(out, ['[', ']'], value.try_iter()?, layout, depth, |out, item| write(out, item, layout, depth + 1))
        }
        kind => Err(error(&format!("tojson: expected a value that JSON has, found {kind}"))),
    }
}

fn container(
    out: &mut Writer,
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = Value>,
    layout: &Layout,
    depth: usize,
    mut each: impl FnMut(&mut Writer, &Value) -> Result<(), Error>,
) -> Result<(), Error> {
    out.enter(depth)?;
    out.push_char(open)?;
    let mut empty = true;
    for item in items {
        if !empty {
            out.push(&layout.item)?;
        }
        empty = false;
        line(out, layout, depth + 1)?;
        each(out, &item)?;
    }
    if !empty {
        line(out, layout, depth)?;
    }
    out.push_char(close)
}

fn line(out: &mut Writer, layout: &Layout, depth: usize) -> Result<(), Error> {
    let Some(indent) = &layout.indent else { return Ok(()) };
    out.push("\n")?;
    (0..depth).try_for_each(|_| out.push(indent))
}

fn string(out: &mut Writer, text: &str, ascii: bool) -> Result<(), Error> {
    out.push("\"")?;
    for c in text.chars() {
        match c {
            '"' => out.push("\\\"")?,
            '\\' => out.push("\\\\")?,
            '\n' => out.push("\\n")?,
            '\r' => out.push("\\r")?,
            '\t' => out.push("\\t")?,
            '\u{8}' => out.push("\\b")?,
            '\u{c}' => out.push("\\f")?,
            c if c < ' ' || (ascii && !c.is_ascii()) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push(&format!("\\u{unit:04x}"))?;
                }
            }
            c => out.push_char(c)?,
        }
    }
    out.push("\"")
}

fn error(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.to_owned())
}
