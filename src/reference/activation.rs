//! The activations of `shaders/parts/act_*.wgsl`, in f64.

use crate::err;
use crate::error::Result;
use crate::kernels::Variant;
use crate::kernels::parts::Activation;

/// An activation's two functions.
pub struct Functions {
    /// Of a number alone.
    pub activate: fn(f64) -> f64,
    /// Of a gate and what it lets through.
    pub gated: fn(f64, f64) -> f64,
}

/// The activation that a variant links. Error: `internal` where it links none.
pub fn activation(variant: &Variant) -> Result<Functions> {
    let links = |a: &Activation| variant.parts.iter().any(|part| part.source == a.part());
    let found = Activation::ALL.into_iter().find(links);
    found.map(functions).ok_or_else(|| err!(Internal, "{} links no activation", variant.label()))
}

fn functions(activation: Activation) -> Functions {
    match activation {
        Activation::Silu => Functions { activate: silu, gated: |g, u| silu(g) * u },
        Activation::GeluTanh => Functions { activate: gelu_tanh, gated: |g, u| gelu_tanh(g) * u },
        Activation::Gelu => Functions { activate: gelu, gated: |g, u| gelu(g) * u },
        Activation::SwigluOai => Functions { activate: swiglu_oai, gated: |g, u| swiglu_oai(g) * (u.clamp(-7.0, 7.0) + 1.0) },
        Activation::Sigmoid => Functions { activate: sigmoid, gated: |g, u| sigmoid(g) * u },
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn silu(x: f64) -> f64 {
    x * sigmoid(x)
}

fn gelu_tanh(x: f64) -> f64 {
    let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
    0.5 * x * (1.0 + u.tanh())
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2))
}

fn swiglu_oai(gate: f64) -> f64 {
    let gate = gate.min(7.0);
    gate * sigmoid(1.702 * gate)
}

/// 2 / sqrt(pi) · exp(-x²) · Σ 2ⁿ x²ⁿ⁺¹ / (1 · 3 · … · (2n + 1)): all terms have one sign, so that none cancels another.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_is_the_error_function() {
        for (x, known) in
            [(0.0, 0.0), (0.5, 0.520_499_877_813_046_5), (-1.0, -0.842_700_792_949_714_9), (3.0, 0.999_977_909_503_001_4)]
        {
            assert!((erf(x) - known).abs() < 1e-15, "{x}: {}", erf(x));
        }
        assert!((erf(5.99) - erf(6.01)).abs() < 1e-15);
    }
}
