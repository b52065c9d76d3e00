//! Matrix times the tokens of a prefill.
//!
//! | tier | tokens of the pass | kernel | rows x tokens of a workgroup | workgroup memory |
//! |---|---|---|---|---|
//! | GPU | up to 32 | `matmul_small`, 16 invocations share the columns | 16 x 8 | 8.5 KiB |
//! | GPU | more | `matmul` with `parts/matmul_tile_f32` | 64 x 64 | 16 KiB |
//! | GPU with packed_dot, unless weights are floats | more | `matmul` with `parts/matmul_tile_i8` | 64 x 64 | 12 KiB |
//! | GPU with f16 | more | `matmul` with `parts/matmul_tile_f16` | 128 x 64 | 12.25 KiB |
//! | CPU | any | `matmul_rows` with `parts/x32_each` | 64 x 32 | none |
//! | CPU with subgroups | any | `matmul_rows` with `parts/x32_quad` | 64 x 32 | none |
//!
//! Only the large tiles round activations where the tier has packed_dot: few tokens wait for the weights' bytes and not for arithmetic,
//! and CPU adapters multiply bytes more slowly than floats.
//! In a gated feed-forward half of a workgroup's rows are gate, half up. [`buckets`] are the passes that a model is loaded with.

use super::matvec::Epilogue;
use super::parts::{self, Decoders};
use super::{Binding, Cost, Dispatch, MAX_WORKGROUPS, Matrix, Source, Variant, sliced, state};
use crate::err;
use crate::error::Result;
use crate::source;
use crate::tensor::{Format, Tier};

const CORE: Source = source!("parts/matmul_core");
pub(super) const X32_EACH: Source = source!("parts/x32_each");
pub(super) const X32_QUAD: Source = source!("parts/x32_quad");
const TILES: Source = source!("matmul");
const TILE_F32: Source = source!("parts/matmul_tile_f32");
const TILE_F16: Source = source!("parts/matmul_tile_f16");
const TILE_I8: Source = source!("parts/matmul_tile_i8");
pub(super) const ROWS: Source = source!("matmul_rows");
pub(super) const SMALL: Source = source!("matmul_small");

/// Where the params hold the first workgroup of a slice, and the rows of a workgroup (of each matrix, where gated).
pub const FIRST: usize = 5;
/// See [`FIRST`].
pub const TILE_ROWS: usize = 6;

/// What a matmul is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// The state buffer: done, and how many of the tokens are there.
    pub state: Binding,
    /// f32\[tokens, cols\]
    pub x: Binding,
    /// f32\[rows of all matrices\], added to the products. `None` for no bias.
    pub bias: Option<Binding>,
    /// f32\[tokens, rows of all matrices\], or \[tokens, rows of one\] with [`Epilogue::Gated`]
    pub y: Binding,
    /// Rows of x and y: the most tokens of a pass.
    pub tokens: u32,
}

/// `matmul_rows`: tokens of a workgroup, invocations of a workgroup (as many as a SIMD group of lavapipe has, and few, so
/// that there is work for every core), rows of an invocation.
pub(super) const CPU_TOKENS: u32 = 32;
/// The most tokens of the shortest pass on a CPU adapter.
const CPU_SMALL: u32 = 16;
pub(super) const CPU_WG: u32 = 8;
pub(super) const CPU_ROWS: u32 = 8;
/// `matmul`: tokens of a workgroup.
const GPU_TOKENS: u32 = 64;
/// `matmul_small`: the most tokens of a pass that it takes, tokens of a workgroup, its invocations, and how many of these share
/// the columns.
const SMALL_MOST: u32 = 32;
pub(super) const SMALL_TOKENS: u32 = 8;
pub(super) const SMALL_WG: u32 = 128;
pub(super) const SMALL_LANES_K: u32 = 16;

/// The passes that are worth kernels of their own, by the most tokens they take, for prefills of up to `max`: ascending, the
/// last is `max`. A CPU adapter's kernels loop over the tokens that are there.
pub fn buckets(tier: Tier, max: u32) -> Vec<u32> {
    let small = if tier.cpu { vec![] } else { vec![SMALL_TOKENS, SMALL_MOST] };
    let first = if tier.cpu { (max / 4).min(CPU_SMALL) } else { GPU_TOKENS };
    let more = std::iter::successors(Some(first.max(1)), |tokens| tokens.checked_mul(4)).take_while(|tokens| *tokens < max);
    small.into_iter().chain(more).filter(|tokens| (2..max).contains(tokens)).chain([max]).filter(|tokens| *tokens > 1).collect()
}

/// `y[t, r] = epilogue(Σ_k x[t, k] · W[r, k] + bias[r])` for one to three matrices of one buffer, of up to three formats;
/// their rows follow one another in y. Tokens beyond those that the state names are left alone. In slices of rows.
///
/// # Errors
/// `internal` where the matrices or the bindings do not fit together, `unsupported-quant` for a format without a decoder.
pub fn matmul(tier: Tier, matrices: &[Matrix], io: Io, epilogue: Epilogue) -> Result<Vec<Dispatch>> {
    let first = matrices.first().ok_or_else(|| err!(Internal, "matmul: no matrix"))?;
    let gated = matches!(epilogue, Epilogue::Gated(_));
    let fits =
        |m: &Matrix| m.cols == first.cols && m.buffer == first.buffer && m.cols.is_multiple_of(32) && m.cols > 0 && m.rows > 0;
    if matrices.len() > 3 || !matrices.iter().all(fits) || (gated && (matrices.len() != 2 || matrices[1].rows != first.rows)) {
        return Err(err!(Internal, "matmul: matrices that do not fit together: {matrices:?}"));
    }
    let all_rows: u64 = matrices.iter().map(|m| u64::from(m.rows)).sum();
    if all_rows > u64::from(u32::MAX) {
        return Err(err!(Internal, "matmul: {all_rows} rows"));
    }
    let y_stride = if gated { u64::from(first.rows) } else { all_rows };
    check_size("x", io.x, u64::from(io.tokens) * u64::from(first.cols))?;
    check_size("y", io.y, u64::from(io.tokens) * y_stride)?;
    if let Some(bias) = io.bias {
        check_size("bias", bias, all_rows)?;
    }
    let mut formats: Vec<Format> = Vec::new();
    for m in matrices {
        if !formats.contains(&m.format) {
            formats.push(m.format);
        }
    }
    let (mode, softcap, scale, activation) = epilogue.words();
    let small = !tier.cpu && io.tokens <= SMALL_MOST;
    let decoders = Decoders::of(&formats, tier.packed_dot && !tier.cpu && !small)?;
    let kernel = match (tier.cpu, small) {
        (true, _) => ROWS,
        (false, true) => SMALL,
        (false, false) => TILES,
    };
    let base = Variant::new(kernel, &[state::STATE])
        .constant("EPILOGUE", mode)
        .constant("BIAS", u32::from(io.bias.is_some()))
        .with_quants(&decoders)
        .with(activation.part())
        .with(parts::EPILOGUE)
        .with(parts::SEGMENTS)
        .with(CORE);
    let (mut variant, tile_rows, tile_tokens) = if tier.cpu {
        let loads = if tier.subgroups { X32_QUAD } else { X32_EACH };
        (base.constant("WG", CPU_WG).with(loads), CPU_WG * CPU_ROWS, CPU_TOKENS)
    } else if small {
        let variant = base.constant("WG", SMALL_WG).constant("LANES_K", SMALL_LANES_K);
        (variant, 2 * SMALL_WG / SMALL_LANES_K, SMALL_TOKENS)
    } else if decoders.packed {
        (base.with(TILE_I8), 64, GPU_TOKENS)
    } else if tier.f16 {
        (base.with(TILE_F16), 128, GPU_TOKENS)
    } else {
        (base.with(TILE_F32), 64, GPU_TOKENS)
    };
    variant.subgroups = tier.cpu && tier.subgroups;
    variant.f16 = !tier.cpu && tier.f16 && !small && !decoders.packed;
    let tile_rows = if gated { tile_rows / 2 } else { tile_rows };

    let (mut segments, mut workgroups, mut out_row) = (Vec::new(), 0, 0);
    for m in matrices {
        let format = formats.iter().position(|f| *f == m.format).unwrap_or_default() as u32;
        segments.extend([m.base, m.row_vec4, m.rows, format, out_row, workgroups, 0, 0]);
        out_row += m.rows;
        if !gated || workgroups == 0 {
            workgroups += m.rows.div_ceil(tile_rows);
        }
    }
    segments.resize(3 * 8, 0);
    let token_tiles = io.tokens.div_ceil(tile_tokens);
    let grid = [token_tiles, workgroups, 1];
    if grid.iter().any(|n| *n > MAX_WORKGROUPS) {
        return Err(err!(Internal, "matmul: {all_rows} rows and {} tokens make {grid:?} workgroups", io.tokens));
    }
    let mut params = vec![first.cols / 32, matrices.len() as u32, io.tokens, y_stride as u32, softcap, 0, tile_rows, scale];
    params.extend(segments);
    let end = matrices.iter().map(|m| u64::from(m.base) + u64::from(m.rows) * u64::from(m.row_vec4)).max().unwrap_or(0);
    let weights = Binding::read(first.buffer, 0, end * 16);
    let cost = Cost { fixed: u64::from(io.tokens) * u64::from(first.cols) * all_rows, per_key: 0 };
    let mut bindings = vec![io.state, io.x, weights, io.bias.unwrap_or(io.x), io.y];
    parts::bind_codebooks(&mut variant, &mut bindings, matrices)?;
    let whole = Dispatch { variant, params, bindings, workgroups: grid, cost, continues: false };
    Ok(sliced(tier, whole, FIRST, 0))
}

/// Shaders index floats by u32, and read nothing beyond what is bound.
fn check_size(name: &str, binding: Binding, floats: u64) -> Result<()> {
    if binding.bytes < floats * 4 || floats > u64::from(u32::MAX) {
        return Err(err!(Internal, "matmul: {name} needs {floats} floats, {} bytes are bound", binding.bytes));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::BufferId;
    use crate::kernels::parts::Activation;

    const Q: Matrix =
        Matrix { format: Format::Q4_0, buffer: BufferId(3), base: 0, rows: 65, cols: 64, row_vec4: 3, codebooks: None };

    fn io(tokens: u32) -> Io {
        let binding = |id, floats: u32| Binding::read(BufferId(id), 0, u64::from(floats) * 4);
        Io { state: binding(0, 64), x: binding(1, 64 * 64), bias: None, y: binding(2, 64 * 130), tokens }
    }

    #[test]
    fn workgroups_cover_every_matrix_and_token() {
        let store = Epilogue::STORE;
        let gated = Epilogue::Gated(Activation::Silu); // half of a workgroup's rows are gate and half are up
        let tiers = [
            (Tier { cpu: true, ..Tier::BASE }, [2, 4, 1], [2, 3, 1]), // 64 rows, 32 tokens
            (Tier::BASE, [1, 4, 1], [1, 3, 1]),                       // 64 tokens, 64 rows
            (Tier { f16: true, ..Tier::BASE }, [1, 2, 1], [1, 2, 1]), // 64 tokens, 128 rows
        ];
        for (tier, of_store, of_gated) in tiers {
            assert_eq!(matmul(tier, &[Q, Q], io(64), store).unwrap()[0].workgroups, of_store, "{tier:?}");
            assert_eq!(matmul(tier, &[Q, Q], io(64), gated).unwrap()[0].workgroups, of_gated, "{tier:?}");
        }
    }

    #[test]
    fn few_tokens_have_kernels_of_their_own() {
        let cpu = Tier { cpu: true, ..Tier::BASE };
        let store = Epilogue::STORE;
        for (tier, tokens, kernel, workgroups) in [
            (Tier::BASE, 8, "matmul_small", [1, 10, 1]),
            (Tier::BASE, 9, "matmul_small", [2, 10, 1]),
            (Tier { f16: true, ..Tier::BASE }, 32, "matmul_small", [4, 10, 1]),
            (Tier::BASE, 33, "matmul", [1, 4, 1]),
            (cpu, 8, "matmul_rows", [1, 4, 1]),
        ] {
            let slices = matmul(tier, &[Q, Q], io(tokens), store).unwrap();
            assert_eq!((slices[0].variant.kernel.name, slices[0].workgroups), (kernel, workgroups), "{tokens} tokens, {tier:?}");
            assert!(!slices[0].variant.f16 || kernel == "matmul");
        }
        assert_eq!(buckets(Tier::BASE, 256), [8, 32, 64, 256]);
        assert_eq!(buckets(Tier::BASE, 32), [8, 32]);
        assert_eq!(buckets(cpu, 64), [16, 64]);
        assert_eq!((buckets(cpu, 4), buckets(Tier::BASE, 1)), (vec![4], vec![]));
    }

    #[test]
    fn bytes_are_for_large_tiles_of_integer_weights() {
        let store = Epilogue::STORE;
        let fast = Tier { packed_dot: true, f16: true, ..Tier::BASE };
        let float = Matrix { format: Format::F16, row_vec4: 8, ..Q };
        for (tier, tokens, matrices, part) in [
            (fast, 33, [Q, Q], Some("parts/matmul_tile_i8")),
            (fast, 33, [Q, float], Some("parts/matmul_tile_f16")),
            (Tier { packed_dot: false, ..fast }, 33, [Q, Q], Some("parts/matmul_tile_f16")),
            (fast, 32, [Q, Q], None),
            (Tier { cpu: true, ..fast }, 64, [Q, Q], None),
        ] {
            let variant = &matmul(tier, &matrices, io(tokens), store).unwrap()[0].variant;
            let links = |name: &str| variant.parts.iter().any(|p| p.source.name == name);
            assert!(part.is_none_or(links), "{tokens} tokens, {tier:?}: {}", variant.label());
            assert_eq!(links("parts/weights_i8"), part == Some("parts/matmul_tile_i8"), "{}", variant.label());
            assert_eq!(variant.f16, part == Some("parts/matmul_tile_f16"));
        }
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let store = Epilogue::STORE;
        let refused = |matrices: &[Matrix], io, epilogue| matmul(Tier::BASE, matrices, io, epilogue).is_err();
        assert!(!refused(&[Q, Q], io(64), store));
        assert!(refused(&[], io(64), store));
        assert!(refused(&[Q; 4], io(8), store), "four matrices");
        assert!(refused(&[Q, Matrix { cols: 32, ..Q }], io(64), store), "two lengths of input");
        assert!(refused(&[Q, Matrix { buffer: BufferId(4), ..Q }], io(64), store), "two buffers");
        assert!(refused(&[Q, Matrix { rows: 64, ..Q }], io(64), Epilogue::Gated(Activation::Silu)), "gate and up differ");
        assert!(refused(&[Q], io(65), store), "x is too short");
        assert!(refused(&[Q, Q, Q], io(64), store), "y is too short");
        assert!(refused(&[Matrix { rows: u32::MAX, ..Q }, Q], io(1), store), "more rows than a u32 counts");
        assert!(refused(&[Matrix { format: Format::Q8_K, ..Q }], io(1), store), "no decoder");
        assert!(refused(&[Matrix { format: Format::IQ1_S, ..Q }], io(1), store), "no codebooks");
    }
}
