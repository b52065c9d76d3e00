//! Models: metadata in, [`Architecture`] out, and from it the buffers and recordings of a forward pass. It never sees a
//! device: what it makes is played by `gpu`, or by the CPU twins.
//!
//! **Architectures are data.** There is one decoder block ([`forward`]); a family is one small file that fills in an
//! [`Architecture`] from GGUF metadata, and a row in [`FAMILIES`].

mod architecture;
mod attention;
mod bert;
mod builder;
mod cohere;
mod delta_net;
mod dense;
mod facts;
mod forward;
mod gemma;
mod gpt2;
mod gpt_oss;
mod granite;
mod layer;
mod lfm2;
mod llama;
mod lora;
mod moe;
mod neox;
mod olmo;
mod phi;
mod plan;
mod qwen;
mod qwen_next;
mod recurrence;
mod rope;
mod short_conv;
pub mod synthetic;

pub use architecture::{Architecture, HalfNorms, LayerFacts, Pooling, QkNorm};
pub use facts::Facts;
pub use lora::AdapterUpload;
pub use moe::{ExpertSlots, Experts};
pub(crate) use plan::SPARE_BLOCKS;
pub use plan::{Group, Ids, Plan, PlanOptions, Slot, Upload, UploadKind};
pub use recurrence::{Recurrence, Recurrent};
pub use rope::{Factors, RopeFrequencies, Yarn};

use crate::err;
use crate::error::Result;
use crate::gguf::Header;

/// A family: the name in `general.architecture`, and what fills in its [`Architecture`].
type Family = (&'static str, fn(&Facts<'_>) -> Result<Architecture>);

/// Every family there is.
const FAMILIES: [Family; 29] = [
    ("llama", llama::llama),
    ("smollm3", llama::smollm3),
    ("qwen2", qwen::qwen2),
    ("qwen3", qwen::qwen3),
    ("qwen2moe", qwen::qwen2moe),
    ("qwen3moe", qwen::qwen3moe),
    ("gemma", gemma::gemma),
    ("gemma2", gemma::gemma2),
    ("gemma3", gemma::gemma3),
    ("phi2", phi::phi2),
    ("phi3", phi::phi3),
    ("gpt2", gpt2::gpt2),
    ("starcoder2", gpt2::starcoder2),
    ("gptneox", neox::gptneox),
    ("falcon", neox::falcon),
    ("stablelm", neox::stablelm),
    ("olmo2", olmo::olmo2),
    ("olmoe", olmo::olmoe),
    ("granite", granite::granite),
    ("granitemoe", granite::granitemoe),
    ("gpt-oss", gpt_oss::gpt_oss),
    ("command-r", cohere::command_r),
    ("cohere2", cohere::cohere2),
    ("lfm2", lfm2::read),
    ("qwen35", qwen_next::qwen35),
    ("qwen35moe", qwen_next::qwen35moe),
    ("qwen3next", qwen_next::qwen3next),
    ("bert", bert::bert),
    ("nomic-bert", bert::nomic_bert),
];

/// The names of all families that are supported.
pub fn families() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|row| row.0)
}

/// Reads a model's architecture. Needs the header only, so it is asked before any weight is fetched.
///
/// # Errors
/// `unsupported-architecture` naming what is missing, `bad-file` for metadata that contradict each other.
pub fn read(header: &Header) -> Result<Architecture> {
    let name = header
        .metadata
        .string("general.architecture")?
        .ok_or_else(|| err!(BadFile, "general.architecture: expected the model's architecture, found no such key"))?;
    if header.metadata.string("general.type")? == Some("adapter") {
        return Err(err!(
            BadFile,
            "general.type: this file is an adapter of a model of architecture {name:?}: load the model, and this with the option adapters"
        ));
    }
    let Some(family) = FAMILIES.iter().find(|row| row.0 == name) else {
        let names: Vec<&str> = families().collect();
        return Err(err!(UnsupportedArchitecture, "architecture {name:?} is not supported; supported are {}", names.join(", ")));
    };
    let facts = Facts::new(header, name);
    let architecture = (family.1)(&facts)?;
    facts.refuse_unasked()?;
    architecture.check()?;
    Ok(architecture)
}
