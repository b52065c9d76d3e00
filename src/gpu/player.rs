//! Buffers, pipelines and the player of recordings.
//!
//! Everything is made before the token loop: [`Gpu::prepare`] makes pipelines, the uniform buffer and bind groups, and
//! [`Gpu::submit`] only encodes. [`Counters`] count what is made and done, so that a test can show it.

use std::ops::Range;

use crate::err;
use crate::error::Result;
use crate::kernels::{Access, BINDING_ALIGNMENT, BufferId, BufferSpec, Cost, Recording};

use super::Gpu;
use super::readback::{RING_BYTES, Readback, Ring};

/// What has been done since the device was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Kernel runs.
    pub dispatches: u64,
    /// Queue submits.
    pub submits: u64,
    /// Buffers, bind groups, layouts and pipelines created (command encoders, which each submit needs, are not counted).
    pub objects: u64,
    /// Pipelines compiled.
    pub pipelines: u64,
    /// Buffers read back.
    pub readbacks: u64,
    /// Writes from the CPU into a buffer.
    pub writes: u64,
    /// Bytes of all buffers created and still held by a [`Buffers`] or a [`Prepared`], in total ever.
    pub buffer_bytes: u64,
}

impl Counters {
    /// What has been counted since `earlier`.
    pub fn since(self, earlier: Counters) -> Counters {
        Counters {
            dispatches: self.dispatches - earlier.dispatches,
            submits: self.submits - earlier.submits,
            objects: self.objects - earlier.objects,
            pipelines: self.pipelines - earlier.pipelines,
            readbacks: self.readbacks - earlier.readbacks,
            writes: self.writes - earlier.writes,
            buffer_bytes: self.buffer_bytes - earlier.buffer_bytes,
        }
    }
}

/// The buffers of a plan, by [`BufferId`].
pub struct Buffers {
    buffers: Vec<wgpu::Buffer>,
    ring: Ring,
}

impl Buffers {
    /// Frees all but the first `n`. Nothing that is prepared may use the others.
    pub fn truncate(&mut self, n: usize) {
        self.buffers.drain(n.min(self.buffers.len())..).for_each(|buffer| buffer.destroy());
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // A browser frees GPU memory when the garbage collector comes round, which can be long after; so say it now.
        self.buffers.iter().for_each(wgpu::Buffer::destroy);
        self.ring.destroy();
    }
}

/// A recording made ready for one set of buffers.
pub struct Prepared {
    pub(super) steps: Vec<Step>,
    costs: Vec<Cost>,
    uniforms: wgpu::Buffer,
}

/// Neighbouring dispatches of a recording.
#[derive(Clone)]
pub struct Part<'a> {
    recording: &'a Prepared,
    steps: Range<usize>,
}

impl Prepared {
    /// All of it.
    pub fn whole(&self) -> Part<'_> {
        Part { recording: self, steps: 0..self.steps.len() }
    }
}

impl<'a> Part<'a> {
    /// What its dispatches cost, in order.
    pub fn costs(&self) -> &'a [Cost] {
        &self.recording.costs[self.steps.clone()]
    }

    /// Takes its first `n` dispatches off, at most all of them.
    pub fn split_off(&mut self, n: usize) -> Self {
        let end = (self.steps.start + n).min(self.steps.end);
        let first = self.steps.start..end;
        self.steps.start = end;
        Self { recording: self.recording, steps: first }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        self.uniforms.destroy();
    }
}

pub(super) struct Step {
    pub(super) pipeline: wgpu::ComputePipeline,
    pub(super) bind_group: wgpu::BindGroup,
    pub(super) workgroups: [u32; 3],
    continues: bool,
}

impl Gpu {
    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.counters.get()
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// Allocates the buffers of a plan, zeroed. Error: `out-of-memory`, naming the buffer and its size.
    pub async fn create_buffers(&self, specs: &[BufferSpec]) -> Result<Buffers> {
        let ring = Ring::new(|size, usage| self.buffer("ring", size, usage));
        let mut made = Buffers { buffers: Vec::new(), ring };
        self.add_buffers(&mut made, specs).await?;
        Ok(made)
    }

    /// Allocates more buffers, whose numbers follow on. Errors as [`Self::create_buffers`]; then there are as many as before.
    pub async fn add_buffers(&self, buffers: &mut Buffers, specs: &[BufferSpec]) -> Result<()> {
        let limit = self.report().max_buffer_bytes;
        for spec in specs {
            if spec.bytes > limit {
                return Err(err!(
                    OutOfMemory,
                    "buffer {} wants {} bytes; this device's limit is {limit}",
                    spec.label,
                    spec.bytes
                ));
            }
        }
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
        let had = buffers.buffers.len();
        buffers.buffers.extend(specs.iter().map(|s| self.buffer(&s.label, s.bytes.max(16).next_multiple_of(4), usage)));
        let failed = match scope.pop().await {
            Some(e) => {
                let total: u64 = specs.iter().map(|s| s.bytes).sum();
                Err(err!(OutOfMemory, "allocating {total} bytes in {} buffers failed: {e}", specs.len()))
            }
            None => self.check(),
        };
        if failed.is_err() {
            buffers.truncate(had);
        }
        failed
    }

    fn buffer(&self, label: &str, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        self.count(|c| {
            c.objects += 1;
            c.buffer_bytes += size;
        });
        self.device.create_buffer(&wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false })
    }

    /// Writes bytes (a multiple of 4) at a byte offset. Takes effect before the next submit.
    pub fn write(&self, buffers: &Buffers, id: BufferId, offset: u64, bytes: &[u8]) -> Result<()> {
        let buffer = buffers.get(id)?;
        if !offset.is_multiple_of(4) || !bytes.len().is_multiple_of(4) || offset + bytes.len() as u64 > buffer.size() {
            return Err(err!(Internal, "writing {} bytes at {offset} into a buffer of {}", bytes.len(), buffer.size()));
        }
        self.queue.write_buffer(buffer, offset, bytes);
        self.count(|c| c.writes += 1);
        Ok(())
    }

    /// Writes zeros over whole buffers, after all that was submitted.
    pub fn clear(&self, buffers: &Buffers, ids: impl Iterator<Item = BufferId>) -> Result<()> {
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for id in ids {
            encoder.clear_buffer(buffers.get(id)?, 0, None);
        }
        self.queue.submit([encoder.finish()]);
        Ok(())
    }

    /// Waits until everything submitted is done, so that the staging memory of earlier writes is free again.
    pub async fn flush(&self, buffers: &Buffers) -> Result<()> {
        self.submit_and_read(&[], buffers, BufferId(0), 4).await.map(drop)
    }

    /// Compiles what a recording needs and binds its buffers. Errors: `internal` with the compiler's message.
    pub async fn prepare(&self, recording: &Recording, buffers: &Buffers) -> Result<Prepared> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let prepared = self.prepare_now(recording, buffers);
        if let Some(e) = scope.pop().await {
            return Err(err!(Internal, "preparing kernels failed: {e}"));
        }
        self.check()?;
        prepared
    }

    fn prepare_now(&self, recording: &Recording, buffers: &Buffers) -> Result<Prepared> {
        let mut words: Vec<u32> = Vec::new();
        let mut offsets = Vec::with_capacity(recording.dispatches.len());
        for dispatch in &recording.dispatches {
            let (start, len) = (words.len(), dispatch.params.len().max(1).next_multiple_of(4));
            offsets.push((start as u64 * 4, len as u64 * 4));
            words.extend(&dispatch.params);
            words.resize((start + len).next_multiple_of(BINDING_ALIGNMENT as usize / 4), 0);
        }
        let size = (words.len() as u64 * 4).max(BINDING_ALIGNMENT);
        let uniforms = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("params"),
            size,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        self.queue.write_buffer(&uniforms, 0, bytemuck::cast_slice(&words));
        self.count(|c| {
            c.objects += 1;
            c.buffer_bytes += size;
        });
        let mut steps = Vec::with_capacity(recording.dispatches.len());
        for (dispatch, (offset, size)) in recording.dispatches.iter().zip(offsets) {
            let access: Vec<Access> = dispatch.bindings.iter().map(|b| b.access).collect();
            let pipeline = self.pipeline(&dispatch.variant, &access)?;
            let mut entries = vec![wgpu::BindGroupEntry { binding: 0, resource: bind(&uniforms, offset, size)? }];
            for (i, binding) in dispatch.bindings.iter().enumerate() {
                let buffer = buffers.get(binding.buffer)?;
                entries
                    .push(wgpu::BindGroupEntry { binding: i as u32 + 1, resource: bind(buffer, binding.offset, binding.bytes)? });
            }
            let label = dispatch.variant.label();
            let bind_group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(&label),
                layout: &self.layout(&access),
                entries: &entries,
            });
            self.count(|c| c.objects += 1);
            steps.push(Step { pipeline, bind_group, workgroups: dispatch.workgroups, continues: dispatch.continues });
        }
        Ok(Prepared { steps, costs: recording.dispatches.iter().map(|d| d.cost).collect(), uniforms })
    }

    pub(super) fn layout(&self, access: &[Access]) -> wgpu::BindGroupLayout {
        if let Some(layout) = self.layouts.borrow().get(access) {
            return layout.clone();
        }
        let kinds = std::iter::once(wgpu::BufferBindingType::Uniform)
            .chain(access.iter().map(|a| wgpu::BufferBindingType::Storage { read_only: *a == Access::Read }));
        let entries: Vec<_> = (0..)
            .zip(kinds)
            .map(|(binding, ty)| wgpu::BindGroupLayoutEntry {
                binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
                count: None,
            })
            .collect();
        let layout = self.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        self.count(|c| c.objects += 1);
        self.layouts.borrow_mut().insert(access.to_vec(), layout.clone());
        layout
    }

    /// Plays recordings in order, in one compute pass and one submit.
    pub fn submit(&self, recordings: &[&Prepared]) {
        self.submit_parts(&recordings.iter().map(|r| r.whole()).collect::<Vec<_>>());
    }

    /// Plays parts of recordings in order, in one compute pass and one submit.
    pub fn submit_parts(&self, parts: &[Part<'_>]) {
        self.queue.submit([self.encode(parts).finish()]);
    }

    /// Plays parts of recordings in one submit that also copies the first `bytes` bytes (at most [`RING_BYTES`]) of a buffer,
    /// and gives the answer that [`Self::answer`] waits for. Creates nothing. Up to [`super::RING_SLOTS`] answers can be
    /// under way; one that is not wanted any more is waited for where its place is needed.
    pub async fn submit_reading(&self, parts: &[Part<'_>], buffers: &Buffers, id: BufferId, bytes: u64) -> Result<Readback> {
        let buffer = buffers.get(id)?;
        let bytes = bytes.min(RING_BYTES).min(buffer.size());
        let slot = self.free_slot(&buffers.ring).await?;
        let mut encoder = self.encode(parts);
        encoder.copy_buffer_to_buffer(buffer, 0, buffers.ring.staging(slot)?, 0, bytes);
        let submission = self.queue.submit([encoder.finish()]);
        self.take_off(&buffers.ring, slot, bytes, submission)
    }

    /// The bytes that a submit read. Errors: `device-lost`, and what the device has reported meanwhile.
    pub async fn answer(&self, buffers: &Buffers, readback: Readback) -> Result<Vec<u8>> {
        self.landing(&buffers.ring, readback).await
    }

    /// Plays recordings and reads `bytes` (at most [`RING_BYTES`]) of a buffer back, in one submit, creating nothing.
    pub async fn submit_and_read(
        &self,
        recordings: &[&Prepared],
        buffers: &Buffers,
        id: BufferId,
        bytes: u64,
    ) -> Result<Vec<u8>> {
        let parts: Vec<Part<'_>> = recordings.iter().map(|r| r.whole()).collect();
        let readback = self.submit_reading(&parts, buffers, id, bytes).await?;
        self.answer(buffers, readback).await
    }

    fn encode(&self, parts: &[Part<'_>]) -> wgpu::CommandEncoder {
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut dispatches = 0;
        if !parts.is_empty() {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            let mut steps = parts.iter().flat_map(|part| &part.recording.steps[part.steps.clone()]).peekable();
            while let Some(step) = steps.next() {
                let [x, mut y, z] = step.workgroups;
                while let Some(slice) = steps.next_if(|s| s.continues) {
                    y += slice.workgroups[1];
                }
                pass.set_pipeline(&step.pipeline);
                pass.set_bind_group(0, &step.bind_group, &[]);
                pass.dispatch_workgroups(x, y, z);
                dispatches += 1;
            }
        }
        self.count(|c| {
            c.submits += 1;
            c.dispatches += dispatches;
        });
        encoder
    }

    /// Reads a range of a buffer back through a staging buffer of its own. For what is not in the token loop.
    pub async fn read(&self, buffers: &Buffers, id: BufferId, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let buffer = buffers.get(id)?;
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("read"),
            size: bytes,
            usage,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(buffer, offset, &staging, 0, bytes);
        let submission = self.queue.submit([encoder.finish()]);
        self.count(|c| {
            c.submits += 1;
            c.objects += 1;
        });
        let result = self.map_once(&staging, bytes, submission).await;
        staging.destroy();
        result
    }
}

impl Buffers {
    pub(super) fn get(&self, id: BufferId) -> Result<&wgpu::Buffer> {
        self.buffers.get(id.0 as usize).ok_or_else(|| err!(Internal, "there is no buffer {}", id.0))
    }
}

fn bind(buffer: &wgpu::Buffer, offset: u64, bytes: u64) -> Result<wgpu::BindingResource<'_>> {
    let size = std::num::NonZeroU64::new(bytes).ok_or_else(|| err!(Internal, "an empty binding"))?;
    Ok(wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset, size: Some(size) }))
}
