//! JSON that is asked by key. What it says is not trusted: every number is bounded to what the asker can hold.

use serde_json::Value;

use crate::err;
use crate::error::Result;

/// An object of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Json<'a> {
    /// The file, for messages.
    pub file: &'a str,
    /// The object.
    pub value: &'a Value,
}

/// Parses a file. Error: `bad-file`.
pub(super) fn parse<'a, T: serde::Deserialize<'a>>(file: &str, bytes: &'a [u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| err!(BadFile, "{file}: {e}"))
}

impl<'a> Json<'a> {
    /// The value at `a.b`, where there is one that is not null.
    pub fn get(self, path: &str) -> Option<&'a Value> {
        let found = path.split('.').try_fold(self.value, |value, key| value.get(key))?;
        (!found.is_null()).then_some(found)
    }

    /// The first of several paths that is there, with its value.
    pub fn first<'p>(self, paths: &[&'p str]) -> Option<(&'p str, &'a Value)> {
        paths.iter().find_map(|path| Some((*path, self.get(path)?)))
    }

    /// A whole number of 32 bits.
    pub fn u32(self, paths: &[&str]) -> Result<Option<u32>> {
        let Some((path, value)) = self.first(paths) else { return Ok(None) };
        let number = value.as_u64().and_then(|n| u32::try_from(n).ok());
        number.map(Some).ok_or_else(|| self.mismatch(path, "a whole number below 2^32", value))
    }

    /// A number.
    pub fn f32(self, paths: &[&str]) -> Result<Option<f32>> {
        let Some((path, value)) = self.first(paths) else { return Ok(None) };
        let number = value.as_f64().map(|n| n as f32).filter(|n| n.is_finite());
        number.map(Some).ok_or_else(|| self.mismatch(path, "a finite number", value))
    }

    /// A boolean.
    pub fn bool(self, path: &str) -> Result<Option<bool>> {
        let Some(value) = self.get(path) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.mismatch(path, "true or false", value))
    }

    /// A string.
    pub fn string(self, path: &str) -> Result<Option<&'a str>> {
        let Some(value) = self.get(path) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.mismatch(path, "a string", value))
    }

    /// Numbers, at most `most` of them.
    pub fn floats(self, path: &str, most: usize) -> Result<Option<Vec<f32>>> {
        let Some(value) = self.get(path) else { return Ok(None) };
        let all = value.as_array().filter(|all| all.len() <= most);
        let all: Option<Vec<f32>> = all.and_then(|all| all.iter().map(|v| v.as_f64().map(|n| n as f32)).collect());
        all.map(Some).ok_or_else(|| self.mismatch(path, &format!("at most {most} numbers"), value))
    }

    /// What is there is not what was expected.
    pub fn mismatch(self, path: &str, expected: &str, found: &Value) -> crate::error::Error {
        err!(BadFile, "{} {path}: expected {expected}, found {:.100}", self.file, found.to_string())
    }
}
