//! The twin of `embed`.

use super::Memory;
use super::case::{Case, Noise};
use super::weights::{decode_row, fill_matrix, formats_of};
use crate::err;
use crate::error::Result;
use crate::kernels::embed::{Io, Rows, embed as build};
use crate::kernels::state::{DONE, N_TOKENS, POS, STATE_BYTES, STATE_WORDS};
use crate::kernels::{Binding, BufferId, Dispatch, Matrix, Recording};
use crate::tensor::{Format, Tier};

/// `x[t, :] = scale · W[row, :]`, or `+=`, for rows in the chunk.
pub fn embed(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let state = m.binding(d, 1)?;
    let &[groups, tokens, base, row_vec4, row0, rows, scale] = d.params.as_slice() else {
        return Err(err!(Internal, "embed: {} params", d.params.len()));
    };
    if state[DONE] != 0 {
        return Ok(());
    }
    let (cols, scale) = (groups as usize * 32, f64::from(f32::from_bits(scale)));
    let constant = |name| d.variant.consts.iter().find(|c| c.0 == name).map_or(0, |c| c.1);
    let (pos, tokens) = (state[POS], state[N_TOKENS].min(tokens));
    let ids: Vec<u32> = match constant("ROWS") {
        0 => m.binding(d, 2)?[..tokens as usize].to_vec(),
        1 => (pos..pos + tokens).collect(),
        _ => vec![0; tokens as usize],
    };
    let add = constant("ADD") == 1;
    let format = formats_of(&d.variant)?[0];
    for (t, id) in ids.into_iter().enumerate() {
        if id < row0 || id - row0 >= rows {
            continue;
        }
        let row = decode_row(format, cols, m.binding(d, 3)?, base + (id - row0) * row_vec4)?;
        let x = &mut m.binding_mut(d, 4)?[t * cols..(t + 1) * cols];
        for (x, w) in x.iter_mut().zip(row) {
            let before = if add { f64::from(f32::from_bits(*x)) } else { 0.0 };
            *x = ((before + scale * f64::from(w)) as f32).to_bits();
        }
    }
    Ok(())
}

/// Every format; a table in two chunks; rows of all kinds; fewer tokens than the buffers hold; done. Weights are below 2, and the only
/// roundings are those of the scale's product: d and m apart, their sum.
pub fn cases(tier: Tier) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for format in crate::quant::TABLE.iter().map(|q| q.format) {
        let cols = 3 * format.block_len().max(32) as u32;
        cases.push(case(tier, format, cols, (5, 5), 0)?);
    }
    cases.push(case(tier, Format::Q4_1, 2304, (33, 64), 0)?);
    cases.push(case(tier, Format::Q8_0, 32, (1, 1), 0)?);
    cases.push(case(tier, Format::Q4_1, 96, (3, 3), 1)?);
    cases.push(case_of(tier, Format::F16, 96, (7, 8), 0, (Rows::Positions, true))?);
    cases.push(case_of(tier, Format::F32, 64, (3, 4), 0, (Rows::First, false))?);
    Ok(cases)
}

fn case(tier: Tier, format: Format, cols: u32, tokens: (u32, u32), done: u32) -> Result<Case> {
    case_of(tier, format, cols, tokens, done, (Rows::Tokens, false))
}

/// `lookup`: which rows, and whether they are added.
fn case_of(tier: Tier, format: Format, cols: u32, tokens: (u32, u32), done: u32, lookup: (Rows, bool)) -> Result<Case> {
    const VOCABULARY: u32 = 40;
    const SPLIT: u32 = 17; // rows of the first chunk
    let mut noise = Noise(u64::from(cols));
    let mut memory = Memory::default();
    let mut words = vec![0; STATE_WORDS];
    // Positions on both sides of the split.
    (words[DONE], words[N_TOKENS], words[POS]) = (done, tokens.0, SPLIT - 3);
    let state = memory.push(words);
    let ids = memory.push((0..tokens.1).map(|t| if t == 0 { SPLIT } else { (noise.bits() % 40) as u32 }).collect());
    let x = memory.push_f32(&noise.floats((tokens.1 * cols) as usize));
    let buffer = BufferId(memory.buffers().len() as u32);
    let mut words = Vec::new();
    let table = fill_matrix(&mut noise, format, VOCABULARY, cols, buffer, &mut words)?;
    memory.push(words);
    let io = Io {
        state: Binding::read(state, 0, STATE_BYTES),
        ids: Binding::read(ids, 0, u64::from(tokens.1) * 4),
        rows: lookup.0,
        add: lookup.1,
        x: Binding::read_write(x, 0, u64::from(tokens.1 * cols) * 4),
        tokens: tokens.1,
    };
    let first = Matrix { rows: SPLIT, ..table };
    let second = Matrix { base: table.base + SPLIT * table.row_vec4, rows: VOCABULARY - SPLIT, ..table };
    let dispatches = vec![build(tier, first, 0, 25.3, io)?, build(tier, second, SPLIT, 25.3, io)?];
    Ok(Case {
        name: format!("embed {} {cols} T={}/{} done={done} {lookup:?}", format.name(), tokens.0, tokens.1),
        recording: Recording { dispatches },
        memory,
        outputs: vec![(x, 1e-5)],
    })
}
