//! A gate, number by number: `shaders/gate.wgsl`. Where a matvec or matmul makes gate and value side by side and nothing comes between,
//! its epilogue does this ([`Epilogue::Gated`](super::matvec::Epilogue::Gated)).

use super::parts::Activation;
use super::{Binding, Cost, Dispatch, MAX_WORKGROUPS, Source, Variant, state};
use crate::err;
use crate::error::Result;
use crate::source;

const GATE: Source = source!("gate");
/// Invocations of a workgroup, a number each.
const WG: u32 = 64;

/// Rows of numbers within a buffer, one for each token of a pass.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    /// f32
    pub binding: Binding,
    /// Where the first row starts, in floats.
    pub offset: u32,
    /// From a row to the next, in floats.
    pub stride: u32,
}

/// What a gate is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// The state buffer: done, and how many of the tokens are there.
    pub state: Binding,
    /// The gate, in another buffer than out.
    pub gate: Rows,
    /// What it lets through, in another buffer than out. `None`: out itself, in place.
    pub value: Option<Rows>,
    /// The result.
    pub out: Rows,
    /// The most tokens of a pass.
    pub tokens: u32,
    /// Numbers in a row.
    pub cols: u32,
}

/// `out[t, i] = gated(gate[t, i], value[t, i])`, mostly `activate(gate) · value`.
///
/// # Errors
/// `internal` where bindings are too small or bound to be read and written.
pub fn gate(activation: Activation, io: Io) -> Result<Dispatch> {
    dispatch(activation, io, u32::from(io.value.is_none()))
}

/// `out[t, i] = activate(gate[t, i])`, of a feed-forward that gates nothing. `io.value` is not looked at.
///
/// # Errors
/// As [`gate`].
pub fn activate(activation: Activation, io: Io) -> Result<Dispatch> {
    dispatch(activation, Io { value: None, ..io }, 2)
}

fn dispatch(activation: Activation, io: Io, value_kind: u32) -> Result<Dispatch> {
    let (tokens, cols) = (u64::from(io.tokens), u64::from(io.cols));
    let holds = |rows: &Rows| {
        let end = u64::from(rows.offset) + tokens.saturating_sub(1) * u64::from(rows.stride) + cols;
        rows.binding.bytes >= end * 4 && end <= u64::from(u32::MAX) && rows.stride >= io.cols
    };
    let value = io.value.unwrap_or(io.gate);
    let aside = |rows: &Rows| rows.binding.buffer != io.out.binding.buffer;
    let fits = [io.gate, value].iter().all(|rows| aside(rows) && holds(rows)) && holds(&io.out);
    if !fits || io.cols == 0 || io.tokens > MAX_WORKGROUPS || io.cols.div_ceil(WG) > MAX_WORKGROUPS {
        return Err(err!(Internal, "gate: {tokens} tokens of {cols} do not fit {io:?}"));
    }
    let mut params = vec![io.tokens, io.cols];
    params.extend([io.gate, value, io.out].iter().flat_map(|rows| [rows.offset, rows.stride]));
    Ok(Dispatch {
        variant: Variant::new(GATE, &[state::STATE]).constant("WG", WG).constant("VALUE", value_kind).with(activation.part()),
        params,
        bindings: vec![io.state, io.gate.binding, value.binding, io.out.binding],
        workgroups: [io.cols.div_ceil(WG), io.tokens, 1],
        cost: Cost { fixed: tokens * cols, per_key: 0 },
        continues: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::BufferId;

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let rows = |id, floats: u64, offset, stride| Rows { binding: Binding::read(BufferId(id), 0, floats * 4), offset, stride };
        let (pair, out) = (rows(1, 3 * 20, 0, 20), rows(2, 30, 0, 10));
        let value = Some(Rows { offset: 10, ..pair });
        let io = Io { state: pair.binding, gate: pair, value, out, tokens: 3, cols: 10 };
        let refused = |io| gate(Activation::Sigmoid, io).is_err();
        assert!(!refused(io) && !refused(Io { value: None, ..io }));
        assert!(refused(Io { value: Some(Rows { offset: 11, ..pair }), ..io }), "the last value lies behind the buffer's end");
        assert!(refused(Io { value: Some(out), ..io }), "read and written at once");
        assert!(refused(Io { out: rows(1, 60, 10, 20), ..io }), "the gate's buffer");
        assert!(refused(Io { out: rows(2, 30, 1, 10), ..io }), "out is too short");
        assert!(refused(Io { out: rows(2, 30, 0, 9), ..io }), "rows lie over one another");
        assert!(refused(Io { cols: 0, ..io }), "nothing");
    }
}
