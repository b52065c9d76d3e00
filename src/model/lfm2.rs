//! LFM2: gated short convolutions in most layers, attention with norms of q and k in the others, SwiGLU. A layer without
//! key/value heads is a convolution.

use super::recurrence::{Recurrence, Recurrent};
use super::{Architecture, Facts};
use crate::err;
use crate::error::Result;
use crate::kernels::attention::Rope;
use crate::kernels::short_conv::ShortConv;

pub(super) fn read(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = facts.common()?;
    let heads = facts
        .kv_heads_of_layers()?
        .ok_or_else(|| err!(BadFile, "metadata lfm2.attention.head_count_kv: expected a number for each layer"))?;
    let conv = ShortConv { channels: a.n_embd, taps: facts.need_u32("shortconv.l_cache")?, gated: true };
    a.recurrence = Some(Recurrence { mixer: Recurrent::ShortConv(conv), layers: heads.into_iter().map(|n| n == 0).collect() });
    a.rope = Rope::Neox;
    a.qk_norm = true;
    a.output_norm = "token_embd_norm.weight";
    Ok(a)
}
