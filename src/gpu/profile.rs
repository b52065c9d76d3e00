//! Times of single dispatches, by timestamps around a compute pass of each. A pass of its own costs what a dispatch among others
//! does not, so these times say which kernel to look at, and nothing about tokens a second.

use crate::err;
use crate::error::Result;
use crate::kernels::{BufferId, BufferSpec, Recording};

use super::{Buffers, Gpu};

/// Dispatches between two readbacks: WebGPU's limit of 4096 queries in a set, two a dispatch.
const BATCH: usize = 2048;

impl Gpu {
    /// The milliseconds of each dispatch of a recording, medians over `repeats`. `before` is called before each repetition:
    /// what the dispatches change and depend on is to be written anew.
    ///
    /// # Errors
    /// `bad-option` where the device was not asked for timestamps, and what the device or `before` fails with.
    pub async fn profile(
        &self,
        recording: &Recording,
        buffers: &Buffers,
        repeats: u32,
        before: &dyn Fn() -> Result<()>,
    ) -> Result<Vec<f64>> {
        if !self.device.features().contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Err(err!(BadOption, "profiling: the device was requested without timestamps"));
        }
        let prepared = self.prepare(recording, buffers).await?;
        let most = prepared.steps.len().clamp(1, BATCH);
        let queries = self.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("profile"),
            ty: wgpu::QueryType::Timestamp,
            count: 2 * most as u32,
        });
        let bytes = 16 * most as u64;
        let resolved = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("timestamps"),
            size: bytes,
            usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        let ticks = self.create_buffers(&[BufferSpec { label: "ticks".into(), bytes }]).await?;
        let ms_per_tick = f64::from(self.queue.get_timestamp_period()) / 1e6;
        let mut times = vec![Vec::with_capacity(repeats as usize); prepared.steps.len()];
        for _ in 0..repeats.max(1) {
            before()?;
            for (batch, times) in prepared.steps.chunks(BATCH).zip(times.chunks_mut(BATCH)) {
                let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
                for (i, step) in (0u32..).zip(batch) {
                    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                        label: None,
                        timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                            query_set: &queries,
                            beginning_of_pass_write_index: Some(2 * i),
                            end_of_pass_write_index: Some(2 * i + 1),
                        }),
                    });
                    pass.set_pipeline(&step.pipeline);
                    pass.set_bind_group(0, &step.bind_group, &[]);
                    pass.dispatch_workgroups(step.workgroups[0], step.workgroups[1], step.workgroups[2]);
                }
                let bytes = 16 * batch.len() as u64;
                encoder.resolve_query_set(&queries, 0..2 * batch.len() as u32, &resolved, 0);
                encoder.copy_buffer_to_buffer(&resolved, 0, ticks.get(BufferId(0))?, 0, bytes);
                self.queue.submit([encoder.finish()]);
                let read: Vec<u64> = bytemuck::pod_collect_to_vec(&self.read(&ticks, BufferId(0), 0, bytes).await?);
                for (pair, times) in read.chunks_exact(2).zip(times) {
                    times.push(pair[1].saturating_sub(pair[0]) as f64 * ms_per_tick);
                }
            }
        }
        resolved.destroy();
        let median = |mut of: Vec<f64>| {
            of.sort_by(f64::total_cmp);
            of.get(of.len() / 2).copied().unwrap_or(0.0)
        };
        Ok(times.into_iter().map(median).collect())
    }
}
