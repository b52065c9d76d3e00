//! One block: what mixes tokens (attention) and what works on each alone (the feed-forward), each a half that reads the
//! residual stream, normed, and adds to it.
//!
//! A half has two steps. `inner` reads the stream and leaves its result in a buffer of its own, `outer` multiplies that
//! with the last matrix and adds it to the stream. So one that has a parallel residual (Phi 2, GPT-NeoX, Falcon) is only
//! another order: both inner steps, then both outer ones.

use super::Architecture;
use super::attention::Attention;
use super::builder::{Builder, Rows};
use super::delta_net::DeltaNet;
use super::dense::Dense;
use super::forward::Pass;
use super::moe::Moe;
use super::plan::Group;
use super::recurrence::Recurrent;
use super::short_conv::ShortConv;
use crate::error::Result;
use crate::kernels::tuning::Role;
use crate::kernels::{Binding, BufferId, Matrix};

/// Matrices that are multiplied with the same input.
#[derive(Debug, Clone)]
pub(super) struct Linear {
    /// One after another in one buffer; so are their results.
    pub matrices: Vec<Matrix>,
    /// What is added to the products of all of them, in order.
    pub bias: Option<Binding>,
    /// Whether products are made in f32 on every device, since what comes of them is remembered and errors with it.
    pub exact: bool,
    /// The rows of tensors that they were put together from, in order.
    pub runs: Vec<Rows>,
}

/// Where the numbers of a norm lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NormWeights {
    pub weights: Binding,
    pub bias: Option<Binding>,
}

/// The norms around half a block; see [`HalfNorms`](super::architecture::HalfNorms).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Norms {
    pub before: Option<NormWeights>,
    pub added: Option<NormWeights>,
    pub after: Option<NormWeights>,
}

/// What mixes the tokens.
#[derive(Debug, Clone)]
pub(super) enum Mixer {
    Attention(Attention),
    ShortConv(ShortConv),
    DeltaNet(DeltaNet),
}

/// What works on each token alone.
#[derive(Debug, Clone)]
pub(super) enum Ffn {
    Dense(Dense),
    Moe(Moe),
}

/// One block's weights and cache.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub mixer: Mixer,
    pub ffn: Ffn,
}

impl Layer {
    /// Finds the block's tensors and makes room for them and for its cache.
    pub fn read(b: &mut Builder<'_>, a: &Architecture, index: u32, groups: &[Group]) -> Result<Self> {
        let ffn = match a.experts.filter(|_| b.has(&Moe::tensor(index))) {
            Some(experts) => Ffn::Moe(Moe::read(b, a, &experts, index)?),
            None => Ffn::Dense(Dense::read(b, a, index)?),
        };
        Ok(Self { mixer: Mixer::read(b, a, index, groups)?, ffn })
    }

    /// The whole block.
    pub fn play(&self, p: &mut Pass<'_>) -> Result<()> {
        self.mixer.inner(p)?;
        if p.plan.architecture.parallel {
            self.ffn.inner(p)?;
            self.mixer.outer(p)?;
            return self.ffn.outer(p);
        }
        self.mixer.outer(p)?;
        self.ffn.inner(p)?;
        self.ffn.outer(p)
    }

    /// One role's matrices and nothing else, where the block has them, with what it would find pending before it.
    pub fn play_role(&self, p: &mut Pass<'_>, role: Role) -> Result<()> {
        match (role, &self.mixer, &self.ffn) {
            (Role::Qkv, mixer, _) => {
                p.pending(mixer.norms());
                mixer.project(p)
            }
            (Role::Out, mixer, _) => mixer.outer(p),
            (Role::GateUp, mixer, Ffn::Dense(dense)) => {
                p.pending(mixer.norms());
                dense.inner(p)
            }
            (Role::Down, _, Ffn::Dense(dense)) => dense.outer(p),
            (Role::GateUp | Role::Down, _, Ffn::Moe(_)) | (Role::Head, ..) => Ok(()),
        }
    }

    /// The matrices of a role, where the block has them.
    pub fn linear(&self, role: Role) -> Option<&Linear> {
        match (role, &self.mixer, &self.ffn) {
            (Role::Qkv, Mixer::Attention(attention), _) => Some(&attention.qkv),
            (Role::Qkv, Mixer::ShortConv(conv), _) => Some(&conv.in_proj),
            (Role::Qkv, Mixer::DeltaNet(net), _) => Some(&net.in_proj),
            (Role::Out, Mixer::Attention(attention), _) => Some(&attention.out),
            (Role::Out, Mixer::ShortConv(conv), _) => Some(&conv.out),
            (Role::Out, Mixer::DeltaNet(net), _) => Some(&net.out),
            (Role::GateUp, _, Ffn::Dense(dense)) => Some(&dense.gate_up),
            (Role::Down, _, Ffn::Dense(dense)) => Some(&dense.down),
            (Role::GateUp | Role::Down, _, Ffn::Moe(_)) | (Role::Head, ..) => None,
        }
    }

    /// Where keys and values are kept.
    pub fn cache(&self) -> Option<BufferId> {
        if let Mixer::Attention(attention) = &self.mixer { Some(attention.kv.id) } else { None }
    }

    /// Every matrix that is not an expert's.
    pub fn linears(&self) -> impl Iterator<Item = &Linear> {
        let gate = if let Mixer::Attention(attention) = &self.mixer { attention.gate.as_ref() } else { None };
        [Role::Qkv, Role::Out, Role::GateUp, Role::Down].into_iter().filter_map(|role| self.linear(role)).chain(gate)
    }

    /// Bytes of weights that are read for one token.
    pub fn bytes_per_token(&self) -> u64 {
        let experts = if let Ffn::Moe(moe) = &self.ffn { moe.bytes_per_token() } else { 0 };
        self.linears().flat_map(|linear| &linear.matrices).map(|m| m.bytes()).sum::<u64>() + experts
    }
}

impl Mixer {
    fn read(b: &mut Builder<'_>, a: &Architecture, index: u32, groups: &[Group]) -> Result<Self> {
        Ok(match a.recurrent(index) {
            None => Self::Attention(Attention::read(b, a, index, groups)?),
            Some(Recurrent::ShortConv(conv)) => Self::ShortConv(ShortConv::read(b, a, index, conv)?),
            Some(mixer @ Recurrent::DeltaNet { net, .. }) => Self::DeltaNet(DeltaNet::read(b, a, index, net, mixer.conv())?),
        })
    }

    fn project(&self, p: &mut Pass<'_>) -> Result<()> {
        match self {
            Self::Attention(attention) => attention.project(p),
            Self::ShortConv(conv) => conv.project(p),
            Self::DeltaNet(net) => net.project(p),
        }
    }

    fn inner(&self, p: &mut Pass<'_>) -> Result<()> {
        match self {
            Self::Attention(attention) => attention.inner(p),
            Self::ShortConv(conv) => conv.inner(p),
            Self::DeltaNet(net) => net.inner(p),
        }
    }

    fn outer(&self, p: &mut Pass<'_>) -> Result<()> {
        match self {
            Self::Attention(attention) => attention.outer(p),
            Self::ShortConv(conv) => conv.outer(p),
            Self::DeltaNet(net) => net.outer(p),
        }
    }

    fn norms(&self) -> &Norms {
        match self {
            Self::Attention(attention) => &attention.norms,
            Self::ShortConv(conv) => &conv.norms,
            Self::DeltaNet(net) => &net.norms,
        }
    }
}

impl Ffn {
    fn inner(&self, p: &mut Pass<'_>) -> Result<()> {
        match self {
            Self::Dense(dense) => dense.inner(p),
            Self::Moe(moe) => moe.inner(p),
        }
    }

    fn outer(&self, p: &mut Pass<'_>) -> Result<()> {
        match self {
            Self::Dense(dense) => dense.outer(p),
            Self::Moe(moe) => moe.outer(p),
        }
    }
}
