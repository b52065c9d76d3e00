//! The weight formats: decoding against ggml's bits, the GPU layout against the file's, and every shader part in naga.
//! (What `qa_load` computes is checked on a GPU by the kernels' tests.)
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::Rng;
use rivulet::error::Code;
use rivulet::gguf::{Header, Parsed, parse};
use rivulet::quant::{GROUP, MAX_COLS, QuantFormat, TABLE, supported};
use rivulet::tensor::Format;
use std::collections::BTreeSet;

fn header(bytes: &[u8]) -> Header {
    match parse(bytes, bytes.len() as u64).unwrap() {
        Parsed::Header(header) => header,
        Parsed::NeedMore(n) => panic!("wants {n} bytes"),
    }
}

/// Bit for bit; `-0.0` and `0.0` differ.
fn same_bits(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let differs = found.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits());
    if let Some(i) = differs {
        panic!("{what}: weight {i}: expected {:e}, found {:e}", expected[i], found[i]);
    }
}

/// Equal numbers, or neither a number; `-0.0` equals `0.0`, which is all that `d * q + m` can differ in.
fn same_numbers(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    if let Some(i) = found.iter().zip(expected).position(|(a, b)| a != b && !(a.is_nan() && b.is_nan())) {
        panic!("{what}: weight {i}: expected {:e}, found {:e}", expected[i], found[i]);
    }
}

/// Repacks whole rows and decodes them from the GPU's layout.
fn by_way_of_the_gpu(quant: &QuantFormat, cols: usize, src: &[u8]) -> Vec<f32> {
    let rows = src.len() / quant.source_row_bytes(cols);
    let row_bytes = quant.gpu_row_bytes(cols);
    // What was in the buffer must not matter: padding is written too.
    let (mut gpu, mut other) = (vec![0x55; rows * row_bytes], vec![0xaa; rows * row_bytes]);
    quant.repack_rows(cols, src, &mut gpu).unwrap();
    quant.repack_rows(cols, src, &mut other).unwrap();
    assert!(gpu == other, "{}: repacking left bytes as they were", quant.format.name());
    let mut out = vec![0.0; rows * cols];
    for (row, out) in gpu.chunks_exact(row_bytes).zip(out.chunks_exact_mut(cols)) {
        quant.dequantize_gpu_row(cols, row, out).unwrap();
    }
    out
}

/// Every golden row of a folder with quantised files: the formats that were seen.
fn check_golden(folder: &std::path::Path) -> BTreeSet<&'static str> {
    let golden = common::read_json(&folder.join("golden.json"));
    let floats = common::read_f32(&folder.join("golden.f32"));
    let mut seen = BTreeSet::new();
    for file in golden["formats"].as_array().unwrap().iter().filter(|f| f["file"].is_string()) {
        let bytes = std::fs::read(folder.join(file["file"].as_str().unwrap())).unwrap();
        let header = header(&bytes);
        for rows in file["dequant"].as_array().unwrap() {
            let int = |key: &str| rows[key].as_u64().unwrap() as usize;
            let tensor = header.tensor(rows["tensor"].as_str().unwrap()).unwrap();
            assert_eq!(tensor.format.name(), rows["type"].as_str().unwrap());
            assert_eq!(tensor.offset as usize, int("file_offset"));
            let quant = supported(tensor.format).unwrap();
            let cols = quant.check_cols(&tensor.name, tensor.row_len()).unwrap();
            assert_eq!((cols, quant.source_row_bytes(cols)), (int("row_len"), int("row_bytes")));
            let src = &bytes[int("file_offset")..][..int("rows") * int("row_bytes")];
            let expected = &floats[int("dequant_offset")..][..int("rows") * cols];
            let mut found = vec![0.0; expected.len()];
            quant.dequantize(src, &mut found).unwrap();
            let what = format!("{} of {}", tensor.name, file["file"]);
            same_bits(&what, &found, expected);
            same_numbers(&format!("{what}, GPU layout"), &by_way_of_the_gpu(quant, cols, src), expected);
            seen.insert(tensor.format.name());
        }
    }
    seen
}

/// Every block format; floats have tests of their own.
fn block_formats() -> BTreeSet<&'static str> {
    TABLE.iter().filter(|q| q.format.block_len() > 1).map(|q| q.format.name()).collect()
}

#[test]
fn decoding_gives_ggmls_bits() {
    assert_eq!(check_golden(&common::data("models/q-llama")), block_formats());
}

#[test]
fn decoding_gives_ggmls_bits_in_every_fixture() {
    let test = "decoding_gives_ggmls_bits_in_every_fixture";
    let Some(shared) = common::shared() else {
        return common::skip(test, "needs the developers' fixtures");
    };
    for model in ["q-llama", "q-qwen3"] {
        let seen = check_golden(&shared.join("fixtures/quants").join(model));
        assert!(seen.is_superset(&block_formats()), "{model}: {seen:?}");
    }
}

/// Random blocks, the scales as random as all else (one of IQ4_NL is no number), and what ggml's C code makes of them.
#[test]
fn random_blocks_give_ggmls_bits() {
    let mut played = 0;
    for quant in &TABLE {
        let file = common::data(&format!("quant/{}.rows", quant.format.name().to_lowercase()));
        let Ok(src) = std::fs::read(&file) else { continue };
        let expected = common::read_f32(&file.with_extension("f32"));
        let mut found = vec![0.0; expected.len()];
        quant.dequantize(&src, &mut found).unwrap();
        same_bits(quant.format.name(), &found, &expected);
        let cols = expected.len() / 2;
        same_numbers(&format!("{}, GPU layout", quant.format.name()), &by_way_of_the_gpu(quant, cols, &src), &expected);
        played += 1;
    }
    assert!(played >= 8, "only {played} formats were played");
}

#[test]
fn every_f16_decodes_to_its_value() {
    let src: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let mut found = vec![0.0; 1 << 16];
    supported(Format::F16).unwrap().dequantize(&src, &mut found).unwrap();
    for (bits, found) in (0..=u16::MAX).zip(found) {
        // IEEE 754 binary16, from its definition.
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
        let magnitude = match exponent {
            0 => fraction * 2f64.powi(-24),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
        };
        let expected = if bits >> 15 == 1 { -magnitude } else { magnitude };
        assert!(f64::from(found) == expected || (found.is_nan() && expected.is_nan()), "{bits:#06x}: {expected} {found}");
    }
}

/// Random rows whose scales are finite f16, a third of them subnormal: every bit of every field occurs.
fn random_rows(quant: &QuantFormat, cols: usize, rows: usize, rng: &mut Rng) -> Vec<u8> {
    let scales: &[usize] = match quant.format {
        Format::Q8_0 | Format::Q4_0 | Format::Q5_0 | Format::F16 => &[0],
        Format::Q4_1 | Format::Q5_1 | Format::Q4_K | Format::Q5_K => &[0, 2],
        Format::Q1_0 | Format::Q2_0 | Format::IQ4_NL | Format::IQ4_XS => &[0],
        Format::Q2_K => &[80, 82],
        Format::Q3_K => &[108],
        Format::Q6_K => &[208],
        Format::TQ1_0 => &[52],
        Format::TQ2_0 => &[64],
        Format::IQ1_S | Format::IQ2_XXS | Format::IQ2_XS | Format::IQ2_S | Format::IQ3_XXS | Format::IQ3_S => &[0],
        Format::IQ1_M => &[54], // the top nibble of the last u16 is the top of d
        Format::F32 | Format::BF16 => &[],
        Format::MXFP4 => &[],
        other => panic!("{other:?} has no row in this test"),
    };
    let mut bytes = rng.bytes(quant.source_row_bytes(cols) * rows);
    for block in bytes.chunks_exact_mut(quant.format.block_bytes() as usize) {
        let subnormal = rng.below(3) == 0;
        for at in scales {
            block[at + 1] &= if subnormal { 0x83 } else { 0xbf };
        }
        if quant.format == Format::MXFP4 {
            block[0] = block[0].min(250); // 24 * 2^(e - 128), of which the GPU's form makes its weights, is finite
        } else if scales.is_empty() {
            let top = block.len() - 1;
            block[top] = (block[top] & 0x80) | 0x3f; // finite and normal
        }
    }
    bytes
}

#[test]
fn the_gpu_layout_loses_nothing() {
    let mut rng = Rng(11);
    for quant in &TABLE {
        let block = (quant.format.block_len() as usize).max(GROUP);
        for blocks in [1, 2, 3, 4, 5, 7, 8, 9, 17, 31] {
            let cols = block * blocks;
            let src = random_rows(quant, cols, 3, &mut rng);
            let mut expected = vec![0.0; 3 * cols];
            quant.dequantize(&src, &mut expected).unwrap();
            assert!(expected.iter().all(|w| w.is_finite()));
            let what = format!("{} rows of {cols}", quant.format.name());
            same_numbers(&what, &by_way_of_the_gpu(quant, cols, &src), &expected);
            let (source, gpu) = (quant.source_row_bytes(cols), quant.gpu_row_bytes(cols));
            assert!(gpu.is_multiple_of(16) && gpu >= source && gpu < source + 3 * 16, "{what}: {source} bytes became {gpu}");
        }
    }
}

#[test]
fn sizes_are_ggmls() {
    // Bytes of a row of 1,536 weights in the file and on the GPU, by hand.
    let sizes = [
        (Format::F32, 6144, 6144),
        (Format::F16, 3072, 3072),
        (Format::BF16, 3072, 3072),
        (Format::Q8_0, 48 * 34, 48 * 32 + 96),
        (Format::Q4_0, 48 * 18, 48 * 16 + 96),
        (Format::Q4_1, 48 * 20, 48 * 16 + 192),
        (Format::Q5_0, 48 * 22, 48 * 16 + 192 + 96),
        (Format::Q5_1, 48 * 24, 48 * 16 + 192 + 192),
        (Format::Q4_K, 6 * 144, 6 * 144),
        (Format::Q5_K, 6 * 176, 6 * 176),
        (Format::Q6_K, 6 * 210, 6 * 208 + 16),
        (Format::IQ4_NL, 48 * 18, 48 * 16 + 96),
        (Format::IQ4_XS, 6 * 136, 6 * 128 + 48),
        (Format::MXFP4, 48 * 17, 48 * 16 + 48),
        (Format::Q1_0, 12 * 18, 12 * 16 + 32),
        (Format::Q2_0, 24 * 18, 24 * 16 + 48),
        (Format::Q2_K, 6 * 84, 6 * 80 + 32),
        (Format::Q3_K, 6 * 110, 6 * 96 + 80 + 16),
        (Format::TQ1_0, 6 * 54, 6 * 48 + 32 + 16),
        (Format::TQ2_0, 6 * 66, 6 * 64 + 16),
        (Format::IQ1_S, 6 * 50, 6 * 48 + 16),
        (Format::IQ1_M, 6 * 56, 6 * 56),
        (Format::IQ2_XXS, 6 * 66, 6 * 64 + 16),
        (Format::IQ2_XS, 6 * 74, 6 * 72 + 16),
        (Format::IQ2_S, 6 * 82, 6 * 80 + 16),
        (Format::IQ3_XXS, 6 * 98, 6 * 96 + 16),
        (Format::IQ3_S, 6 * 110, 6 * 104 + 32 + 16),
    ];
    assert_eq!(sizes.len(), TABLE.len());
    for (format, source, gpu) in sizes {
        let quant = supported(format).unwrap();
        assert_eq!((quant.source_row_bytes(1536), quant.gpu_row_bytes(1536)), (source, gpu), "{}", format.name());
    }
}

#[test]
fn rows_that_cannot_be_computed_are_named() {
    for (format, cols, multiple) in
        [(Format::F16, 100, 32), (Format::F32, 0, 32), (Format::Q4_K, 640, 256), (Format::Q4_0, MAX_COLS + 32, 32)]
    {
        let error = supported(format).unwrap().check_cols("blk.7.x", cols).unwrap_err();
        assert_eq!(error.code, Code::UnsupportedQuant);
        for word in ["blk.7.x", format.name(), &format!("multiple of {multiple}"), &format!("found {cols}")] {
            assert!(error.message.contains(word), "{error} does not say {word}");
        }
    }
    assert_eq!(supported(Format::Q6_K).unwrap().check_cols("x", 2048).unwrap(), 2048);
}

#[test]
fn lengths_are_checked() {
    let q4 = supported(Format::Q4_0).unwrap();
    let mut out = [0.0; 64];
    assert_eq!(q4.dequantize(&[0; 35], &mut out).unwrap_err().code, Code::Internal);
    assert_eq!(q4.dequantize(&[0; 36], &mut out[..63]).unwrap_err().code, Code::Internal);
    assert!(q4.dequantize(&[0; 36], &mut out).is_ok());
    assert_eq!(q4.repack_rows(64, &[0; 72], &mut [0; 48]).unwrap_err().code, Code::Internal, "two rows into one");
    assert_eq!(q4.repack_rows(64, &[0; 35], &mut [0; 48]).unwrap_err().code, Code::Internal);
    assert!(q4.repack_rows(64, &[0; 36], &mut [0; 48]).is_ok());
    assert_eq!(q4.dequantize_gpu_row(64, &[0; 32], &mut out).unwrap_err().code, Code::Internal);
}

#[test]
fn formats_without_a_row_are_refused_by_name() {
    for (format, name, ..) in Format::TABLE {
        match supported(*format) {
            Ok(quant) => assert!(quant.format == *format && TABLE.iter().any(|row| std::ptr::eq(row, quant))),
            Err(error) => {
                assert_eq!(error.code, Code::UnsupportedQuant);
                assert!(error.message.contains(name) && error.message.contains("Q6_K"), "{error}");
            }
        }
    }
}

/// A kernel that does nothing but load: what every part must link with.
const LOADER: &str = "
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<W32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    out[id.x] = qa_load(id.y * 90u, id.x, 40u);
}
";

#[test]
fn every_part_links_and_is_valid() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let read = |part: &str| std::fs::read_to_string(root.join(part).with_extension("wgsl")).unwrap();
    let shared = format!("const CODEBOOKS: u32 = 3u;\n{}{}", read("parts/codebooks"), read("parts/weights"));
    let mut names = BTreeSet::new();
    let floats = TABLE.iter().map(|q| ("parts/weights_f32", q));
    let bytes = TABLE.iter().filter(|q| q.bytes).map(|q| ("parts/weights_i8", q));
    for (form, QuantFormat { format, part, shader, .. }) in floats.chain(bytes) {
        let name = format.name().to_lowercase();
        assert_eq!((*part, *shader), (format!("parts/quant/{name}").as_str(), read(part).as_str()));
        names.insert(format!("{name}.wgsl"));
        let other = shader.replace("qa_", "qb_");
        let source = format!("{shared}{}{shader}{other}{LOADER}", read(form));
        let module =
            wgpu::naga::front::wgsl::parse_str(&source).unwrap_or_else(|e| panic!("{part}: {}", e.emit_to_string(&source)));
        let flags = wgpu::naga::valid::ValidationFlags::all();
        // What WebGPU has without any feature: no f16, but f16 pairs in a u32.
        let base = wgpu::naga::valid::Capabilities::SHADER_FLOAT16_IN_FLOAT32;
        wgpu::naga::valid::Validator::new(flags, base)
            .validate(&module)
            .unwrap_or_else(|e| panic!("{part}: {}", e.emit_to_string(&source)));
        // The linker renames qa_ for a second format in one kernel: everything in a part must carry it.
        for line in shader.lines() {
            for keyword in ["fn ", "const ", "struct ", "alias ", "override "] {
                if let Some(name) = line.strip_prefix(keyword) {
                    assert!(name.starts_with("qa_"), "{part}: {line}");
                }
            }
        }
    }
    let files = std::fs::read_dir(root.join("parts/quant")).unwrap();
    let files: BTreeSet<String> = files.map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, names, "a part without a row, or a row without a part");
}
