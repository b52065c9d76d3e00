//! Metadata: typed values by key, kept compactly, since vocabularies hold hundreds of thousands of strings.

use crate::err;
use crate::error::Result;

/// An array of strings in two allocations: vocabularies and merges are long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strings {
    text: String,
    ends: Vec<u32>,
}

impl Strings {
    /// Room for `count` strings of `bytes` bytes in all.
    pub fn with_capacity(count: usize, bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), ends: Vec::with_capacity(count) }
    }

    /// Appends one string. The caller bounds the total to 4 GiB.
    pub fn push(&mut self, s: &str) {
        self.text.push_str(s);
        self.ends.push(self.text.len() as u32);
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at `i`, or `None` beyond the end.
    pub fn get(&self, i: usize) -> Option<&str> {
        let end = *self.ends.get(i)? as usize;
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        self.text.get(start..end)
    }

    /// All strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}

/// A metadata array. Nested arrays, which no model in use has, are refused while parsing.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // GGUF's own type names
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    String(Strings),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

/// A metadata value of any of GGUF's types.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // GGUF's own type names
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// The metadata of a file, in the file's order. Keys are unique (checked while parsing).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
}

impl Metadata {
    /// Metadata from entries; later duplicates are never found.
    pub fn from_entries(entries: Vec<(String, Value)>) -> Self {
        Self { entries }
    }

    /// All entries in the file's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The value at `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    /// Takes the value at `key` out, so that a vocabulary need not be held twice.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        let at = self.entries.iter().position(|(k, _)| k == key)?;
        Some(self.entries.remove(at).1)
    }

    /// A string, or `None` where the key is absent. Another type is `bad-file`.
    pub fn string(&self, key: &str) -> Result<Option<&str>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(other) => Err(mismatch(key, "a string", other)),
        }
    }

    /// An unsigned integer of any width, or a signed one that is not negative; `None` where the key is absent.
    pub fn uint(&self, key: &str) -> Result<Option<u64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = match *value {
            Value::U8(v) => Some(u64::from(v)),
            Value::U16(v) => Some(u64::from(v)),
            Value::U32(v) => Some(u64::from(v)),
            Value::U64(v) => Some(v),
            Value::I8(v) => u64::try_from(v).ok(),
            Value::I16(v) => u64::try_from(v).ok(),
            Value::I32(v) => u64::try_from(v).ok(),
            Value::I64(v) => u64::try_from(v).ok(),
            _ => None,
        };
        number.map(Some).ok_or_else(|| mismatch(key, "an unsigned integer", value))
    }

    /// A floating-point number (or an integer); `None` where the key is absent.
    pub fn float(&self, key: &str) -> Result<Option<f64>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::F32(v)) => Ok(Some(f64::from(*v))),
            Some(Value::F64(v)) => Ok(Some(*v)),
            Some(_) => self.uint(key).map(|v| v.map(|v| v as f64)),
        }
    }

    /// A boolean; `None` where the key is absent.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(v)) => Ok(Some(*v)),
            Some(other) => Err(mismatch(key, "a boolean", other)),
        }
    }

    /// An array; `None` where the key is absent.
    pub fn array(&self, key: &str) -> Result<Option<&Array>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(v)) => Ok(Some(v)),
            Some(other) => Err(mismatch(key, "an array", other)),
        }
    }
}

fn mismatch(key: &str, expected: &str, found: &Value) -> crate::error::Error {
    let found = match found {
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        other => format!("{other:?}"),
    };
    err!(BadFile, "metadata {key}: expected {expected}, found {found}")
}
