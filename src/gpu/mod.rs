//! The device: adapter, tier, buffers, pipelines, the player of recordings, readback. The only floor that names wgpu.
//! It does not know what a model is.

mod adapter;
mod compile;
mod player;
#[cfg(not(target_arch = "wasm32"))]
mod profile;
mod readback;

pub use adapter::{AdapterReport, Gpu, GpuOptions};
pub use compile::{Compilation, Compiler};
pub use player::{Buffers, Counters, Part, Prepared};
pub use readback::{RING_BYTES, RING_SLOTS, Readback};
