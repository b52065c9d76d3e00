//! The twin of `matmul_small` and `matmul_rows` with the part `matmul_gathered`, and cases of a whole mixture in a prefill.

use super::Memory;
use super::activation::activation;
use super::case::{Case, Noise};
use super::weights::{decode_row, fill_matrix, formats_of};
use crate::error::Result;
use crate::kernels::expert_sum::{self, expert_sum};
use crate::kernels::experts::{Picks, Place, Run};
use crate::kernels::gathered::{self, Io, SEGMENTS_AT, gathered as build, tile};
use crate::kernels::parts::Activation;
use crate::kernels::state::{DONE, N_TOKENS, STATE_BYTES, STATE_WORDS};
use crate::kernels::tiles::{Tiling, tiles};
use crate::kernels::{Binding, BufferId, Dispatch, Matrix, Recording};
use crate::tensor::{Format, Tier};

/// Whether a matmul takes gathered tokens.
pub fn is_gathered(d: &Dispatch) -> bool {
    d.variant.parts.iter().any(|part| part.source == gathered::CORE)
}

/// A run of experts times the picks in the list, sums in f64. Cases are not cut into slices.
pub fn gathered(d: &Dispatch, m: &mut Memory) -> Result<()> {
    if m.binding(d, 1)?[DONE] != 0 {
        return Ok(());
    }
    let word = |i: usize| d.params.get(i).copied().unwrap_or_default() as usize;
    let gated = word(1) == 2;
    let (cols, slots) = (word(0) * 32, word(6));
    let [x_stride, x_at, x_slot] = [7, 8, 9].map(|i| word(i) * 4);
    let [y_stride, y_at, expert, experts, sorted_at] = [10, 11, 12, 13, 14].map(word);
    let rows = word(SEGMENTS_AT + 2);
    let x = m.floats(d, 2)?;
    let biases = if d.variant.consts.contains(&("BIAS", 1)) { m.floats(d, 4)? } else { Vec::new() };
    let (list, formats) = (m.binding(d, 6)?.to_vec(), formats_of(&d.variant)?);
    let weights = m.binding(d, 3)?;
    let product = |kind: usize, e: usize, x: &[f32]| -> Result<Vec<f64>> {
        let at = SEGMENTS_AT + 8 * kind;
        let (base, row_vec4, format, bias) = (word(at), word(at + 1), formats[word(at + 3)], word(at + 4));
        let dot = |r: usize| -> Result<f64> {
            let row = decode_row(format, cols, weights, (base + ((e - expert) * rows + r) * row_vec4) as u32)?;
            let bias = biases.get(bias + e * rows + r).map_or(0.0, |b| f64::from(*b));
            Ok(bias + row.iter().zip(x).map(|(w, v)| f64::from(*w) * f64::from(*v)).sum::<f64>())
        };
        (0..rows).map(dot).collect()
    };
    let gate = activation(&d.variant)?.gated;
    let mut written = Vec::new();
    for tile in 1..=list[0] as usize {
        let e = list[4 * tile] as usize;
        if !(expert..expert + experts).contains(&e) {
            continue;
        }
        for place in list[4 * tile + 1]..list[4 * tile + 2] {
            let pick = list[sorted_at + place as usize] as usize;
            let (t, s) = (pick / slots, pick % slots);
            let from = t * x_stride + x_at + s * x_slot;
            let input = &x[from..from + cols];
            let first = product(0, e, input)?;
            let row: Vec<f64> = match gated {
                true => first.iter().zip(product(1, e, input)?).map(|(g, u)| gate(*g, u)).collect(),
                false => first,
            };
            written.push((t * y_stride + y_at + s * rows, row));
        }
    }
    let y = m.binding_mut(d, 5)?;
    for (at, row) in written {
        y[at..].iter_mut().zip(row).for_each(|(y, v)| *y = (v as f32).to_bits());
    }
    Ok(())
}

/// Experts of the cases' layers, picks of a token, and which of them are meant.
const EXPERTS: u32 = 5;
const PICKS: u32 = 4;
const SLOTS: u32 = 3;

/// Picks sorted, both steps, and the sum: few formats, since the decoders are matmul's. Some experts have several tiles, one none.
pub fn cases(tier: Tier) -> Result<Vec<Case>> {
    use Format::{MXFP4, Q4_0, Q8_0};
    Ok(vec![
        case(tier, [Q4_0, Q8_0, Q4_0], (64, 96), Activation::Silu, false, (41, 44), 0)?,
        case(tier, [MXFP4, MXFP4, Q8_0], (64, 32), Activation::SwigluOai, true, (13, 13), 0)?,
        case(tier, [Q4_0, Q4_0, Q4_0], (32, 32), Activation::Silu, false, (3, 3), 1)?,
    ])
}

fn case(
    tier: Tier,
    formats: [Format; 3],
    (n_ff, n_embd): (u32, u32),
    activation: Activation,
    biased: bool,
    (tokens, most): (u32, u32),
    done: u32,
) -> Result<Case> {
    let mut noise = Noise(u64::from(n_ff + n_embd));
    let mut memory = Memory::default();
    let mut words = vec![0; STATE_WORDS];
    (words[DONE], words[N_TOKENS]) = (done, tokens);
    let state = Binding::read(memory.push(words), 0, STATE_BYTES);
    let mut floats = |memory: &mut Memory, n: u32| {
        let buffer = memory.push_f32(&noise.floats(n as usize));
        Binding::read(buffer, 0, u64::from(n) * 4)
    };
    let written = |b: Binding| Binding::read_write(b.buffer, 0, b.bytes);
    let x = floats(&mut memory, most * n_embd);
    let (y, given) = (floats(&mut memory, most * (SLOTS * n_ff + 32)), floats(&mut memory, most * SLOTS * n_embd));
    let stream = floats(&mut memory, most * n_embd);
    let biases = [floats(&mut memory, 2 * EXPERTS * n_ff), floats(&mut memory, EXPERTS * n_embd)];
    let drawn: Vec<f32> = (0..most * PICKS).flat_map(|_| [(noise.bits() % 4) as f32, noise.float().abs()]).collect();
    let binding = Binding::read(memory.push_f32(&drawn), 0, drawn.len() as u64 * 4);
    let picks = Picks { binding, row: PICKS, first: 1, slots: SLOTS };
    let tiling = Tiling { experts: EXPERTS, picks: most * SLOTS, tile: tile(tier) };
    let list = memory.push(vec![0; tiling.bytes() as usize / 4]);
    let list = Binding::read(list, 0, tiling.bytes());
    // Two runs of experts: 0 to 2, and the rest.
    let mut runs = |memory: &mut Memory, formats: &[Format], rows: u32, cols: u32| -> Result<Vec<Run>> {
        let run = |(first, experts): (u32, u32)| {
            let buffer = BufferId(memory.buffers().len() as u32);
            let mut words = Vec::new();
            let mut fill = |format: &Format| -> Result<Matrix> {
                let all = fill_matrix(&mut noise, *format, rows * experts, cols, buffer, &mut words)?;
                Ok(Matrix { rows, ..all })
            };
            let matrices = formats.iter().map(&mut fill).collect::<Result<Vec<_>>>()?;
            memory.push(words);
            Ok(Run { matrices, first, experts })
        };
        [(0, 2), (2, EXPERTS - 2)].into_iter().map(run).collect()
    };
    let gate_up = runs(&mut memory, &formats[..2], n_ff, n_embd)?;
    let down = runs(&mut memory, &formats[2..], n_embd, n_ff)?;
    let bias = |i: usize| biased.then_some((biases[i], EXPERTS));
    let place = |binding: Binding, stride: u32, at: u32| Place { binding, stride, at };
    let gated_row = SLOTS * n_ff + 32;
    let (io, slots) = (place(x, n_embd, 0), SLOTS);
    let first = Io { state, x: io, x_slot: 0, list, tiling, slots, bias: bias(0), y: place(written(y), gated_row, 32) };
    let y_given = place(written(given), SLOTS * n_embd, 0);
    let second = Io { x: place(y, gated_row, 32), x_slot: n_ff, bias: bias(1), y: y_given, ..first };
    let mut recording = Recording::default();
    recording.push(tiles(&tiling, state, &picks, written(list), most)?);
    for run in &gate_up {
        recording.extend(build(tier, run, first, Some(activation))?);
    }
    for run in &down {
        recording.extend(build(tier, run, second, None)?);
    }
    let sum = expert_sum::Io { state, picks, given, x: written(stream), tokens: most, cols: n_embd };
    recording.push(expert_sum(sum, 0.5)?);
    let names: Vec<&str> = formats.iter().map(|f| f.name()).collect();
    Ok(Case {
        name: format!("gathered experts {} {n_ff}x{n_embd} T={tokens}/{most} {activation:?} done={done}", names.join("|")),
        recording,
        memory,
        // The list must be equal; down's inputs are gated products of tens.
        outputs: vec![(list.buffer, 0.0), (y.buffer, 1e-4), (given.buffer, 1e-2), (stream.buffer, 1e-2)],
    })
}
