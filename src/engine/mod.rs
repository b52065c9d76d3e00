//! The engine: loading, the KV cache, generation. One loader and one token loop serve the browser and the command line;
//! bytes and time come in through [`ByteSource`] and [`Host`], which floor 5 implements.

mod adapters;
mod bandwidth;
mod bench;
mod cancel;
mod directory;
mod embed;
mod files;
mod generate;
mod kv;
mod load;
mod options;
mod pace;
mod passes;
mod prefill;
#[cfg(not(target_arch = "wasm32"))]
mod profile;
mod score;
#[cfg(feature = "reference")]
pub mod selftest;
mod source;
mod tune;
mod words;

pub use bandwidth::bandwidth;
pub use bench::{AtContext, BenchOptions, BenchReport, Device, Measured};
pub use cancel::{AbortFlag, Cancel};
pub use directory::Converted;
pub use embed::EmbedOptions;
pub use files::{Files, Joined, ModelSource, open_model};
pub use generate::{Finish, Generated, Timings, TokenEvent, Usage};
pub use load::{Engine, LoadOptions, LoadPhases, ModelInfo, Precision, Progress, describe};
pub use options::{AdapterUse, GenerateOptions, Prompt};
#[cfg(not(target_arch = "wasm32"))]
pub use profile::{KernelTime, PassProfile, Profile};
pub use score::Scored;
pub use source::{ByteSource, Host, MemorySource, NoiseSource, read_header};
pub use tune::{StoredTuning, StoredTunings, TuningReport, TuningSource};
pub use words::Words;
