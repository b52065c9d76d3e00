//! A mixture's matrices times the tokens of a prefill, each weight decoded once for a tile of tokens that picked its expert:
//! `parts/matmul_gathered` with the matmul kernels for few tokens, `matmul_small` (tiles of 8) and, on CPU adapters, `matmul_rows`
//! (tiles of 32). What [`super::experts`] adds up here lies side by side, for [`super::expert_sum`].

use super::experts::{Place, Run};
use super::matmul::{self, CPU_ROWS, CPU_TOKENS, CPU_WG, SMALL_LANES_K, SMALL_TOKENS, SMALL_WG};
use super::matvec::Epilogue;
use super::parts::{self, Activation, Decoders};
use super::tiles::Tiling;
use super::{Binding, Cost, Dispatch, MAX_WORKGROUPS, Source, Variant, sliced, state};
use crate::err;
use crate::error::Result;
use crate::source;
use crate::tensor::{Format, Tier};

/// The part that makes a matmul one of gathered tokens.
pub(crate) const CORE: Source = source!("parts/matmul_gathered");
/// Where the params hold the first workgroup of a slice.
const FIRST: usize = 2;
/// Where the params' segments begin.
pub const SEGMENTS_AT: usize = 16;

/// Picks of a tile in this tier.
pub fn tile(tier: Tier) -> u32 {
    if tier.cpu { CPU_TOKENS } else { SMALL_TOKENS }
}

/// What a gathered matmul is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// The state buffer.
    pub state: Binding,
    /// A token's input. In multiples of 4 floats.
    pub x: Place,
    /// Floats from the input of one of a token's picks to the next; 0 where they share it.
    pub x_slot: u32,
    /// The sorted picks: see [`super::tiles`].
    pub list: Binding,
    /// How they are cut, by [`tile`].
    pub tiling: Tiling,
    /// Picks of a token.
    pub slots: u32,
    /// f32\[experts of the layer, rows\], of gate and then of up, added to the dot products; and how many experts.
    pub bias: Option<(Binding, u32)>,
    /// A token's output, of each of its picks, one after another.
    pub y: Place,
}

/// `y[t, s] = gated(G[e] · x, U[e] · x)` with an activation, `y[t, s] = D[e] · x` without, for each pick s of token t, e being its
/// expert. A run of experts leaves the picks of others alone. In slices of rows.
///
/// # Errors
/// `internal` where matrices and bindings do not fit together, `unsupported-quant` for a format without a decoder.
pub fn gathered(tier: Tier, run: &Run, io: Io, gated: Option<Activation>) -> Result<Vec<Dispatch>> {
    let (first, last) = match (run.matrices.as_slice(), gated) {
        ([only], None) => (only, only),
        ([gate, up], Some(_)) => (gate, up),
        _ => return Err(err!(Internal, "gathered: {} matrices", run.matrices.len())),
    };
    let kinds = run.matrices.len() as u32;
    let (rows, tokens) = (u64::from(first.rows), u64::from(io.tiling.picks / io.slots.max(1)));
    let fits = (first.cols, first.rows, first.buffer) == (last.cols, last.rows, last.buffer)
        && first.cols.is_multiple_of(32)
        && rows > 0
        && io.slots > 0
        && io.tiling.tile == tile(tier)
        && [io.x.stride, io.x.at, io.x_slot].iter().all(|n| n.is_multiple_of(4))
        && u64::from(io.x.at) + u64::from(io.x_slot) * u64::from(io.slots - 1) + u64::from(first.cols) <= io.x.stride.into()
        && u64::from(io.y.at) + rows * u64::from(io.slots) <= io.y.stride.into()
        && [io.x, io.y].iter().all(|p| {
            let floats = tokens * u64::from(p.stride);
            p.binding.bytes >= floats * 4 && floats <= u64::from(u32::MAX)
        })
        && io.list.bytes >= io.tiling.bytes()
        && io.bias.is_none_or(|(bias, experts)| {
            run.first + run.experts <= experts && bias.bytes >= u64::from(experts) * rows * u64::from(kinds) * 4
        });
    if !fits {
        return Err(err!(Internal, "gathered: {run:?} do not fit {io:?}"));
    }
    let mut formats: Vec<Format> = vec![first.format];
    if last.format != first.format {
        formats.push(last.format);
    }
    let (mode, softcap, scale, activation) = gated.map_or(Epilogue::STORE, Epilogue::Gated).words();
    let base = Variant::new(if tier.cpu { matmul::ROWS } else { matmul::SMALL }, &[state::STATE])
        .constant("EPILOGUE", mode)
        .constant("BIAS", u32::from(io.bias.is_some()))
        .with_quants(&Decoders::of(&formats, false)?)
        .with(activation.part())
        .with(parts::EPILOGUE)
        .with(parts::SEGMENTS)
        .with(CORE);
    let (mut variant, wg_rows) = if tier.cpu {
        let loads = if tier.subgroups { matmul::X32_QUAD } else { matmul::X32_EACH };
        (base.constant("WG", CPU_WG).with(loads), CPU_WG * CPU_ROWS / kinds)
    } else {
        (base.constant("WG", SMALL_WG).constant("LANES_K", SMALL_LANES_K), 2 * SMALL_WG / SMALL_LANES_K / kinds)
    };
    variant.subgroups = tier.cpu && tier.subgroups;
    let workgroups = [io.tiling.tiles(), first.rows.div_ceil(wg_rows), 1];
    if workgroups.iter().any(|n| *n > MAX_WORKGROUPS) {
        return Err(err!(Internal, "gathered: {workgroups:?} workgroups"));
    }
    let mut params = vec![first.cols / 32, kinds, 0, wg_rows, softcap, scale, io.slots];
    params.extend([io.x.stride / 4, io.x.at / 4, io.x_slot / 4, io.y.stride, io.y.at]);
    params.extend([run.first, run.experts, io.tiling.sorted_at(), 0]);
    for (i, m) in run.matrices.iter().enumerate() {
        let format = formats.iter().position(|f| *f == m.format).unwrap_or_default() as u32;
        let bias_at = if i == 1 { io.bias.map_or(0, |(_, experts)| experts * m.rows) } else { 0 };
        params.extend([m.base, m.row_vec4, m.rows, format, bias_at, 0, 0, 0]);
    }
    params.resize(SEGMENTS_AT + 3 * 8, 0);
    let bias = io.bias.map_or(io.x.binding, |bias| bias.0);
    let weights = Binding::read(first.buffer, 0, run.end()? * 16);
    let mut bindings = vec![io.state, io.x.binding, weights, bias, io.y.binding, io.list];
    parts::bind_codebooks(&mut variant, &mut bindings, &run.matrices)?;
    let cost = Cost { fixed: u64::from(io.tiling.picks) * rows * u64::from(first.cols) * u64::from(kinds), per_key: 0 };
    Ok(sliced(tier, Dispatch { variant, params, bindings, workgroups, cost, continues: false }, FIRST, 0))
}
