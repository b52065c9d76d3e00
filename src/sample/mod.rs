//! Sampling: the options, the chain of logit processors, the seeded draw; and, for floor 2, the [`Plan`] of what the
//! GPU's two sampling kernels do of a chain. Everything here is the exact CPU path: f32 options, f64 arithmetic.
//!
//! Architecture invariant: this module knows logits and token ids, never a model, a tokenizer, a clock or a device.
//! Entropy for unseeded draws therefore comes from the caller.

mod chain;
mod options;
mod plan;
mod rng;
mod sampler;

pub use chain::{log_softmax_at, probabilities, process, softmax, top_logprobs};
pub use options::{Processor, SamplingOptions};
pub use plan::{GPU_CANDIDATES, Mode, Plan, RING_LEN};
pub use rng::{gumbel, gumbel_bits, pcg4d, uniform};
pub use sampler::{CpuSampler, Drawn};
