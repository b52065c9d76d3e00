//! The CPU twins: each kernel again, naive and in f64, over the same bindings. Tests, the companion's `selftest` and
//! model graphs are checked against them; the wasm never holds them.

mod activation;
pub mod case;
mod memory;

pub use activation::activation;
pub use memory::Memory;

use crate::err;
use crate::error::Result;
use crate::kernels::{Dispatch, Recording};

/// Plays a recording on the CPU.
pub fn play(recording: &Recording, memory: &mut Memory) -> Result<()> {
    recording.dispatches.iter().try_for_each(|dispatch| run(dispatch, memory))
}

fn run(dispatch: &Dispatch, memory: &mut Memory) -> Result<()> {
    let _ = memory;
    match dispatch.variant.kernel.name {
        name => Err(err!(Internal, "kernel {name} has no CPU twin")),
    }
}
