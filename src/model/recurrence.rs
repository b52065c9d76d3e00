//! What takes attention's place in some layers of a hybrid: mixers with a memory of fixed size. A memory stands for all tokens
//! that it has seen and cannot be rewound.

use super::{Architecture, Facts};
use crate::err;
use crate::error::Result;
use crate::kernels::delta_net;
use crate::kernels::short_conv::ShortConv;

/// A mixer with a memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Recurrent {
    /// A gated short convolution over all channels of the stream (LFM2).
    ShortConv(ShortConv),
    /// A gated delta net behind a convolution of `taps` tokens (Qwen 3.5, Qwen3-Next).
    DeltaNet {
        /// Its heads.
        net: delta_net::DeltaNet,
        /// Tokens that the convolution sees.
        taps: u32,
    },
}

impl Recurrent {
    /// The convolution that it has.
    pub fn conv(&self) -> ShortConv {
        match *self {
            Self::ShortConv(conv) => conv,
            Self::DeltaNet { net, taps } => ShortConv { channels: net.channels(), taps, gated: false },
        }
    }

    /// Floats of a token's projections.
    pub fn projected(&self) -> u32 {
        match self {
            Self::ShortConv(conv) => 3 * conv.channels,
            Self::DeltaNet { net, .. } => net.projected(),
        }
    }

    /// Floats that the output matrix takes of a token.
    pub fn out_len(&self) -> u32 {
        match self {
            Self::ShortConv(conv) => conv.channels,
            Self::DeltaNet { net, .. } => net.values(),
        }
    }

    /// Bytes that a layer remembers.
    pub fn state_bytes(&self) -> u64 {
        let memory = match self {
            Self::ShortConv(_) => 0,
            Self::DeltaNet { net, .. } => net.memory_len(),
        };
        4 * (self.conv().past_len() + memory)
    }
}

/// Which layers have such a mixer in place of attention, and which.
#[derive(Debug, Clone, PartialEq)]
pub struct Recurrence {
    /// The mixer.
    pub mixer: Recurrent,
    /// Of each layer, whether it has it.
    pub layers: Vec<bool>,
}

impl Recurrence {
    /// Checks what the kernels and the matrices around them rely on.
    pub(super) fn check(&self, a: &Architecture) -> Result<()> {
        if self.layers.len() != a.n_layers as usize {
            let (n_layers, found) = (a.n_layers, self.layers.len());
            return Err(err!(BadFile, "{}: expected the kinds of {n_layers} layers, found those of {found}", a.name));
        }
        if let Recurrent::DeltaNet { net, .. } = self.mixer {
            net.check()?;
        }
        self.mixer.conv().check()?;
        let width = self.mixer.out_len();
        if !width.is_multiple_of(32) {
            return Err(err!(
                UnsupportedArchitecture,
                "{}: expected ssm.inner_size to be a multiple of 32, found {width}",
                a.name
            ));
        }
        Ok(())
    }
}

impl Architecture {
    /// Whether some layer has a memory that cannot be rewound.
    pub fn is_recurrent(&self) -> bool {
        self.recurrence.as_ref().is_some_and(|r| r.layers.contains(&true))
    }

    /// What a layer has in place of attention; `None` for attention.
    pub fn recurrent(&self, layer: u32) -> Option<Recurrent> {
        let recurrence = self.recurrence.as_ref()?;
        recurrence.layers.get(layer as usize).is_some_and(|r| *r).then_some(recurrence.mixer)
    }
}

impl Facts<'_> {
    /// Which layers have no attention: as `attention.recurrent_layers` says, else all but every n-th, n being
    /// `full_attention_interval`.
    pub(super) fn recurrent_layers(&self, n_layers: u32) -> Result<Vec<bool>> {
        match self.per_layer("attention.recurrent_layers", n_layers)? {
            Some(layers) => Ok(layers.into_iter().map(|flag| flag != 0).collect()),
            None => {
                let interval = self.u32("full_attention_interval")?.unwrap_or(4).max(1);
                Ok((1..=n_layers).map(|l| !l.is_multiple_of(interval)).collect())
            }
        }
    }

    /// A gated delta net, as `ssm.*` describes it.
    pub(super) fn delta_net(&self, grouped: bool, eps: f32) -> Result<Recurrent> {
        let value_heads = self.need_u32("ssm.time_step_rank")?;
        let inner = self.need_u32("ssm.inner_size")?;
        if value_heads == 0 || inner == 0 || !inner.is_multiple_of(value_heads) {
            let name = self.name;
            return Err(err!(
                BadFile,
                "{name}: expected ssm.inner_size to be shared by {value_heads} value heads, found {inner}"
            ));
        }
        let net = delta_net::DeltaNet {
            key_heads: self.need_u32("ssm.group_count")?,
            value_heads,
            key_width: self.need_u32("ssm.state_size")?,
            value_width: inner / value_heads,
            grouped,
            eps,
        };
        // What it has is multiplied below.
        net.check()?;
        Ok(Recurrent::DeltaNet { net, taps: self.need_u32("ssm.conv_kernel")? })
    }
}
