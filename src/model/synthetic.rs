//! Models by name that need no file: headers with the real shapes, whose weights are noise made on the device. What they
//! say is nonsense; what they cost is what the real models cost, but for two things: every matrix is in the format
//! that is asked for, where files mix formats, and there is no vocabulary.

use crate::err;
use crate::error::Result;
use crate::gguf::{Array, Header, Metadata, Strings, Value};
use crate::tensor::Format;

/// The shape of a published model.
struct Shape {
    name: &'static str,
    architecture: &'static str,
    layers: u32,
    width: u32,
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    feed_forward: u32,
    vocabulary: u32,
    context: u32,
    rope_base: f32,
    norm_eps: f32,
    /// The head is the embedding.
    tied: bool,
    /// RMS norms of q and k.
    qk_norm: bool,
}

const LLAMA_1B: Shape = Shape {
    name: "llama-3.2-1b",
    architecture: "llama",
    layers: 16,
    width: 2048,
    heads: 32,
    kv_heads: 8,
    head_dim: 64,
    feed_forward: 8192,
    vocabulary: 128_256,
    context: 131_072,
    rope_base: 500_000.0,
    norm_eps: 1e-5,
    tied: true,
    qk_norm: false,
};

const QWEN_06B: Shape = Shape {
    name: "qwen3-0.6b",
    architecture: "qwen3",
    layers: 28,
    width: 1024,
    heads: 16,
    kv_heads: 8,
    head_dim: 128,
    feed_forward: 3072,
    vocabulary: 151_936,
    context: 40_960,
    rope_base: 1_000_000.0,
    norm_eps: 1e-6,
    tied: true,
    qk_norm: true,
};

/// Every model there is by name.
const SHAPES: [Shape; 4] = [
    LLAMA_1B,
    QWEN_06B,
    Shape { name: "qwen3-4b", layers: 36, width: 2560, heads: 32, feed_forward: 9728, ..QWEN_06B },
    Shape { name: "llama-3.1-8b", layers: 32, width: 4096, head_dim: 128, feed_forward: 14_336, tied: false, ..LLAMA_1B },
];

/// The formats that a name may end with.
const FORMATS: [(&str, Format); 4] =
    [("q4_k", Format::Q4_K), ("q4_0", Format::Q4_0), ("q8_0", Format::Q8_0), ("f16", Format::F16)];

/// All names, `MODEL:FORMAT`.
pub fn names() -> impl Iterator<Item = String> {
    SHAPES.iter().flat_map(|shape| FORMATS.iter().map(move |format| format!("{}:{}", shape.name, format.0)))
}

/// The header of a synthetic model, such as `llama-3.2-1b:q4_k`: real metadata and a real tensor table, and a tokenizer of
/// a single token.
///
/// # Errors
/// `bad-option` for a name that is none of [`names`].
pub fn header(name: &str) -> Result<Header> {
    let found = name
        .split_once(':')
        .and_then(|(model, format)| Some((SHAPES.iter().find(|s| s.name == model)?, FORMATS.iter().find(|f| f.0 == format)?.1)));
    let Some((shape, format)) = found else {
        let known: Vec<String> = names().collect();
        return Err(err!(BadOption, "synthetic: expected one of {}, found {name:?}", known.join(", ")));
    };
    Header::lay_out(metadata(shape, name), tensors(shape, format))
}

fn metadata(shape: &Shape, name: &str) -> Metadata {
    let key = |key: &str| format!("{}.{key}", shape.architecture);
    let mut tokens = Strings::default();
    tokens.push("a");
    Metadata::from_entries(vec![
        ("general.architecture".into(), Value::String(shape.architecture.into())),
        ("general.name".into(), Value::String(format!("{name} (synthetic)"))),
        (key("block_count"), Value::U32(shape.layers)),
        (key("embedding_length"), Value::U32(shape.width)),
        (key("feed_forward_length"), Value::U32(shape.feed_forward)),
        (key("attention.head_count"), Value::U32(shape.heads)),
        (key("attention.head_count_kv"), Value::U32(shape.kv_heads)),
        (key("attention.key_length"), Value::U32(shape.head_dim)),
        (key("attention.value_length"), Value::U32(shape.head_dim)),
        (key("attention.layer_norm_rms_epsilon"), Value::F32(shape.norm_eps)),
        (key("rope.dimension_count"), Value::U32(shape.head_dim)),
        (key("rope.freq_base"), Value::F32(shape.rope_base)),
        (key("context_length"), Value::U32(shape.context)),
        ("tokenizer.ggml.model".into(), Value::String("gpt2".into())),
        ("tokenizer.ggml.pre".into(), Value::String("gpt-2".into())),
        ("tokenizer.ggml.tokens".into(), Value::Array(Array::String(tokens))),
        ("tokenizer.ggml.merges".into(), Value::Array(Array::String(Strings::default()))),
    ])
}

/// Every tensor of the model: name, format and shape, ne0 first.
fn tensors(s: &Shape, format: Format) -> Vec<(String, Format, Vec<u64>)> {
    let mut tensors = Vec::new();
    let mut matrix = |name: String, cols: u32, rows: u32| tensors.push((name, format, vec![cols.into(), rows.into()]));
    let (heads, kv_heads) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
    matrix("token_embd.weight".into(), s.width, s.vocabulary);
    if !s.tied {
        matrix("output.weight".into(), s.width, s.vocabulary);
    }
    for l in 0..s.layers {
        for (part, cols, rows) in [
            ("attn_q", s.width, heads),
            ("attn_k", s.width, kv_heads),
            ("attn_v", s.width, kv_heads),
            ("attn_output", heads, s.width),
            ("ffn_gate", s.width, s.feed_forward),
            ("ffn_up", s.width, s.feed_forward),
            ("ffn_down", s.feed_forward, s.width),
        ] {
            matrix(format!("blk.{l}.{part}.weight"), cols, rows);
        }
    }
    let mut vector = |name: String, len: u32| tensors.push((name, Format::F32, vec![len.into()]));
    vector("output_norm.weight".into(), s.width);
    for l in 0..s.layers {
        vector(format!("blk.{l}.attn_norm.weight"), s.width);
        vector(format!("blk.{l}.ffn_norm.weight"), s.width);
        if s.qk_norm {
            vector(format!("blk.{l}.attn_q_norm.weight"), s.head_dim);
            vector(format!("blk.{l}.attn_k_norm.weight"), s.head_dim);
        }
    }
    tensors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::attention::{KvType, SplitRule};
    use crate::model::{Plan, PlanOptions, read};
    use crate::tensor::Tier;

    /// The published numbers of parameters.
    const PARAMETERS: [(&str, u64); 4] = [
        ("llama-3.2-1b", 1_235_814_400),
        ("qwen3-0.6b", 596_049_920),
        ("qwen3-4b", 4_022_468_096),
        ("llama-3.1-8b", 8_030_261_248),
    ];

    fn plan(name: &str, max_binding_bytes: u64) -> Result<Plan> {
        let header = header(name)?;
        let tier = Tier { max_binding_bytes, ..Tier::BASE };
        let options =
            PlanOptions { tier, context_length: 8448, kv: KvType::F16, max_prefill: 256, split_rule: SplitRule::of(tier) };
        Plan::new(read(&header)?, &header, options)
    }

    #[test]
    fn every_model_has_the_published_size_and_a_plan() {
        for (shape, (name, parameters)) in SHAPES.iter().zip(PARAMETERS) {
            assert_eq!(shape.name, name);
            for (suffix, format) in FORMATS {
                let name = format!("{name}:{suffix}");
                let header = header(&name).unwrap();
                assert_eq!(header.tensors.iter().map(|t| t.shape.iter().product::<u64>()).sum::<u64>(), parameters, "{name}");
                let plan = plan(&name, 1 << 30).unwrap();
                // A token reads every matrix once, of the embedding one row, and no vector (they are left out of the count).
                let matrices = header.tensors.iter().filter(|t| t.shape.len() == 2 && t.name != "token_embd.weight");
                let embedding = header.tensor("token_embd.weight").unwrap();
                let head = if shape.tied { embedding.bytes } else { 0 };
                let bytes = matrices.map(|t| t.bytes).sum::<u64>() + head + embedding.bytes / embedding.rows();
                // The device's rows are padded to 16 bytes at most.
                let read = plan.weight_bytes_per_token();
                assert!(read >= bytes && read <= bytes + bytes / 50, "{name} {format:?}: {read} of {bytes}");
            }
        }
    }

    #[test]
    fn the_largest_fits_the_smallest_binding() {
        for format in ["q4_k", "q4_0", "q8_0"] {
            let plan = plan(&format!("llama-3.1-8b:{format}"), 128 << 20).unwrap();
            assert!(plan.buffers.iter().all(|b| b.bytes <= 128 << 20), "{format}");
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_there_are() {
        for name in ["llama-3.2-1b", "llama-3.2-1b:q3_k", "gpt-5:q4_k", ""] {
            let error = header(name).unwrap_err();
            assert_eq!(error.code.as_str(), "bad-option");
            assert!(error.message.contains("qwen3-4b:q8_0"), "{}", error.message);
        }
    }
}
