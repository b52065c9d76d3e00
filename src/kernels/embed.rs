//! Embeddings of tokens, of positions and of token types: `shaders/embed.wgsl`.

use super::{Binding, Cost, Dispatch, MAX_WORKGROUPS, Matrix, Source, Variant, parts, state};
use crate::err;
use crate::error::Result;
use crate::source;
use crate::tensor::Tier;

const EMBED: Source = source!("embed");
/// Invocations of a workgroup, a group of 32 columns each.
const WG: u32 = 32;

/// Which row of the table a token of the pass takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// That of its id.
    Tokens,
    /// That of its position: learned positions (GPT-2, BERT). A position beyond the table leaves x alone, so that a context must not
    /// be longer.
    Positions,
    /// The first: the token type of a single sentence (BERT).
    First,
}

/// What an embedding lookup is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// The state buffer: done, and how many of the tokens are there.
    pub state: Binding,
    /// u32\[tokens\]; read for [`Rows::Tokens`] alone.
    pub ids: Binding,
    /// Which rows.
    pub rows: Rows,
    /// `x += …` instead of `x = …`.
    pub add: bool,
    /// f32\[tokens, cols\]
    pub x: Binding,
    /// The most tokens of a pass.
    pub tokens: u32,
}

/// `x[t, :] = scale · W[row, :]`, or `+=`, where `chunk` holds the rows of W (`[n_vocab, n_embd]`) from `row0` on. Rows outside
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
    let rows = match io.rows {
        Rows::Tokens => 0,
        Rows::Positions => 1,
        Rows::First => 2,
    };
    let mut variant = Variant::new(EMBED, &[state::STATE])
        .constant("WG", WG)
        .constant("ROWS", rows)
        .constant("ADD", io.add.into())
        .with_quants(&parts::Decoders::of(&[chunk.format], false)?);
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
