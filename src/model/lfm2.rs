//! LFM2: gated short convolutions in most layers, attention with norms of q and k in the others, SwiGLU. A layer without
//! key/value heads is a convolution.

use super::architecture::QkNorm;
use super::recurrence::{Recurrence, Recurrent};
use super::{Architecture, Facts};
use crate::error::Result;
use crate::kernels::attention::Rope;
use crate::kernels::short_conv::ShortConv;

pub(super) fn read(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = facts.common()?;
    let conv = ShortConv { channels: a.n_embd, taps: facts.need_u32("shortconv.l_cache")?, gated: true };
    a.recurrence = Some(Recurrence {
        mixer: Recurrent::ShortConv(conv),
        layers: a.layers.iter().map(|layer| layer.n_kv_heads == 0).collect(),
    });
    a.rope = Rope::Neox;
    a.qk_norm = QkNorm::Heads;
    a.output_norm = Some("token_embd_norm");
    Ok(a)
}
