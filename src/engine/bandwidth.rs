//! What a device's memory gives when it is only read: the limit that decoding is judged by.

use super::cancel::{Cancel, check_cancel};
use super::source::Host;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::kernels::fill::{Pattern, fill};
use crate::kernels::stream::{block_bytes, stream, sums_bytes};
use crate::kernels::{Binding, BufferId, BufferSpec, Recording};

/// Bytes that are read over and over, within the device's limits: more than any cache holds, on a GPU and on a CPU.
const BYTES: u64 = 512 << 20;
const BYTES_CPU: u64 = 128 << 20;

/// Reading is repeated until it takes this long, so that the clock's steps and the way back do not matter.
const LONG_MS: f64 = 150.0;
/// The most repetitions, whatever the clock says.
const MOST: u32 = 4096;
/// A submit reads at most this many times, and few enough that it stays short: between two submits a fast GPU would wait.
const SUBMIT: u32 = 16;
const TRIALS: u32 = 3;

/// Bytes a second that the streaming kernel reads. What a submit and a readback cost by themselves is left out: it is the
/// difference between n reads and three times as many, each the best of several.
///
/// # Errors
/// `aborted`, and what the device fails with; `out-of-memory` where even this much does not fit.
pub async fn bandwidth(gpu: &Gpu, host: &dyn Host, cancel: &dyn Cancel) -> Result<f64> {
    let (tier, report) = (gpu.tier(), gpu.report());
    let wanted = if tier.cpu { BYTES_CPU } else { BYTES };
    let block = block_bytes(tier);
    let bytes = wanted.min(report.max_binding_bytes).min(report.max_buffer_bytes) / block * block;
    let sums = sums_bytes(tier, bytes);
    let specs = [("stream", bytes), ("sums", sums)].map(|(label, bytes)| BufferSpec { label: label.into(), bytes });
    let buffers = gpu.create_buffers(&specs).await?;
    let (data_id, sums_id) = (BufferId(0), BufferId(1));
    // Noise, since memory may be smarter about zeros.
    let noise = fill(Binding::read_write(data_id, 0, bytes), Pattern::noise(1))?;
    gpu.submit(&[&gpu.prepare(&Recording { dispatches: vec![noise] }, &buffers).await?]);
    let once = stream(tier, Binding::read(data_id, 0, bytes), Binding::read_write(sums_id, 0, sums))?;
    let once = gpu.prepare(&Recording { dispatches: vec![once] }, &buffers).await?;
    gpu.flush(&buffers).await?;
    // n: a power of two, or three times one.
    let time = async |n: u32| -> Result<f64> {
        check_cancel(cancel)?;
        let start = host.now_ms();
        let each = (n / 16).clamp(1, SUBMIT);
        let reads = vec![&once; each as usize];
        (0..n / each).for_each(|_| gpu.submit(&reads));
        gpu.flush(&buffers).await?;
        Ok(host.now_ms() - start)
    };
    let mut n = 1;
    while n < MOST && time(n).await? < LONG_MS {
        n *= 2;
    }
    let (mut short, mut long) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TRIALS {
        short = short.min(time(n).await?);
        long = long.min(time(3 * n).await?);
    }
    // A clock so coarse that nothing is left: then with the way back.
    let ms = if long > short { (long - short) / 2.0 } else { long / 3.0 };
    Ok(if ms > 0.0 { n as f64 * bytes as f64 * 1000.0 / ms } else { 0.0 })
}
