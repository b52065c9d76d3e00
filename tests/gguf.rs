//! The GGUF parser: every value type, the two real models' headers, every kind of damage with its code and culprit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::gguf_writer::{Gguf, array, string, types};
use rivulet::error::{Code, Error};
use rivulet::gguf::{Array, Header, Parsed, Value, limits, parse};
use rivulet::tensor::Format;

/// Parses a whole file that is in memory.
fn whole(bytes: &[u8]) -> Result<Header, Error> {
    match parse(bytes, bytes.len() as u64)? {
        Parsed::Header(header) => Ok(header),
        Parsed::NeedMore(n) => panic!("wants {n} bytes of a file that has {}", bytes.len()),
    }
}

/// A small valid file.
fn small() -> Gguf {
    Gguf::default()
        .text("general.architecture", "llama")
        .number("llama.block_count", 1)
        .zeros("token_embd.weight", Format::Q4_0, &[64, 10])
        .zeros("blk.0.attn_q.weight", Format::Q6_K, &[256, 2, 3])
        .zeros("output_norm.weight", Format::F32, &[64])
}

/// Parses `file`, which must fail with this code and a message that holds all of `words`.
#[track_caller]
fn refused(bytes: &[u8], code: Code, words: &[&str]) {
    let error = whole(bytes).err().unwrap_or_else(|| panic!("was accepted; expected {code} naming {words:?}"));
    assert_eq!(error.code, code, "{error}");
    for word in words {
        assert!(error.message.contains(word), "{error}\ndoes not say {word:?}");
    }
}

#[test]
fn every_value_type_is_read() {
    let file = Gguf::default()
        .pair("u8", types::U8, [200])
        .pair("i8", types::I8, (-100i8).to_le_bytes())
        .pair("u16", types::U16, 60_000u16.to_le_bytes())
        .pair("i16", types::I16, (-30_000i16).to_le_bytes())
        .pair("u32", types::U32, 4_000_000_000u32.to_le_bytes())
        .pair("i32", types::I32, (-2_000_000_000i32).to_le_bytes())
        .pair("f32", types::F32, 1.5f32.to_le_bytes())
        .pair("bool", types::BOOL, [1])
        .text("string", "ein Bächlein 🌊")
        .pair("u64", types::U64, u64::MAX.to_le_bytes())
        .pair("i64", types::I64, i64::MIN.to_le_bytes())
        .pair("f64", types::F64, 1e300f64.to_le_bytes());
    let expected = [
        ("u8", Value::U8(200)),
        ("i8", Value::I8(-100)),
        ("u16", Value::U16(60_000)),
        ("i16", Value::I16(-30_000)),
        ("u32", Value::U32(4_000_000_000)),
        ("i32", Value::I32(-2_000_000_000)),
        ("f32", Value::F32(1.5)),
        ("bool", Value::Bool(true)),
        ("string", Value::String("ein Bächlein 🌊".into())),
        ("u64", Value::U64(u64::MAX)),
        ("i64", Value::I64(i64::MIN)),
        ("f64", Value::F64(1e300)),
    ];
    let header = whole(&file.bytes()).unwrap();
    assert_eq!(header.metadata.iter().map(|(k, v)| (k, v.clone())).collect::<Vec<_>>(), expected);
}

#[test]
fn every_array_type_is_read() {
    let two = |kind: u32, a: &[u8], b: &[u8]| array(kind, &[a.to_vec(), b.to_vec()]);
    let file = Gguf::default()
        .pair("u8", types::ARRAY, two(types::U8, &[1], &[255]))
        .pair("i8", types::ARRAY, two(types::I8, &[1], &[255]))
        .pair("u16", types::ARRAY, two(types::U16, &[1, 0], &[0, 1]))
        .pair("i16", types::ARRAY, two(types::I16, &[1, 0], &[255, 255]))
        .pair("u32", types::ARRAY, two(types::U32, &1u32.to_le_bytes(), &u32::MAX.to_le_bytes()))
        .pair("i32", types::ARRAY, two(types::I32, &1i32.to_le_bytes(), &(-1i32).to_le_bytes()))
        .pair("f32", types::ARRAY, two(types::F32, &0.5f32.to_le_bytes(), &(-2f32).to_le_bytes()))
        .pair("bool", types::ARRAY, two(types::BOOL, &[0], &[1]))
        .pair("string", types::ARRAY, two(types::STRING, &string("a"), &string("ß")))
        .pair("u64", types::ARRAY, two(types::U64, &1u64.to_le_bytes(), &u64::MAX.to_le_bytes()))
        .pair("i64", types::ARRAY, two(types::I64, &1i64.to_le_bytes(), &(-1i64).to_le_bytes()))
        .pair("f64", types::ARRAY, two(types::F64, &0.5f64.to_le_bytes(), &(-2f64).to_le_bytes()))
        .pair("empty", types::ARRAY, array(types::STRING, &[]));
    let metadata = whole(&file.bytes()).unwrap().metadata;
    let get = |key: &str| metadata.array(key).unwrap().unwrap();
    assert_eq!(*get("u8"), Array::U8(vec![1, 255]));
    assert_eq!(*get("i8"), Array::I8(vec![1, -1]));
    assert_eq!(*get("u16"), Array::U16(vec![1, 256]));
    assert_eq!(*get("i16"), Array::I16(vec![1, -1]));
    assert_eq!(*get("u32"), Array::U32(vec![1, u32::MAX]));
    assert_eq!(*get("i32"), Array::I32(vec![1, -1]));
    assert_eq!(*get("f32"), Array::F32(vec![0.5, -2.0]));
    assert_eq!(*get("bool"), Array::Bool(vec![false, true]));
    assert_eq!(*get("u64"), Array::U64(vec![1, u64::MAX]));
    assert_eq!(*get("i64"), Array::I64(vec![1, -1]));
    assert_eq!(*get("f64"), Array::F64(vec![0.5, -2.0]));
    let (Array::String(strings), Array::String(empty)) = (get("string"), get("empty")) else { panic!("not strings") };
    assert_eq!(strings.iter().collect::<Vec<_>>(), ["a", "ß"]);
    assert!(empty.is_empty());
}

#[test]
fn the_tensor_table_is_read() {
    let file = small();
    let header = whole(&file.bytes()).unwrap();
    assert_eq!((header.version, header.alignment), (3, 32));
    assert_eq!(header.data_offset, (file.header().len() as u64).next_multiple_of(32));
    assert_eq!(header.file_len, file.bytes().len() as u64);
    let q = header.tensor("blk.0.attn_q.weight").unwrap();
    assert_eq!((q.format, q.row_len(), q.rows(), q.bytes), (Format::Q6_K, 256, 6, 6 * 210));
    assert_eq!((q.shape.as_slice(), q.offset), (&[256, 2, 3][..], header.data_offset + 384));
    let norm = header.tensor("output_norm.weight").unwrap();
    assert_eq!((norm.row_len(), norm.rows(), norm.bytes), (64, 1, 256));
    assert!(header.tensor("output.weight").is_none());
    assert_eq!(header.tensors.len(), 3);
}

#[test]
fn version_2_reads_as_version_3() {
    let mut bytes = std::fs::read(common::data("models/q-llama/Q4_0.gguf")).unwrap();
    let three = whole(&bytes).unwrap();
    bytes[4..8].copy_from_slice(&2u32.to_le_bytes());
    let two = whole(&bytes).unwrap();
    assert_eq!((three.version, two.version), (3, 2));
    assert_eq!((three.metadata, three.tensors, three.data_offset), (two.metadata, two.tensors, two.data_offset));
}

#[test]
fn a_larger_alignment_moves_the_data() {
    let mut file = Gguf { alignment: 4096, ..Gguf::default() }.number("general.alignment", 4096);
    file = file.zeros("a", Format::F32, &[3]).zeros("b", Format::F32, &[3]);
    let header = whole(&file.bytes()).unwrap();
    assert_eq!((header.alignment, header.data_offset, header.tensors[1].offset), (4096, 4096, 8192));
}

#[test]
fn every_prefix_asks_for_more_and_the_header_alone_is_enough() {
    let file = small().pair("words", types::ARRAY, array(types::STRING, &[string("one"), string("two"), string("three")]));
    let (bytes, header_len) = (file.bytes(), file.header().len());
    for n in 0..header_len {
        match parse(&bytes[..n], bytes.len() as u64).unwrap() {
            Parsed::NeedMore(more) => assert!(more > n as u64 && more <= bytes.len() as u64, "{n} bytes: wants {more}"),
            Parsed::Header(_) => panic!("{n} bytes of {header_len} were enough"),
        }
        // The same bytes as a whole file are a truncated file.
        refused(&bytes[..n], Code::BadFile, &["expected", "found"]);
    }
    assert!(matches!(parse(&bytes[..header_len], bytes.len() as u64), Ok(Parsed::Header(_))));
}

#[test]
fn a_longer_prefix_is_asked_for_by_doubling() {
    let long = small().text("long", &"x".repeat(5 << 20)).bytes();
    let mut tries = Vec::new();
    let mut n = limits::FIRST_PREFIX;
    while let Parsed::NeedMore(more) = parse(&long[..n as usize], long.len() as u64).unwrap() {
        tries.push(more);
        n = more;
    }
    assert_eq!(tries.len(), 2, "one string is one step, the rest another: {tries:?}");
    assert!(tries[0] > 5 << 20 && tries[1] == long.len() as u64, "{tries:?}");
}

#[test]
fn what_is_no_gguf_is_named() {
    let with = |magic: &[u8; 4]| Gguf { magic: *magic, ..small() }.bytes();
    refused(&with(b"tjgg"), Code::BadFile, &["magic \"GGUF\"", "tjgg", "GGML"]);
    refused(&with(b"PK\x03\x04"), Code::BadFile, &["PK\\x03\\x04", "PyTorch"]);
    refused(&with(b"<!DO"), Code::BadFile, &["web page"]);
    refused(&with(b"vers"), Code::BadFile, &["Git LFS"]);
    refused(&with(b"FUGG"), Code::BadFile, &["byte-swapped"]);
    refused(&with(b"\0\0\0\0"), Code::BadFile, &["\\x00\\x00\\x00\\x00"]);
    refused(b"", Code::BadFile, &["magic", "end of the file after 0"]);
}

#[test]
fn other_versions_are_named() {
    let with = |version: u32| Gguf { version, ..small() }.bytes();
    refused(&with(1), Code::BadFile, &["version 2 or 3", "version 1", "convert"]);
    refused(&with(4), Code::BadFile, &["version 2 or 3", "version 4"]);
    refused(&with(0), Code::BadFile, &["version 0"]);
    refused(&with(3u32.swap_bytes()), Code::BadFile, &["little-endian", "big-endian", "version 3"]);
}

#[test]
fn absurd_counts_are_refused_before_memory_is_taken() {
    for count in [1000, limits::MAX_METADATA + 1, u64::MAX] {
        let file = Gguf { metadata_count: Some(count), ..small() };
        refused(&file.bytes(), Code::BadFile, &["metadata", &count.to_string()]);
        let file = Gguf { tensor_count: Some(count), ..small() };
        refused(&file.bytes(), Code::BadFile, &["tensors", &count.to_string()]);
    }
    for length in [1000u64, limits::MAX_ARRAY_LEN + 1, 1 << 61, u64::MAX] {
        for kind in [types::U8, types::STRING, types::F64, types::BOOL] {
            let mut value = array(kind, &[]);
            value[4..].copy_from_slice(&length.to_le_bytes());
            let file = Gguf::default().pair("an.array", types::ARRAY, value);
            refused(&file.bytes(), Code::BadFile, &["an.array", &length.to_string()]);
        }
        let file = Gguf::default().pair("a.string", types::STRING, length.to_le_bytes());
        refused(&file.bytes(), Code::BadFile, &["a.string", &length.to_string()]);
        let mut file = Gguf::default().number("k", 1).header();
        file[24..32].copy_from_slice(&length.to_le_bytes());
        refused(&file, Code::BadFile, &["key of metadata pair 0", &length.to_string()]);
    }
    // A huge file may hold a long string, but not in its header.
    let start = Gguf::default().pair("a.string", types::STRING, (limits::MAX_STRING_BYTES + 1).to_le_bytes()).bytes();
    let error = parse(&start, 1 << 40).unwrap_err();
    assert!(error.code == Code::BadFile && error.message.contains("a.string"), "{error}");
}

#[test]
fn a_header_beyond_the_limit_is_refused_without_reading_it() {
    let length = limits::MAX_STRING_BYTES;
    let first = Gguf::default().pair("first", types::STRING, length.to_le_bytes()).bytes();
    let wanted = match parse(&first[..57.min(first.len())], 1 << 40).unwrap() {
        Parsed::NeedMore(n) => n,
        Parsed::Header(_) => panic!("no header yet"),
    };
    assert!(wanted > length && wanted <= limits::MAX_HEADER_BYTES, "{wanted}");
    let bytes = Gguf { metadata_count: Some(2), ..Gguf::default() }
        .text("first", &"x".repeat(length as usize))
        .pair("second", types::STRING, length.to_le_bytes())
        .bytes();
    let error = parse(&bytes, 1 << 40).unwrap_err();
    assert!(error.code == Code::BadFile && error.message.contains("second"), "{error}");
}

#[test]
fn bad_metadata_is_named() {
    refused(&small().number("llama.block_count", 2).bytes(), Code::BadFile, &["llama.block_count", "once", "again"]);
    refused(&Gguf::default().number("", 2).bytes(), Code::BadFile, &["empty"]);
    refused(&Gguf::default().pair("odd", 13, [0; 8]).bytes(), Code::BadFile, &["odd", "value type", "13"]);
    refused(&Gguf::default().pair("odd", types::ARRAY, array(77, &[])).bytes(), Code::BadFile, &["odd", "element type", "77"]);
    let nested = array(types::ARRAY, &[array(types::U8, &[vec![1]])]);
    refused(&Gguf::default().pair("nest", types::ARRAY, nested).bytes(), Code::BadFile, &["nest", "array of arrays"]);
    refused(&Gguf::default().pair("flag", types::BOOL, [2]).bytes(), Code::BadFile, &["flag", "boolean", "2"]);
    let flags = array(types::BOOL, &[vec![1], vec![7]]);
    refused(&Gguf::default().pair("flags", types::ARRAY, flags).bytes(), Code::BadFile, &["flags[1]", "7"]);
    let bad = [b'a', 0xff, b'b'];
    refused(&Gguf::default().pair(bad, types::U8, [1]).bytes(), Code::BadFile, &["key of metadata pair 0", "UTF-8", "0xff"]);
    refused(
        &Gguf::default().pair("s", types::STRING, string(bad)).bytes(),
        Code::BadFile,
        &["metadata s", "UTF-8", "position 1"],
    );
    let words = array(types::STRING, &[string("good"), string(bad)]);
    refused(&Gguf::default().pair("words", types::ARRAY, words).bytes(), Code::BadFile, &["words[1]", "UTF-8", "0xff"]);
    // Two halves of one character in two strings: each must be UTF-8 by itself.
    let halves = array(types::STRING, &[string([0xc3]), string([0x9f])]);
    refused(&Gguf::default().pair("halves", types::ARRAY, halves).bytes(), Code::BadFile, &["halves[0]"]);
    for alignment in [0, 3, 48, 1 << 20] {
        let file = small().number("general.alignment", alignment);
        refused(&file.bytes(), Code::BadFile, &["general.alignment", "power of two", &alignment.to_string()]);
    }
    refused(&small().text("general.alignment", "32").bytes(), Code::BadFile, &["general.alignment", "a string"]);
}

#[test]
fn bad_tensors_are_named() {
    let with = |change: fn(&mut common::gguf_writer::Tensor)| {
        let mut file = small();
        change(&mut file.tensors[1]);
        file.bytes()
    };
    let name = "blk.0.attn_q.weight";
    refused(&with(|t| t.name = b"token_embd.weight".to_vec()), Code::BadFile, &["token_embd.weight", "twice"]);
    refused(&with(|t| t.name = vec![]), Code::BadFile, &["tensor 1 of 3", "empty"]);
    refused(&with(|t| t.name = vec![b'x'; 256]), Code::BadFile, &["name of tensor 1 of 3", "256"]);
    refused(&with(|t| t.name = vec![b'x', 0xc3]), Code::BadFile, &["name of tensor 1 of 3", "UTF-8"]);
    refused(&with(|t| t.shape = vec![]), Code::BadFile, &[name, "dimensions", "found 0"]);
    refused(&with(|t| t.shape = vec![256, 1, 1, 1, 1]), Code::BadFile, &[name, "1 to 4", "found 5"]);
    refused(&with(|t| t.shape = vec![256, 0]), Code::BadFile, &[name, "dimension 1"]);
    refused(&with(|t| t.shape = vec![128, 2]), Code::BadFile, &[name, "256", "Q6_K", "found 128"]);
    refused(&with(|t| t.shape = vec![1 << 62, 16]), Code::BadFile, &[name, "64 bits"]);
    refused(&with(|t| t.shape = vec![1 << 63, 1]), Code::BadFile, &[name, "expected"]);
    refused(&with(|t| t.number = 4), Code::UnsupportedQuant, &[name, "number 4", "Q4_K (12)"]);
    refused(&with(|t| t.number = u32::MAX), Code::UnsupportedQuant, &[name, "4294967295"]);
    refused(&with(|t| t.offset += 1), Code::BadFile, &[name, "multiple of 32", "found 385"]);
    refused(&with(|t| t.offset = 0), Code::BadFile, &["token_embd.weight", name, "begin at or after"]);
    refused(&with(|t| t.offset = 1 << 40), Code::BadFile, &[name, "1260 bytes", "truncated"]);
    refused(&with(|t| t.offset = u64::MAX - 31), Code::BadFile, &[name, "inside the file"]);
    let mut cut = small().bytes();
    cut.pop();
    refused(&cut, Code::BadFile, &["output_norm.weight", "256 bytes", "truncated"]);
}

#[test]
fn formats_that_cannot_be_computed_are_read() {
    // inspect must be able to show such a file; the loader refuses it by quant::supported.
    let header = whole(&small().zeros("x", Format::NVFP4, &[256, 2]).bytes()).unwrap();
    assert_eq!(header.tensor("x").unwrap().bytes, 2 * 4 * 36);
    let error = rivulet::quant::supported(Format::NVFP4).unwrap_err();
    assert!(error.code == Code::UnsupportedQuant && error.message.contains("NVFP4") && error.message.contains("Q4_K"), "{error}");
}

/// FNV-1a of 64 bits.
fn fnv(bytes: impl IntoIterator<Item = u8>) -> String {
    let hash = bytes.into_iter().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}

/// Reads a file's header as a loader does: prefix by prefix.
fn by_prefixes(path: &std::path::Path) -> Header {
    use std::io::Read;
    let mut file = std::fs::File::open(path).unwrap();
    let file_len = file.metadata().unwrap().len();
    let mut prefix = Vec::new();
    let mut wanted = limits::FIRST_PREFIX.min(file_len);
    loop {
        (&mut file).take(wanted - prefix.len() as u64).read_to_end(&mut prefix).unwrap();
        match parse(&prefix, file_len).unwrap() {
            Parsed::Header(header) => return header,
            Parsed::NeedMore(more) => wanted = more,
        }
    }
}

/// The headers of the two real models, as gguf-py reads them.
fn real_header(golden: &str) {
    let golden = common::read_json(&common::data(golden));
    let file = golden["file"].as_str().unwrap();
    let Some(path) = common::model(file) else {
        common::skip(&format!("gguf real header of {file}"), "the model is not in RIVULET_MODELS");
        return;
    };
    let header = by_prefixes(&path);
    assert_eq!(u64::from(header.version), golden["version"].as_u64().unwrap());
    assert_eq!(header.data_offset, golden["data_offset"].as_u64().unwrap());
    let pairs = golden["kv"].as_array().unwrap();
    assert_eq!(header.metadata.iter().count(), pairs.len());
    for ((key, value), expected) in header.metadata.iter().zip(pairs) {
        assert_eq!(key, expected["key"].as_str().unwrap());
        let (kind, plain, raw): (&str, serde_json::Value, Vec<u8>) = match value {
            Value::U32(v) => ("UINT32", (*v).into(), vec![]),
            Value::F32(v) => ("FLOAT32", f64::from(*v).into(), vec![]),
            Value::Bool(v) => ("BOOL", (*v).into(), vec![]),
            Value::String(v) => ("STRING", v.as_str().into(), v.as_bytes().to_vec()),
            Value::Array(Array::String(v)) => {
                ("ARRAY/STRING", v.iter().collect::<Vec<_>>().into(), v.iter().flat_map(|s| s.bytes().chain([0])).collect())
            }
            Value::Array(Array::F32(v)) => ("ARRAY/FLOAT32", v.len().into(), v.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Value::Array(Array::I32(v)) => ("ARRAY/INT32", v.len().into(), v.iter().flat_map(|x| x.to_le_bytes()).collect()),
            other => panic!("{key}: {other:?} is in neither model"),
        };
        assert_eq!(kind, expected["type"].as_str().unwrap(), "{key}");
        match expected.get("fnv") {
            Some(hash) => assert_eq!(fnv(raw), hash.as_str().unwrap(), "{key}"),
            None => assert_eq!(plain, expected["value"], "{key}"),
        }
    }
    let tensors = golden["tensors"].as_array().unwrap();
    assert_eq!(header.tensors.len(), tensors.len());
    for (tensor, expected) in header.tensors.iter().zip(tensors) {
        let found = serde_json::json!([tensor.name, tensor.format.name(), tensor.shape, tensor.offset, tensor.bytes]);
        assert_eq!(found, *expected);
        assert_eq!(header.tensor(&tensor.name), Some(tensor));
    }
}

#[test]
fn real_header_of_smollm2() {
    real_header("gguf/smollm2.json");
}

#[test]
fn real_header_of_gemma3() {
    real_header("gguf/gemma3.json");
}
