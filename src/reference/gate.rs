//! The twin of `gate`.

use super::Memory;
use super::activation::activation;
use super::case::{Case, Noise};
use crate::err;
use crate::error::Result;
use crate::kernels::gate::{Io, Rows, activate, gate as build};
use crate::kernels::parts::Activation;
use crate::kernels::state::{DONE, N_TOKENS, STATE_BYTES, STATE_WORDS};
use crate::kernels::{Binding, BufferId, Dispatch, Recording};

/// `out[t, i] = gated(gate[t, i], value[t, i])`, or `activate(gate[t, i])`.
pub fn gate(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let state = m.binding(d, 1)?;
    let &[tokens, cols, gate_offset, gate_stride, value_offset, value_stride, out_offset, out_stride] = d.params.as_slice()
    else {
        return Err(err!(Internal, "gate: {} params", d.params.len()));
    };
    if state[DONE] != 0 {
        return Ok(());
    }
    let tokens = state[N_TOKENS].min(tokens);
    let twin = activation(&d.variant)?;
    let kind = |value| d.variant.consts.contains(&("VALUE", value));
    let (gates, values) = (m.floats(d, 2)?, m.floats(d, 3)?);
    let out = m.binding_mut(d, 4)?;
    for (t, i) in (0..tokens).flat_map(|t| (0..cols).map(move |i| (t, i))) {
        let at = |offset: u32, stride: u32| (offset + t * stride + i) as usize;
        let slot = &mut out[at(out_offset, out_stride)];
        let gate = gates[at(gate_offset, gate_stride)].into();
        let result = match (kind(0), kind(1)) {
            (true, _) => (twin.gated)(gate, values[at(value_offset, value_stride)].into()),
            (_, true) => (twin.gated)(gate, f32::from_bits(*slot).into()),
            _ => (twin.activate)(gate),
        };
        *slot = (result as f32).to_bits();
    }
    Ok(())
}

/// Gate and value side by side in one buffer, and a value in place; more tokens in the buffers than in the pass. Gates run over all
/// that changes an activation and far beyond, values lie below 1 except where they are clamped: what is off is the activation.
pub fn cases() -> Result<Vec<Case>> {
    use Activation::{Gelu, GeluTanh, Sigmoid, Silu, SwigluOai};
    let with = |activation| case(activation, "value", build);
    let alone = case(Gelu, "no value", activate);
    [Silu, GeluTanh, Gelu, SwigluOai].map(with).into_iter().chain([case(Sigmoid, "in place", build), alone]).collect()
}

fn case(activation: Activation, value: &str, build: fn(Activation, Io) -> Result<Dispatch>) -> Result<Case> {
    const COLS: u32 = 300;
    const TOKENS: u32 = 6;
    let mut noise = Noise(COLS.into());
    let mut memory = Memory::default();
    let mut words = vec![0; STATE_WORDS];
    (words[DONE], words[N_TOKENS]) = (0, TOKENS - 1);
    let state = memory.push(words);
    // Gate | value, of which a value in place is not read.
    let row = |k: u32| {
        let gate = (k as f32 / (TOKENS * COLS) as f32 - 0.5) * 12.0;
        if k.is_multiple_of(50) { gate * 30.0 } else { gate }
    };
    let scale = if activation == Activation::SwigluOai { 9.0 } else { 1.0 };
    let pairs: Vec<f32> = (0..TOKENS)
        .flat_map(|t| (0..2 * COLS).map(move |i| (t, i)))
        .map(|(t, i)| if i < COLS { row(t * COLS + i) } else { noise.float() * scale })
        .collect();
    let gates = memory.push_f32(&pairs);
    let out_stride = COLS + 3;
    let out = memory.push_f32(&noise.floats((2 + TOKENS * out_stride) as usize));
    let whole = |memory: &Memory, id: BufferId| Binding::read(id, 0, memory.words(id).len() as u64 * 4);
    let gate = Rows { binding: whole(&memory, gates), offset: 0, stride: 2 * COLS };
    let out_binding = Binding::read_write(out, 0, whole(&memory, out).bytes);
    let io = Io {
        state: Binding::read(state, 0, STATE_BYTES),
        gate,
        value: (value == "value").then_some(Rows { offset: COLS, ..gate }),
        out: Rows { binding: out_binding, offset: 2, stride: out_stride },
        tokens: TOKENS,
        cols: COLS,
    };
    Ok(Case {
        name: format!("gate {activation:?} {value}"),
        recording: Recording { dispatches: vec![build(activation, io)?] },
        memory,
        outputs: vec![(out, if activation == Activation::SwigluOai { 1e-5 } else { 1e-6 })],
    })
}
