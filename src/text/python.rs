//! Where templates expect Python: how values print, and methods of strings, lists and dictionaries that minijinja's own
//! emulation (`minijinja_contrib::pycompat`) lacks.

use std::collections::HashSet;

use minijinja::value::{Kwargs, Rest, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};

/// The deepest nesting that is printed. Beyond it a value is hostile: it may even contain itself.
const MAX_DEPTH: usize = 64;

/// Text that is paid for, in fuel, while it is written: a value can hold itself many times over, and its text be
/// exponentially longer than it.
pub(super) struct Writer<'a, 'b, 'c> {
    pub text: String,
    state: &'a State<'b, 'c>,
    paid: usize,
}

/// Bytes that one unit of fuel pays for, as in minijinja where it serializes.
const BYTES_A_FUEL: usize = 4;

/// Bytes of text that one unit of fuel pays for where they are copied or looked at.
const BYTES_MADE_A_FUEL: u64 = 64;

/// More bytes than a number has where neither width nor precision are given.
const LONGEST_NUMBER: usize = 400;

impl<'a, 'b, 'c> Writer<'a, 'b, 'c> {
    pub fn new(state: &'a State<'b, 'c>) -> Self {
        Self { text: String::new(), state, paid: 0 }
    }

    pub fn push(&mut self, text: &str) -> Result<(), Error> {
        self.text.push_str(text);
        self.pay()
    }

    pub fn push_char(&mut self, c: char) -> Result<(), Error> {
        self.text.push(c);
        self.pay()
    }

    /// Checks the depth of a container before it is written, and charges for it.
    pub fn enter(&mut self, depth: usize) -> Result<(), Error> {
        if depth < MAX_DEPTH {
            return self.state.consume_fuel(1);
        }
        Err(Error::new(ErrorKind::InvalidOperation, format!("expected values nested at most {MAX_DEPTH} deep, found more")))
    }

    fn pay(&mut self) -> Result<(), Error> {
        let owed = self.text.len() - self.paid;
        if owed >= 64 * BYTES_A_FUEL {
            self.paid = self.text.len();
            self.state.consume_fuel((owed / BYTES_A_FUEL) as u64)?;
        }
        Ok(())
    }
}

/// Python's `str(value)`.
pub(super) fn to_str(state: &State, value: &Value) -> Result<String, Error> {
    let mut out = Writer::new(state);
    match value.kind() {
        ValueKind::Undefined => {}
        ValueKind::String => out.push(value.as_str().unwrap_or(""))?,
        _ => repr(&mut out, value, 0)?,
    }
    Ok(out.text)
}

/// Python's `repr(value)`.
fn repr(out: &mut Writer, value: &Value, depth: usize) -> Result<(), Error> {
    let list = |out: &mut Writer, open: &str, close: &str| {
        out.enter(depth)?;
        out.push(open)?;
        for (i, item) in value.try_iter()?.enumerate() {
            if i > 0 {
                out.push(", ")?;
            }
            repr(out, &item, depth + 1)?;
        }
        out.push(close)
    };
    match value.kind() {
        ValueKind::Undefined => out.push("Undefined"),
        ValueKind::String => quote(out, value.as_str().unwrap_or("")),
        ValueKind::Number if !value.is_integer() => out.push(&float(f64::try_from(value.clone())?)),
        ValueKind::Seq if value.is_tuple() => list(out, "(", if value.len() == Some(1) { ",)" } else { ")" }),
        ValueKind::Seq | ValueKind::Iterable => list(out, "[", "]"),
        ValueKind::Map => {
            out.enter(depth)?;
            out.push("{")?;
            for (i, key) in value.try_iter()?.enumerate() {
                if i > 0 {
                    out.push(", ")?;
                }
                repr(out, &key, depth + 1)?;
                out.push(": ")?;
                repr(out, &value.get_item(&key)?, depth + 1)?;
            }
            out.push("}")
        }
        _ => out.push(&value.to_string()),
    }
}

/// A string literal as Python prints it: in single quotes unless only double ones spare an escape.
fn quote(out: &mut Writer, text: &str) -> Result<(), Error> {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push_char(mark)?;
    for c in text.chars() {
        match c {
            '\\' => out.push("\\\\")?,
            '\n' => out.push("\\n")?,
            '\r' => out.push("\\r")?,
            '\t' => out.push("\\t")?,
            c if c == mark => {
                out.push("\\")?;
                out.push_char(c)?;
            }
            c if c < ' ' || c == '\u{7f}' => out.push(&format!("\\x{:02x}", u32::from(c)))?,
            c => out.push_char(c)?,
        }
    }
    out.push_char(mark)
}

/// A float as Python prints it: the shortest digits that read back equal, with an exponent below 1e-4 and from 1e16.
pub(super) fn float(v: f64) -> String {
    if v.is_nan() {
        return "nan".to_owned();
    }
    if v.is_infinite() {
        return if v > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if v != 0.0 && !(1e-4..1e16).contains(&v.abs()) {
        let text = format!("{v:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    let text = format!("{v}");
    if text.contains('.') { text } else { text + ".0" }
}

/// The filter `string`.
pub(super) fn string(state: &State, value: &Value) -> Result<Value, Error> {
    if value.kind() == ValueKind::String { Ok(value.clone()) } else { to_str(state, value).map(Value::from) }
}

/// The filter `join(separator="", attribute=None)`.
pub(super) fn join(state: &State, value: &Value, separator: Option<&str>, kwargs: Kwargs) -> Result<String, Error> {
    let separator = match separator {
        Some(separator) => separator,
        None => kwargs.get::<Option<&str>>("d")?.unwrap_or(""),
    };
    let attribute = kwargs.get::<Option<Value>>("attribute")?;
    kwargs.assert_all_used()?;
    join_values(state, value, separator, attribute)
}

fn join_values(state: &State, value: &Value, separator: &str, attribute: Option<Value>) -> Result<String, Error> {
    let mut out = Writer::new(state);
    for (i, item) in value.try_iter()?.enumerate() {
        state.consume_fuel(1)?;
        if i > 0 {
            out.push(separator)?;
        }
        let item = match &attribute {
            Some(attribute) => item.get_item(attribute)?,
            None => item,
        };
        match item.as_str() {
            Some(text) => out.push(text)?,
            None => out.push(&to_str(state, &item)?)?,
        }
    }
    Ok(out.text)
}

/// Methods of values. What is here goes before what minijinja has of the name.
pub(super) fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let unknown = |result: Result<Value, Error>| match result {
        Err(e) if e.kind() == ErrorKind::UnknownMethod => {
            Err(Error::new(ErrorKind::UnknownMethod, format!("{} has no method {name}", value.kind())))
        }
        other => other,
    };
    // Most methods visit all of what they are of.
    match (value.as_str(), name) {
        (Some(text), _) => state.consume_fuel(text.len() as u64 / BYTES_MADE_A_FUEL)?,
        (None, "index" | "count") if value.kind() == ValueKind::Seq => super::guard::read(state, value)?,
        _ => {}
    }
    if let Some(result) = value.as_str().and_then(|text| string_method(state, text, name, args)) {
        return result;
    }
    if value.kind() == ValueKind::Map && name == "copy" {
        from_args::<()>(args)?;
        return Ok(value.clone());
    }
    if matches!(value.kind(), ValueKind::Seq) && name == "index" {
        let (what,): (&Value,) = from_args(args)?;
        let at = value.try_iter()?.position(|item| item == *what);
        return at.map(Value::from).ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "index: the value is not in the list"));
    }
    unknown(minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args))
}

/// Charges for what a format makes before it is made. Each field, which `opening` opens, may print the longest value and fill
/// it up with characters of four bytes.
pub(super) fn charge_format<'a>(
    state: &State,
    format: &str,
    opening: char,
    values: impl Iterator<Item = &'a Value>,
) -> Result<(), Error> {
    let mut longest = LONGEST_NUMBER;
    for value in values {
        if value.is_kwargs() {
            for key in value.try_iter()? {
                longest = longest.max(printed_length(state, &value.get_item(&key)?)?);
            }
        } else {
            longest = longest.max(printed_length(state, value)?);
        }
    }
    for field in format.split(opening).skip(1) {
        let parts = 1 + field.matches('[').count();
        let filled: usize =
            field.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u16>().ok()).map(usize::from).sum();
        state.consume_fuel((parts.saturating_mul(longest) + 4 * filled) as u64 / BYTES_MADE_A_FUEL)?;
    }
    Ok(())
}

/// At least as much as minijinja prints of a value.
fn printed_length(state: &State, value: &Value) -> Result<usize, Error> {
    match value.as_str() {
        Some(text) => Ok(text.len()),
        // A float of five characters can have 300 digits there.
        None if value.as_object().is_some() => Ok(to_str(state, value)?.len().saturating_mul(LONGEST_NUMBER / 4)),
        None => Ok(0),
    }
}

/// What [`str::trim_matches`] and its like take, in constant time a character of the text.
pub(super) fn one_of(state: &State, text: &str, chars: &str) -> Result<impl Fn(char) -> bool + use<>, Error> {
    state.consume_fuel((text.len() + chars.len()) as u64 / 16)?;
    let chars: HashSet<char> = chars.chars().collect();
    Ok(move |c: char| chars.contains(&c))
}

fn string_method(state: &State, text: &str, name: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let result = match name {
        "removeprefix" => from_args(args).map(|(prefix,): (&str,)| Value::from(text.strip_prefix(prefix).unwrap_or(text))),
        "removesuffix" => from_args(args).map(|(suffix,): (&str,)| Value::from(text.strip_suffix(suffix).unwrap_or(text))),
        "partition" => from_args(args).map(|(sep,): (&str,)| {
            let (a, b, c) = text.split_once(sep).map_or((text, "", ""), |(a, c)| (a, sep, c));
            [a, b, c].into_iter().map(Value::from).collect()
        }),
        "rpartition" => from_args(args).map(|(sep,): (&str,)| {
            let (a, b, c) = text.rsplit_once(sep).map_or(("", "", text), |(a, c)| (a, sep, c));
            [a, b, c].into_iter().map(Value::from).collect()
        }),
        "rsplit" => from_args(args).and_then(|(sep, limit): (Option<&str>, Option<i64>)| rsplit(text, sep, limit)),
        "index" => from_args(args).and_then(|(what,): (&str,)| match text.find(what) {
            Some(at) => Ok(Value::from(text[..at].chars().count())),
            None => Err(Error::new(ErrorKind::InvalidOperation, "index: the text is not in the string")),
        }),
        // minijinja's would look for each character in all of the argument.
        "strip" | "lstrip" | "rstrip" if matches!(args, [chars] if chars.as_str().is_some()) => {
            one_of(state, text, args[0].as_str().unwrap_or_default()).map(|matches| {
                Value::from(match name {
                    "strip" => text.trim_matches(matches),
                    "lstrip" => text.trim_start_matches(matches),
                    _ => text.trim_end_matches(matches),
                })
            })
        }
        "casefold" => from_args(args).map(|()| Value::from(text.to_lowercase())),
        // minijinja's would print containers at any length.
        "join" => from_args(args).and_then(|(values,): (&Value,)| join_values(state, values, text, None).map(Value::from)),
        "format" => from_args(args).and_then(|(values,): (Rest<Value>,)| {
            // A width or precision of five digits makes kilobytes out of nothing.
            if text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 4) {
                return Err(Error::new(ErrorKind::InvalidOperation, "format: expected numbers of at most four digits"));
            }
            let mut printed = Vec::with_capacity(values.0.len());
            for value in &values.0 {
                printed.push(if value.as_object().is_some() { Value::from(to_str(state, value)?) } else { value.clone() });
            }
            charge_format(state, text, '{', printed.iter())?;
            minijinja::formatting::format(minijinja::formatting::FormatStyle::StrFormat, text, &printed).map(Value::from)
        }),
        _ => return None,
    };
    Some(result)
}

fn rsplit(text: &str, sep: Option<&str>, limit: Option<i64>) -> Result<Value, Error> {
    // The pieces beyond the limit stay together at the front.
    let limit = limit.and_then(|n| usize::try_from(n).ok()).map_or(usize::MAX, |n| n.saturating_add(1));
    let mut parts: Vec<&str> = match sep {
        Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "rsplit: expected a separator, found an empty string")),
        Some(sep) => text.rsplitn(limit, sep).collect(),
        None => {
            let mut rest = text.trim_end();
            let mut parts = Vec::new();
            while !rest.is_empty() {
                match rest.rfind(char::is_whitespace).filter(|_| parts.len() + 1 < limit) {
                    Some(at) => {
                        let word = rest[at..].trim_start();
                        parts.push(word);
                        rest = rest[..at].trim_end();
                    }
                    None => {
                        parts.push(rest);
                        break;
                    }
                }
            }
            parts
        }
    };
    parts.reverse();
    Ok(parts.into_iter().map(Value::from).collect())
}
