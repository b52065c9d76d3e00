//! A thousand damaged copies of a small GGUF file: each gives an error or a header, never a panic, a hang or a huge
//! allocation. The damage is the same in every run (seeded). This is the native half; the browser tests send such files
//! through the wasm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(unsafe_code)] // a global allocator that counts is an unsafe trait; nothing else here is

mod common;

use common::Rng;
use common::gguf_writer::{Gguf, array, string, types};
use rivulet::error::Code;
use rivulet::gguf::{Header, Parsed, parse};
use rivulet::quant::supported;
use rivulet::tensor::Format;
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator with a count of the bytes in use and of the most there ever were.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test at a time, since they share the count.
static ALONE: Mutex<()> = Mutex::new(());

/// The most bytes that were in use during `work`, beyond those in use before it.
fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = IN_USE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    (result, PEAK.load(Relaxed) - before)
}

/// What parsing may take, for each byte of the file. A tensor's entry of 33 bytes or more becomes a `TensorInfo` of 80
/// bytes with its name and shape; everything else grows by less. Messages are a few hundred bytes.
const BYTES_PER_BYTE: usize = 4;
const BYTES_BESIDE: usize = 8 << 10;

/// A file with every value type, a vocabulary and tensors of several formats, about 14 KB.
fn good() -> Vec<u8> {
    let mut file = Gguf::default()
        .text("general.architecture", "llama")
        .number("general.alignment", 32)
        .number("llama.block_count", 1)
        .number("llama.embedding_length", 64)
        .pair("u8", types::U8, [7])
        .pair("i8", types::I8, [7])
        .pair("u16", types::U16, [7, 0])
        .pair("i16", types::I16, [7, 0])
        .pair("i32", types::I32, [7, 0, 0, 0])
        .pair("eps", types::F32, 1e-5f32.to_le_bytes())
        .pair("bool", types::BOOL, [1])
        .pair("u64", types::U64, [7, 0, 0, 0, 0, 0, 0, 0])
        .pair("i64", types::I64, [7, 0, 0, 0, 0, 0, 0, 0])
        .pair("f64", types::F64, 1e-5f64.to_le_bytes());
    let tokens: Vec<Vec<u8>> = (0..96).map(|i| string(format!("▁token{i}"))).collect();
    let scores: Vec<Vec<u8>> = (0..96).map(|i| (-(i as f32)).to_le_bytes().to_vec()).collect();
    file = file
        .pair("tokenizer.ggml.tokens", types::ARRAY, array(types::STRING, &tokens))
        .pair("tokenizer.ggml.scores", types::ARRAY, array(types::F32, &scores))
        .pair("flags", types::ARRAY, array(types::BOOL, &[vec![1], vec![0], vec![1]]));
    for (name, format, shape) in [
        ("token_embd.weight", Format::Q8_0, &[64, 96][..]),
        ("blk.0.attn_norm.weight", Format::F32, &[64]),
        ("blk.0.attn_q.weight", Format::Q4_0, &[64, 16]),
        ("blk.0.attn_k.weight", Format::Q5_1, &[64, 16]),
        ("blk.0.attn_v.weight", Format::F16, &[64, 4, 2]),
        ("blk.0.ffn_up.weight", Format::Q4_K, &[256, 4]),
        ("blk.0.ffn_down.weight", Format::Q6_K, &[256, 2, 1, 1]),
    ] {
        file = file.zeros(name, format, shape);
    }
    file.bytes()
}

/// Damages a copy of `good`: flipped bits, overwritten bytes, a cut, a piece copied, removed or inserted elsewhere. Half of
/// the damage falls on the header, where it hurts.
fn damaged(good: &[u8], header_len: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=rng.below(3) {
        let within = if rng.below(2) == 0 { header_len.min(bytes.len()) } else { bytes.len() };
        if within == 0 {
            break;
        }
        let at = rng.below(within);
        let len = 1 + rng.below(64.min(bytes.len() - at));
        match rng.below(8) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.next() as u8,
            // Numbers that overflow when they are added, multiplied or taken for a length.
            2 => {
                let odd = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, u64::MAX, u64::MAX / 2, 1 << 61, 1 << 32];
                let number = odd[rng.below(odd.len())].to_le_bytes();
                let len = (bytes.len() - at).min(if rng.below(2) == 0 { 4 } else { 8 });
                bytes[at..at + len].copy_from_slice(&number[..len]);
            }
            3 => bytes.truncate(at),
            4 => {
                bytes.drain(at..at + len);
            }
            5 => {
                let piece = rng.bytes(len);
                bytes.splice(at..at, piece);
            }
            6 => {
                let from = rng.below(bytes.len());
                let len = len.min(bytes.len() - from);
                let to = at.min(bytes.len() - len);
                bytes.copy_within(from..from + len, to);
            }
            _ => {
                let from = rng.below(bytes.len());
                let piece = bytes[from..(from + len).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

/// Parses a file through growing prefixes, the first of `first` bytes, as a loader does.
fn by_prefixes(bytes: &[u8], first: usize) -> Result<Header, rivulet::error::Error> {
    let mut len = first.min(bytes.len());
    loop {
        match parse(&bytes[..len], bytes.len() as u64)? {
            Parsed::Header(header) => return Ok(header),
            Parsed::NeedMore(more) => {
                assert!(more > len as u64 && more <= bytes.len() as u64, "{len} of {} bytes: wants {more}", bytes.len());
                len = more as usize;
            }
        }
    }
}

/// What a header promises, so that a loader need not check it again.
fn check_promises(header: &Header, bytes: &[u8]) {
    for tensor in &header.tensors {
        let (start, end) = (tensor.offset as usize, (tensor.offset + tensor.bytes) as usize);
        assert!(tensor.offset >= header.data_offset && start < end && end <= bytes.len());
        assert_eq!(header.tensor(&tensor.name), Some(tensor));
        let Ok(quant) = supported(tensor.format) else { continue };
        let Ok(cols) = quant.check_cols(&tensor.name, tensor.row_len()) else { continue };
        assert_eq!(quant.source_row_bytes(cols) as u64 * tensor.rows(), tensor.bytes);
        let src = &bytes[start..end];
        let mut gpu = vec![0; quant.gpu_row_bytes(cols) * tensor.rows() as usize];
        quant.repack_rows(cols, src, &mut gpu).unwrap();
        let mut weights = vec![0.0; cols * tensor.rows() as usize];
        quant.dequantize(src, &mut weights).unwrap();
    }
}

#[test]
fn a_thousand_damaged_files_never_panic() {
    let _alone = ALONE.lock().unwrap();
    let good = good();
    let header_len = by_prefixes(&good, good.len()).unwrap().data_offset as usize;
    let mut rng = Rng(2026);
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    let mut worst = 0;
    for i in 0..1000 {
        let bytes = damaged(&good, header_len, &mut rng);
        let (result, peak) = peak_of(|| by_prefixes(&bytes, 64 + i));
        assert!(peak <= BYTES_PER_BYTE * bytes.len() + BYTES_BESIDE, "copy {i}: {} bytes took {peak}", bytes.len());
        worst = worst.max(peak);
        let outcome = match result {
            Ok(header) => {
                check_promises(&header, &bytes);
                "a header"
            }
            Err(error) => {
                assert!(matches!(error.code, Code::BadFile | Code::UnsupportedQuant), "copy {i}: {error}");
                assert!(error.message.len() < 2000, "copy {i}: {error}");
                error.code.as_str()
            }
        };
        *outcomes.entry(outcome).or_default() += 1;
    }
    eprintln!("{} bytes a file; {outcomes:?}; at most {worst} bytes in use", good.len());
    assert!(outcomes["a header"] > 100 && outcomes["bad-file"] > 300, "the damage is too light or too heavy: {outcomes:?}");
}

#[test]
fn claims_take_no_memory() {
    let _alone = ALONE.lock().unwrap();
    // Each claims far more than it has, in a file that is said to be 4 GB long.
    let claims = [
        Gguf { metadata_count: Some(1 << 14), ..Gguf::default() }.header(),
        Gguf { tensor_count: Some(1 << 16), ..Gguf::default() }.header(),
        Gguf::default().pair("k", types::STRING, (1u64 << 26).to_le_bytes()).bytes(),
        Gguf::default().pair("k", types::ARRAY, [&types::STRING.to_le_bytes()[..], &(1u64 << 22).to_le_bytes()].concat()).bytes(),
        Gguf::default().pair("k", types::ARRAY, [&types::F64.to_le_bytes()[..], &(1u64 << 22).to_le_bytes()].concat()).bytes(),
    ];
    for (i, bytes) in claims.iter().enumerate() {
        let (result, peak) = peak_of(|| parse(bytes, 4 << 30));
        assert!(matches!(result, Ok(Parsed::NeedMore(n)) if n <= 128 << 20), "claim {i}: {result:?}");
        assert!(peak < BYTES_BESIDE, "claim {i} took {peak} bytes");
    }
}

#[test]
fn a_long_vocabulary_takes_its_own_size() {
    let _alone = ALONE.lock().unwrap();
    let tokens: Vec<Vec<u8>> = (0..200_000).map(|i| string(format!("token{i}"))).collect();
    let bytes = Gguf::default().pair("tokens", types::ARRAY, array(types::STRING, &tokens)).bytes();
    let (header, peak) = peak_of(|| by_prefixes(&bytes, 1 << 20).unwrap());
    assert_eq!(
        header.metadata.array("tokens").unwrap().map(|a| matches!(a, rivulet::gguf::Array::String(s) if s.len() == 200_000)),
        Some(true)
    );
    assert!(peak <= bytes.len(), "{} bytes took {peak}", bytes.len());
}
