//! Models: metadata in, [`Architecture`] out, and from it the buffers and recordings of a forward pass. It never sees a
//! device: what it makes is played by `gpu`, or by the CPU twins.
//!
//! **Architectures are data.** There is one decoder block ([`forward`]); a family is one small file that fills in an
//! [`Architecture`] from GGUF metadata, and a row in [`FAMILIES`].

mod architecture;
mod attention;
mod builder;
mod delta_net;
mod dense;
mod forward;
mod gemma3;
mod layer;
mod lfm2;
mod llama;
mod plan;
mod qwen3;
mod qwen_next;
mod recurrence;
mod rope;
mod short_conv;
pub mod synthetic;

pub use architecture::{Architecture, Facts};
pub(crate) use plan::SPARE_BLOCKS;
pub use plan::{Group, Ids, Plan, PlanOptions, Slot, Upload, UploadKind};
pub use recurrence::{Recurrence, Recurrent};

use crate::err;
use crate::error::Result;
use crate::gguf::Header;

/// A family: the name in `general.architecture`, and what fills in its [`Architecture`].
type Family = (&'static str, fn(&Facts<'_>) -> Result<Architecture>);

/// Every family there is.
const FAMILIES: [Family; 5] = [
    ("llama", llama::read),
    ("gemma3", gemma3::read),
    ("qwen3", qwen3::read),
    ("lfm2", lfm2::read),
    ("qwen35", qwen_next::qwen35),
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
    let Some(family) = FAMILIES.iter().find(|row| row.0 == name) else {
        let names: Vec<&str> = families().collect();
        return Err(err!(UnsupportedArchitecture, "architecture {name:?} is not supported; supported are {}", names.join(", ")));
    };
    let architecture = (family.1)(&Facts::new(header, name))?;
    architecture.check()?;
    Ok(architecture)
}
