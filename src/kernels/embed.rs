//! Token embeddings: `shaders/embed.wgsl`.

use super::{Binding, Cost, Dispatch, MAX_WORKGROUPS, Matrix, Source, Variant, parts, state};
use crate::err;
use crate::error::Result;
use crate::source;
use crate::tensor::Tier;

const EMBED: Source = source!("embed");
/// Invocations of a workgroup, a group of 32 columns each.
const WG: u32 = 32;

/// What an embedding lookup is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// The state buffer: done, and how many of the tokens are there.
    pub state: Binding,
    /// u32\[tokens\]
    pub ids: Binding,
    /// f32\[tokens, cols\]
    pub x: Binding,
    /// The most tokens of a pass.
    pub tokens: u32,
}

/// `x[t, :] = scale · W[ids[t], :]`, where `chunk` holds the rows of W (`[n_vocab, n_embd]`) from `row0` on. Ids outside
/// the chunk leave x alone, so a table in several chunks takes a dispatch each.
///
/// # Errors
/// `internal` where bindings are too small, `unsupported-quant` for a format without a decoder.
pub fn embed(_tier: Tier, chunk: Matrix, row0: u32, scale: f32, io: Io) -> Result<Dispatch> {
    let floats = u64::from(io.tokens) * u64::from(chunk.cols);
    let fits = io.x.bytes >= floats * 4 && floats <= u64::from(u32::MAX) && io.ids.bytes >= u64::from(io.tokens) * 4;
    if !fits || !chunk.cols.is_multiple_of(32) || chunk.cols == 0 || io.tokens > MAX_WORKGROUPS {
        return Err(err!(Internal, "embed: {} tokens of {} do not fit {io:?}", io.tokens, chunk.cols));
    }
    let mut variant =
        Variant::new(EMBED, &[state::STATE]).constant("WG", WG).with_quants(&parts::Decoders::of(&[chunk.format], false)?);
    let groups = chunk.cols / 32;
    let bytes = (u64::from(chunk.base) + u64::from(chunk.rows) * u64::from(chunk.row_vec4)) * 16;
    let mut bindings = vec![io.state, io.ids, Binding::read(chunk.buffer, 0, bytes), io.x];
    parts::bind_codebooks(&mut variant, &mut bindings, &[chunk])?;
    Ok(Dispatch {
        variant,
        params: vec![groups, io.tokens, chunk.base, chunk.row_vec4, row0, chunk.rows, scale.to_bits()],
        bindings,
        workgroups: [groups.div_ceil(WG), io.tokens, 1],
        cost: Cost { fixed: floats, per_key: 0 },
        continues: false,
    })
}
