//! The CPU twins: each kernel again, naive and in f64, over the same bindings. Tests, the companion's `selftest` and
//! model graphs are checked against them; the wasm never holds them.

mod activation;
mod attention;
mod attention_cases;
pub mod attention_decode;
pub mod attention_prefill;
pub mod attention_reduce;
pub mod case;
pub mod delta_net;
pub mod embed;
pub mod expert_sum;
pub mod experts;
pub mod fill;
pub mod gate;
pub mod gathered;
pub mod kv_append;
pub mod matmul;
pub mod matvec;
mod memory;
pub mod norm;
pub mod route;
pub mod sample_candidates;
pub mod sample_draw;
pub mod short_conv;
pub mod stream;
pub mod tiles;
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

/// Every kernel's cases for a tier; of one that rounds activations those that differ from the exact tier's.
pub fn cases(tier: Tier) -> Result<Vec<case::Case>> {
    if tier.packed_dot {
        return Ok([matvec::cases(tier)?, matmul::cases(tier)?, experts::cases(tier)?].into_iter().flatten().collect());
    }
    let lists = [
        matvec::cases(tier)?,
        embed::cases(tier)?,
        norm::cases(tier)?,
        matmul::cases(tier)?,
        attention_decode::cases(tier)?,
        kv_append::cases(tier)?,
        attention_prefill::cases(tier)?,
        sample_draw::cases(tier)?,
        fill::cases()?,
        gate::cases()?,
        route::cases(tier)?,
        experts::cases(tier)?,
        gathered::cases(tier)?,
        stream::cases(tier)?,
        short_conv::cases(tier)?,
        delta_net::cases(tier)?,
    ];
    Ok(lists.into_iter().flatten().collect())
}

fn run(dispatch: &Dispatch, memory: &mut Memory) -> Result<()> {
    match dispatch.variant.kernel.name {
        "matvec" | "matvec_rows" => matvec::matvec(dispatch, memory),
        "attention_decode" | "attention_decode_cpu" => attention_decode::attention_decode(dispatch, memory),
        "attention_reduce" => attention_reduce::attention_reduce(dispatch, memory),
        "kv_append" => kv_append::kv_append(dispatch, memory),
        "attention_prefill" | "attention_prefill_cpu" => attention_prefill::attention_prefill(dispatch, memory),
        "sample_candidates" | "sample_candidates_strip" => sample_candidates::sample_candidates(dispatch, memory),
        "sample_draw" | "sample_draw_single" => sample_draw::sample_draw(dispatch, memory),
        "fill" => fill::fill(dispatch, memory),
        "gate" => gate::gate(dispatch, memory),
        "route" | "route_single" => route::route(dispatch, memory),
        "experts" | "experts_rows" => experts::experts(dispatch, memory),
        "stream" => stream::stream(dispatch, memory),
        "embed" => embed::embed(dispatch, memory),
        "short_conv" => short_conv::short_conv(dispatch, memory),
        "delta_net" | "delta_net_cpu" => delta_net::delta_net(dispatch, memory),
        "norm" | "norm_rows" => norm::norm(dispatch, memory),
        "matmul_rows" | "matmul_small" if gathered::is_gathered(dispatch) => gathered::gathered(dispatch, memory),
        "tiles" => tiles::tiles(dispatch, memory),
        "expert_sum" => expert_sum::expert_sum(dispatch, memory),
        "matmul" | "matmul_rows" | "matmul_small" => matmul::matmul(dispatch, memory),
        name => Err(err!(Internal, "kernel {name} has no CPU twin")),
    }
}
