//! The CPU twins: each kernel again, naive and in f64, over the same bindings. Tests, the companion's `selftest` and
//! model graphs are checked against them; the wasm never holds them.

mod activation;
pub mod case;
pub mod matvec;
mod memory;
pub mod weights;

pub use activation::activation;
pub use memory::Memory;

use crate::err;
use crate::error::Result;
use crate::kernels::{Dispatch, Recording};
use crate::tensor::Tier;

/// Plays a recording on the CPU.
pub fn play(recording: &Recording, memory: &mut Memory) -> Result<()> {
    recording.dispatches.iter().try_for_each(|dispatch| run(dispatch, memory))
}

/// Every kernel's cases for a tier.
pub fn cases(tier: Tier) -> Result<Vec<case::Case>> {
    let lists = [matvec::cases(tier)?];
    Ok(lists.into_iter().flatten().collect())
}

fn run(dispatch: &Dispatch, memory: &mut Memory) -> Result<()> {
    match dispatch.variant.kernel.name {
        "matvec" | "matvec_rows" => matvec::matvec(dispatch, memory),
        name => Err(err!(Internal, "kernel {name} has no CPU twin")),
    }
}
