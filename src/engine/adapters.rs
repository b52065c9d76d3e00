//! LoRA adapters of a loaded model: fetched once, then chosen answer by answer.
//!
//! An adapter's tensors stay on the device beside the model's. Which of them passes are recorded with, and how strongly they
//! count, is part of the recordings; so another choice records again, which takes milliseconds, and empties the cache, whose keys and
//! values were computed with the last one.

use std::collections::BTreeMap;

use super::cancel::{Cancel, check_cancel, unless_cancelled};
use super::load::Engine;
use super::options::AdapterUse;
use super::passes::Recordings;
use super::source::ByteSource;
use crate::err;
use crate::error::Result;
use crate::gguf::Header;
use crate::kernels::BufferId;
use crate::model::{AdapterUpload, Plan};
use crate::quant;

impl Engine {
    /// Puts an adapter, whose header was read from `source`, on the device, for [`GenerateOptions::adapters`](super::GenerateOptions::adapters) to name by the number that this gives.
    ///
    /// # Errors
    /// As [`Plan::add_adapter`], what the source or the device fails with, `aborted`. The model is then as it was.
    pub async fn load_adapter(&mut self, header: &Header, source: &impl ByteSource, cancel: &dyn Cancel) -> Result<u32> {
        let mut plan = self.plan.clone();
        let uploads = plan.add_adapter(header)?;
        let had = self.plan.buffers.len();
        self.gpu.add_buffers(&mut self.buffers, &plan.buffers[had..]).await?;
        if let Err(e) = unless_cancelled(cancel, self.upload_adapter(source, header, &plan, &uploads, cancel)).await {
            self.buffers.truncate(had);
            return Err(e);
        }
        self.plan = plan;
        Ok(self.plan.adapters() as u32 - 1)
    }

    /// Has all passes from now on played with these adapters. A generation does this by its options.
    ///
    /// # Errors
    /// `bad-option` for an adapter that is not there, is named twice, or has a scale that is no number; what the device fails with, and
    /// then the choice is as it was.
    pub async fn choose_adapters(&mut self, wanted: &[AdapterUse]) -> Result<()> {
        for (i, AdapterUse { id, scale }) in wanted.iter().enumerate() {
            if *id as usize >= self.plan.adapters() {
                return Err(err!(BadOption, "adapters: expected the number of one of {}, found {id}", self.plan.adapters()));
            }
            if !scale.is_finite() {
                return Err(err!(BadOption, "adapters: expected a finite scale, found {scale}"));
            }
            if wanted[..i].iter().any(|other| other.id == *id) {
                return Err(err!(BadOption, "adapters: adapter {id} is named twice"));
            }
        }
        let wanted = wanted.iter().filter(|a| a.scale != 0.0);
        let chosen: Vec<(usize, f32)> = wanted.map(|a| (a.id as usize, a.scale)).collect();
        if chosen == self.plan.chosen_adapters() {
            return Ok(());
        }
        let plan = self.plan.with_adapters(chosen);
        let recordings = Recordings::new(&plan)?;
        let compilation = self.gpu.start_compiling(recordings.all())?;
        self.gpu.finish_compiling(compilation, &mut |_, _| {}).await?;
        self.passes = recordings.prepare(&self.gpu, &self.buffers, &|| false).await?;
        self.plan = plan;
        self.forget();
        // An adapter may have left what is no number.
        self.gpu.clear(&self.buffers, self.plan.caches())
    }

    async fn upload_adapter(
        &self,
        source: &impl ByteSource,
        header: &Header,
        plan: &Plan,
        uploads: &[AdapterUpload],
        cancel: &dyn Cancel,
    ) -> Result<()> {
        let mut by_buffer: BTreeMap<BufferId, Vec<&AdapterUpload>> = BTreeMap::new();
        for upload in uploads {
            by_buffer.entry(upload.buffer).or_default().push(upload);
        }
        for (buffer, uploads) in by_buffer {
            check_cancel(cancel)?;
            // What no tensor covers stays zero: the padding of ranks, and the corners of B.
            let mut matrix = vec![0f32; plan.buffers[buffer.0 as usize].bytes as usize / 4];
            for upload in uploads {
                let tensor = &header.tensors[upload.tensor];
                let (cols, quant) = (tensor.row_len() as usize, quant::supported(tensor.format)?);
                let (row_bytes, rows) = (quant.source_row_bytes(cols), upload.rows.end - upload.rows.start);
                let (mut bytes, mut floats) = (vec![0; row_bytes * rows as usize], vec![0f32; cols * rows as usize]);
                source.read(tensor.offset + upload.rows.start * row_bytes as u64, &mut bytes).await?;
                quant.dequantize(&bytes, &mut floats)?;
                let rows = floats.chunks_exact(cols);
                let places = (upload.offset as usize..).step_by(upload.stride as usize);
                for (row, at) in rows.zip(places) {
                    let place = matrix.get_mut(at..at + row.len());
                    let place = place.ok_or_else(|| err!(Internal, "adapter: row at {at} of {}", tensor.name))?;
                    place.iter_mut().zip(row).for_each(|(place, value)| *place = value * upload.factor);
                }
            }
            self.gpu.write(&self.buffers, buffer, 0, bytemuck::cast_slice(&matrix))?;
        }
        self.gpu.flush(&self.buffers).await
    }
}
