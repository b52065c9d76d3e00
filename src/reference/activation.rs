//! The activations of `shaders/parts/act_*.wgsl`, in f64.

use crate::err;
use crate::error::Result;
use crate::kernels::Variant;

/// The activation that a variant links. Error: `internal` where it links none.
pub fn activation(variant: &Variant) -> Result<fn(f64) -> f64> {
    let names = variant.parts.iter().map(|part| part.source.name);
    names.into_iter().find_map(by_name).ok_or_else(|| err!(Internal, "{} links no activation", variant.label()))
}

fn by_name(part: &str) -> Option<fn(f64) -> f64> {
    match part {
        "parts/act_silu" => Some(|x| x / (1.0 + (-x).exp())),
        "parts/act_gelu_tanh" => Some(|x| {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            0.5 * x * (1.0 + u.tanh())
        }),
        _ => None,
    }
}
