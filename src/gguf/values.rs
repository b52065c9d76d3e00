//! Metadata values of GGUF's thirteen types. Messages show 100 characters of a key, which may have 65,535.

use super::limits::{MAX_ARRAY_LEN, MAX_KEY_BYTES, MAX_METADATA, MAX_STRING_BYTES};
use super::reader::{Reader, utf8};
use super::{Array, Metadata, Step, Strings, Value};
use crate::err;
use crate::error::Result;
use std::collections::HashSet;

/// GGUF's value types by number.
const TYPE_NAMES: [&str; 13] = ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"];
/// Bytes of one value by type number; zero for strings and arrays, which say their length.
const TYPE_BYTES: [u64; 13] = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// The least that a key/value pair takes: an empty key's length, a type and a one-byte value.
const MIN_PAIR_BYTES: u64 = 8 + 4 + 1;

/// Reads `count` key/value pairs.
pub(super) fn read(reader: &mut Reader, count: u64) -> Step<Metadata> {
    if count > MAX_METADATA || count.saturating_mul(MIN_PAIR_BYTES) > reader.file_left() {
        let most = MAX_METADATA.min(reader.file_left() / MIN_PAIR_BYTES);
        return Err(err!(BadFile, "header: expected at most {most} metadata pairs in this file, found a count of {count}").into());
    }
    let mut keys = HashSet::new();
    let mut entries = Vec::with_capacity((count as usize).min(reader.held() / MIN_PAIR_BYTES as usize));
    for i in 0..count {
        let key = reader.string(MAX_KEY_BYTES, || format!("key of metadata pair {i} of {count}"))?;
        if key.is_empty() {
            return Err(err!(BadFile, "metadata pair {i} of {count}: expected a key, found an empty one").into());
        }
        if !keys.insert(key) {
            return Err(
                err!(BadFile, "metadata {key:.100}: expected every key once, found it again as pair {i} of {count}").into()
            );
        }
        entries.push((key.to_owned(), value(reader, key)?));
    }
    Ok(Metadata::from_entries(entries))
}

fn type_number(reader: &mut Reader, key: &str, what: &str) -> Step<u32> {
    let number = reader.u32(|| format!("metadata {key:.100}, its {what}"))?;
    if number as usize >= TYPE_NAMES.len() {
        return Err(
            err!(BadFile, "metadata {key:.100}: expected {what} 0 to 12 ({}), found {number}", TYPE_NAMES.join(", ")).into()
        );
    }
    Ok(number)
}

fn value(reader: &mut Reader, key: &str) -> Step<Value> {
    let number = type_number(reader, key, "value type")?;
    if number == STRING {
        return Ok(Value::String(reader.string(MAX_STRING_BYTES, || format!("metadata {key:.100}"))?.to_owned()));
    }
    if number == ARRAY {
        return Ok(Value::Array(array(reader, key)?));
    }
    let name = TYPE_NAMES[number as usize];
    let bytes = reader.take(TYPE_BYTES[number as usize], || format!("metadata {key:.100}, a {name}"))?;
    Ok(match number {
        0 => Value::U8(one(bytes, u8::from_le_bytes)),
        1 => Value::I8(one(bytes, i8::from_le_bytes)),
        2 => Value::U16(one(bytes, u16::from_le_bytes)),
        3 => Value::I16(one(bytes, i16::from_le_bytes)),
        4 => Value::U32(one(bytes, u32::from_le_bytes)),
        5 => Value::I32(one(bytes, i32::from_le_bytes)),
        6 => Value::F32(one(bytes, f32::from_le_bytes)),
        BOOL => Value::Bool(boolean(bytes[0], || format!("metadata {key:.100}"))?),
        10 => Value::U64(one(bytes, u64::from_le_bytes)),
        11 => Value::I64(one(bytes, i64::from_le_bytes)),
        _ => Value::F64(one(bytes, f64::from_le_bytes)),
    })
}

fn array(reader: &mut Reader, key: &str) -> Step<Array> {
    let number = type_number(reader, key, "array element type")?;
    let name = TYPE_NAMES[number as usize];
    if number == ARRAY {
        return Err(err!(BadFile, "metadata {key:.100}: expected an array of plain values, found an array of arrays").into());
    }
    let count = reader.u64(|| format!("metadata {key:.100}, its length"))?;
    // A string takes eight bytes at least, its length.
    let each = TYPE_BYTES[number as usize].max(if number == STRING { 8 } else { 1 });
    let most = MAX_ARRAY_LEN.min(reader.file_left() / each);
    if count > most {
        return Err(err!(
            BadFile,
            "metadata {key:.100}: expected an array of at most {most} {name} values in this file, found a length of {count}"
        )
        .into());
    }
    if number == STRING {
        return Ok(Array::String(strings(reader, key, count)?));
    }
    let bytes = reader.take(count * each, || format!("metadata {key:.100}, {count} values of {name}"))?;
    Ok(match number {
        0 => Array::U8(bytes.to_vec()),
        1 => Array::I8(many(bytes, i8::from_le_bytes)),
        2 => Array::U16(many(bytes, u16::from_le_bytes)),
        3 => Array::I16(many(bytes, i16::from_le_bytes)),
        4 => Array::U32(many(bytes, u32::from_le_bytes)),
        5 => Array::I32(many(bytes, i32::from_le_bytes)),
        6 => Array::F32(many(bytes, f32::from_le_bytes)),
        BOOL => {
            let values: Result<Vec<bool>> =
                bytes.iter().enumerate().map(|(i, b)| boolean(*b, || format!("metadata {key:.100}[{i}]"))).collect();
            Array::Bool(values?)
        }
        10 => Array::U64(many(bytes, u64::from_le_bytes)),
        11 => Array::I64(many(bytes, i64::from_le_bytes)),
        _ => Array::F64(many(bytes, f64::from_le_bytes)),
    })
}

/// Walks all strings before it copies the first one: the copy is then allocated once at its exact size, and not at all
/// where the prefix ends inside the array.
fn strings(reader: &mut Reader, key: &str, count: u64) -> Step<Strings> {
    let start = reader.offset() as usize;
    for i in 0..count {
        reader.string_bytes(MAX_STRING_BYTES, || format!("metadata {key:.100}[{i}] of {count}"))?;
    }
    let text_bytes = reader.offset() as usize - start - 8 * count as usize;
    let mut walk = reader.rewound(start);
    let mut out = Strings::with_capacity(count as usize, text_bytes);
    for i in 0..count {
        let bytes = walk.string_bytes(MAX_STRING_BYTES, || format!("metadata {key:.100}[{i}] of {count}"))?;
        out.push(utf8(bytes, || format!("metadata {key:.100}[{i}] of {count}"))?);
    }
    Ok(out)
}

fn boolean(byte: u8, what: impl FnOnce() -> String) -> Result<bool> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(err!(BadFile, "{}: expected a boolean of 0 or 1, found {other}", what())),
    }
}

/// One value; `bytes` has exactly N bytes.
fn one<T, const N: usize>(bytes: &[u8], decode: fn([u8; N]) -> T) -> T {
    let mut raw = [0; N];
    raw.copy_from_slice(bytes);
    decode(raw)
}

fn many<T, const N: usize>(bytes: &[u8], decode: fn([u8; N]) -> T) -> Vec<T> {
    bytes.chunks_exact(N).map(|chunk| one(chunk, decode)).collect()
}
