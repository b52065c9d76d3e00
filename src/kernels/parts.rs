//! The parts that kernels share, and the choice among those of one kind.

use super::{Binding, Matrix, Part, Source, Variant};
use crate::err;
use crate::error::Result;
use crate::source;
use crate::tensor::{Format, Tier};

const WEIGHTS: Source = source!("parts/weights");
const WEIGHTS_F32: Source = source!("parts/weights_f32");
const WEIGHTS_I8: Source = source!("parts/weights_i8");
const CODEBOOKS: Source = source!("parts/codebooks");
/// Reductions by a tree in workgroup memory.
pub const REDUCE_WORKGROUP: Source = source!("parts/reduce_workgroup");
/// Reductions by subgroup operations.
pub const REDUCE_SUBGROUP: Source = source!("parts/reduce_subgroup");
/// The matrices of one dispatch of matvec or matmul.
pub const SEGMENTS: Source = source!("parts/segments");
const FORMATS: [Source; 3] = [source!("parts/formats_1"), source!("parts/formats_2"), source!("parts/formats_3")];
/// What becomes of the dot products of matvec and matmul.
pub const EPILOGUE: Source = source!("parts/epilogue");
const ACT_SILU: Source = source!("parts/act_silu");
const ACT_GELU_TANH: Source = source!("parts/act_gelu_tanh");
const ACT_GELU: Source = source!("parts/act_gelu");
const ACT_SWIGLU_OAI: Source = source!("parts/act_swiglu_oai");
const ACT_SIGMOID: Source = source!("parts/act_sigmoid");

/// What a feed-forward block puts its numbers through, or a gate its own. Where there is a gate: `activate(gate) * value`, unless
/// said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x * sigmoid(x)` (Llama, Qwen).
    Silu,
    /// GELU's tanh approximation (Gemma, GPT-2, Phi 2, StarCoder 2).
    GeluTanh,
    /// GELU by the error function (BERT).
    Gelu,
    /// gpt-oss: `min(gate, 7) * sigmoid(1.702 * min(gate, 7)) * (clamp(up, -7, 7) + 1)`.
    SwigluOai,
    /// `sigmoid(x)`.
    Sigmoid,
}

impl Activation {
    /// All of them.
    pub const ALL: [Activation; 5] =
        [Activation::Silu, Activation::GeluTanh, Activation::Gelu, Activation::SwigluOai, Activation::Sigmoid];

    /// The part that declares `fn activate(x: f32) -> f32` and `fn gated(gate: f32, up: f32) -> f32`.
    pub fn part(self) -> Source {
        match self {
            Activation::Silu => ACT_SILU,
            Activation::GeluTanh => ACT_GELU_TANH,
            Activation::Gelu => ACT_GELU,
            Activation::SwigluOai => ACT_SWIGLU_OAI,
            Activation::Sigmoid => ACT_SIGMOID,
        }
    }
}

impl Variant {
    /// Links the reductions of this tier, for workgroups of `workgroup_size` (a power of two).
    pub fn with_reduce(mut self, tier: Tier, workgroup_size: u32) -> Self {
        self.subgroups = tier.subgroups;
        let part = if tier.subgroups { REDUCE_SUBGROUP } else { REDUCE_WORKGROUP };
        self.constant("WG", workgroup_size).with(part)
    }

    /// Links the decoders of one to three weight formats as `qa_`, `qb_` and `qc_`, and `load_w(f, row, g, n)`, which
    /// chooses among them by `f`, the format's place in the list.
    pub fn with_quants(mut self, decoders: &Decoders) -> Self {
        self.parts.push(WEIGHTS.into());
        self.parts.push(if decoders.packed { WEIGHTS_I8.into() } else { WEIGHTS_F32.into() });
        let decoders = &decoders.sources;
        for (&source, prefix) in decoders.iter().zip([None, Some("qb_"), Some("qc_")]) {
            self.parts.push(Part { source, prefix });
        }
        let choice = FORMATS[decoders.len().clamp(1, FORMATS.len()) - 1];
        self.parts.push(choice.into());
        self
    }
}

/// Storage buffers that WebGPU lets one kernel bind.
const MAX_BINDINGS: usize = 8;

/// Binds the codebooks behind all else of a dispatch, where a format of its matrices needs them.
///
/// # Errors
/// `internal` where a matrix of such a format has none, or where there is no room.
pub fn bind_codebooks(variant: &mut Variant, bindings: &mut Vec<Binding>, matrices: &[Matrix]) -> Result<()> {
    let Some(matrix) = matrices.iter().find(|m| crate::quant::supported(m.format).is_ok_and(|q| q.codebooks)) else {
        return Ok(());
    };
    let codebooks = matrix.codebooks.filter(|_| bindings.len() < MAX_BINDINGS);
    bindings.push(codebooks.ok_or_else(|| err!(Internal, "{}: no codebooks, or no room for them", variant.kernel.name))?);
    variant.consts.push(("CODEBOOKS", bindings.len() as u32));
    variant.parts.push(CODEBOOKS.into());
    Ok(())
}

/// What the weights of one kernel are decoded by.
#[derive(Debug, Clone)]
pub struct Decoders {
    sources: Vec<Source>,
    /// Whether the kernel gets packed bytes, with a scale and an offset for sixteen of them, instead of floats.
    pub packed: bool,
}

impl Decoders {
    /// For up to three formats. Packed where that is wanted and the weights of all of them are bytes.
    ///
    /// # Errors
    /// `unsupported-quant`.
    pub fn of(formats: &[Format], packed: bool) -> Result<Self> {
        let quants = formats.iter().map(|f| crate::quant::supported(*f)).collect::<Result<Vec<_>>>()?;
        let sources = quants.iter().map(|q| Source { name: q.part, text: q.shader }).collect();
        Ok(Self { sources, packed: packed && quants.iter().all(|q| q.bytes) })
    }
}
