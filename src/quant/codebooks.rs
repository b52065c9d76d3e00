//! The codebooks of the IQ formats: grids of magnitudes that a file's indices choose from, eight or four weights an entry.
//!
//! `codebooks.bin` holds the six grids one after another, a little-endian u16 an entry. The codes of its weights, the first
//! one lowest, have two bits each where an entry is eight weights, and four where it is four. **On the GPU** an entry is one
//! word ([`words`]): of eight weights the codes as nibbles, weights 0 to 3 in the low nibbles of the four bytes and 4 to 7 in
//! the high ones; of four weights their magnitudes, a byte each; of two weights of IQ4 their numbers, likewise. All grids lie
//! in one storage buffer, which `shaders/parts/codebooks.wgsl` declares; a model that needs none has no such buffer. Every
//! index has just the bits that its grid has entries for, so that no file can reach beyond a grid.
//!
//! Source: the format's own numbers, as ggml and its Python package `gguf` have them.

/// Two bits a weight for eight weights: magnitudes 8, 25 and 43. 256, 512 and 1,024 entries.
pub const IQ2_XXS: usize = 0;
/// See [`IQ2_XXS`].
pub const IQ2_XS: usize = IQ2_XXS + 256;
/// See [`IQ2_XXS`].
pub const IQ2_S: usize = IQ2_XS + 512;
/// Two bits a weight for eight weights: -1, 0 and 1. 2,048 entries.
pub const IQ1: usize = IQ2_S + 1024;
/// Four bits a weight for four weights: magnitudes 4, 12, …, 52 and 62. 256 entries.
pub const IQ3_XXS: usize = IQ1 + 2048;
/// Four bits a weight for four weights: magnitudes 1, 3, …, 15. 512 entries.
pub const IQ3_S: usize = IQ3_XXS + 256;
const ENTRIES: usize = IQ3_S + 512;
/// Two codes of IQ4_NL and IQ4_XS, whose numbers are [`IQ4_VALUES`]. 256 entries on the GPU: a byte of two codes is looked up
/// as a whole.
pub const IQ4: usize = ENTRIES;

/// The numbers that IQ4_NL's and IQ4_XS's codes stand for.
pub const IQ4_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

static GRIDS: &[u8; 2 * ENTRIES] = include_bytes!("codebooks.bin");

/// Bytes of the buffer that holds them on the GPU.
pub const BYTES: u64 = 4 * (IQ4 + 256) as u64;

/// The codes of an entry; `at` is below [`ENTRIES`], as a grid's start and an index of as many bits as it has are.
fn entry(at: usize) -> u32 {
    u32::from(GRIDS[2 * at]) | (u32::from(GRIDS[2 * at + 1]) << 8)
}

/// The codes, 0 to 2, of an entry of eight weights.
fn codes(at: usize) -> [u8; 8] {
    std::array::from_fn(|i| (entry(at) >> (2 * i)) as u8 & 3)
}

/// The magnitudes of entry `index` of the grid of IQ2_XXS, IQ2_XS or IQ2_S that starts at `grid`.
pub fn iq2(grid: usize, index: usize) -> [i8; 8] {
    codes(grid + index).map(|code| [8, 25, 43, 43][usize::from(code)])
}

/// Eight times the weights, -8, 0 or 8, of entry `index` of the grid of IQ1_S and IQ1_M.
pub fn iq1(index: usize) -> [i8; 8] {
    codes(IQ1 + index).map(|code| 8 * code as i8 - 8)
}

/// The magnitudes of entry `index` of the grid of IQ3_XXS or IQ3_S that starts at `grid`.
pub fn iq3(grid: usize, index: usize) -> [i8; 4] {
    let codes = entry(grid + index);
    std::array::from_fn(|i| match ((codes >> (4 * i)) & 7, grid) {
        (7, IQ3_XXS) => 62,
        (code, IQ3_XXS) => 8 * code as i8 + 4,
        (code, _) => 2 * code as i8 + 1,
    })
}

/// Makes a weight negative where its bit in `signs` is set, weight i in bit i.
pub fn signed<const N: usize>(magnitudes: [i8; N], signs: u8) -> [i8; N] {
    std::array::from_fn(|i| if (signs >> i) & 1 == 1 { -magnitudes[i] } else { magnitudes[i] })
}

/// The eight signs that seven bits stand for: an even number of weights is negative.
pub fn even_signs(bits: u8) -> u8 {
    let bits = bits & 127;
    bits | ((bits.count_ones() as u8 & 1) << 7)
}

/// The words of the buffer on the GPU.
pub fn words() -> Vec<u32> {
    let eights = (IQ2_XXS..IQ3_XXS).map(|at| {
        let codes = codes(at);
        let nibbles: [u8; 4] = std::array::from_fn(|i| codes[i] | (codes[i + 4] << 4));
        u32::from_le_bytes(nibbles)
    });
    let fours = (IQ3_XXS..ENTRIES).map(|at| {
        let grid = if at < IQ3_S { IQ3_XXS } else { IQ3_S };
        u32::from_le_bytes(iq3(grid, at - grid).map(|m| m as u8))
    });
    let value = |code: u32| u32::from(IQ4_VALUES[code as usize & 15] as u8);
    let pairs = (0..256).map(|byte| value(byte) | (value(byte >> 4) << 8));
    eights.chain(fours).chain(pairs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some entries as they are published, the first and the last of every grid among them.
    #[test]
    fn the_grids_are_the_published_ones() {
        assert_eq!(iq2(IQ2_XXS, 0), [8; 8]);
        assert_eq!(iq2(IQ2_XS, 511), [43; 8]);
        assert_eq!(iq2(IQ2_S, 1023), [43; 8]);
        assert_eq!((iq1(0), iq1(2047)), ([-8; 8], [8; 8]));
        assert_eq!((iq3(IQ3_XXS, 0), iq3(IQ3_S, 0)), ([4; 4], [1; 4]));
    }

    #[test]
    fn a_grid_has_no_entry_twice_and_no_code_that_means_nothing() {
        let grids = [IQ2_XXS..IQ2_XS, IQ2_XS..IQ2_S, IQ2_S..IQ1, IQ1..IQ3_XXS, IQ3_XXS..IQ3_S, IQ3_S..ENTRIES];
        for grid in grids {
            let eights = grid.start < IQ3_XXS;
            let entries: std::collections::BTreeSet<u32> = grid.clone().map(entry).collect();
            assert_eq!(entries.len(), grid.len());
            // No code 3 of two bits, no code above 7 of four.
            assert!(entries.iter().all(|e| if eights { e & (e >> 1) & 0x5555 == 0 } else { e & 0x8888 == 0 }));
        }
    }

    #[test]
    fn the_shader_knows_where_the_grids_start() {
        let shader = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/shaders/parts/codebooks.wgsl"));
        let starts = [
            ("IQ2_XXS", IQ2_XXS),
            ("IQ2_XS", IQ2_XS),
            ("IQ2_S", IQ2_S),
            ("IQ1", IQ1),
            ("IQ3_XXS", IQ3_XXS),
            ("IQ3_S", IQ3_S),
            ("IQ4", IQ4),
        ];
        for (name, start) in starts {
            assert!(shader.contains(&format!("const CODEBOOKS_{name}: u32 = {start}u;")), "{name} at {start}");
        }
        assert_eq!(words().len() as u64 * 4, BYTES);
    }

    #[test]
    fn signs_are_even_in_number() {
        assert_eq!([0, 1, 3, 127, 255].map(even_signs), [0, 129, 3, 255, 255]);
        assert_eq!(signed([1, 2, 3, 62], 0b1010), [1, -2, 3, -62]);
    }
}
