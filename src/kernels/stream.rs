//! Reading memory as fast as the device can: `shaders/stream.wgsl`.

use super::{Binding, Cost, Dispatch, MAX_WORKGROUPS, Source, Variant};
use crate::err;
use crate::error::Result;
use crate::source;
use crate::tensor::Tier;

const STREAM: Source = source!("stream");

/// Invocations of a workgroup and vec4s that each reads. A CPU adapter runs a workgroup in groups of a SIMD width, each
/// through the whole loop: only as wide a workgroup reads memory in order.
fn shape(tier: Tier) -> (u32, u32) {
    if tier.cpu { (8, 256) } else { (256, 32) }
}

/// Bytes that one workgroup reads: buffers are a multiple of it.
pub fn block_bytes(tier: Tier) -> u64 {
    let (wg, loads) = shape(tier);
    u64::from(wg) * u64::from(loads) * 16
}

/// Bytes of `sums` for `bytes` of data.
pub fn sums_bytes(tier: Tier, bytes: u64) -> u64 {
    bytes / 16 / u64::from(shape(tier).1) * 4
}

/// Reads all of `data` once; `sums`, u32\[bytes / 16 / loads of an invocation\], gets what keeps a compiler from leaving it out.
///
/// # Errors
/// `internal` where data is no multiple of [`block_bytes`], or sums is too small.
pub fn stream(tier: Tier, data: Binding, sums: Binding) -> Result<Dispatch> {
    let (wg, loads) = shape(tier);
    let workgroups = data.bytes / block_bytes(tier);
    let fits = data.bytes.is_multiple_of(block_bytes(tier)) && sums.bytes >= sums_bytes(tier, data.bytes);
    if !fits || workgroups == 0 || workgroups > MAX_WORKGROUPS.into() {
        return Err(err!(Internal, "stream: {} bytes into {}", data.bytes, sums.bytes));
    }
    Ok(Dispatch {
        variant: Variant::new(STREAM, &[]).constant("WG", wg).constant("LOADS", loads),
        params: vec![(data.bytes / 16) as u32],
        bindings: vec![data, sums],
        workgroups: [workgroups as u32, 1, 1],
        cost: Cost { fixed: data.bytes / 4, per_key: 0 },
        continues: false,
    })
}
