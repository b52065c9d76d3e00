//! Embeddings: one vector for a text, of what the last layer makes of its tokens.

use serde::{Deserialize, Serialize};

use super::cancel::Cancel;
use super::load::Engine;
use super::prefill::Prefill;
use crate::err;
use crate::error::Result;
use crate::kernels::state::Done;
use crate::model::Pooling;
use crate::text::EncodeOptions;

/// Options of an embedding, named as in JavaScript.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EmbedOptions {
    /// Which tokens' vectors count. `None`: what the file says.
    pub pooling: Option<Pooling>,
    /// Whether the vector is scaled to length 1, so that a dot product is the cosine.
    pub normalize: bool,
    /// Only the first so many numbers, for models that were trained for that (Matryoshka). `None`: all.
    pub dimensions: Option<u32>,
}

impl Default for EmbedOptions {
    fn default() -> Self {
        Self { pooling: None, normalize: true, dimensions: None }
    }
}

impl Engine {
    /// The vector of a text: f32\[n_embd\], or fewer where `dimensions` says so. The text is wrapped in the special tokens that the model
    /// wants.
    ///
    /// # Errors
    /// As [`Self::embed_ids`].
    pub async fn embed(&mut self, text: &str, options: &EmbedOptions, cancel: &dyn Cancel) -> Result<Vec<f32>> {
        let how = EncodeOptions { parse_special: false, add_bos: true, add_eos: true };
        let ids = self.tokenizer().encode(text, how)?;
        self.embed_ids(&ids, options, cancel).await
    }

    /// The vector of tokens.
    ///
    /// # Errors
    /// `bad-option` for no tokens, ids beyond the vocabulary, dimensions beyond the model's, or where neither the file nor the
    /// options name a pooling; `context-overflow`; `bad-file` for weights that give no numbers; `aborted`; what the device fails with.
    pub async fn embed_ids(&mut self, ids: &[u32], options: &EmbedOptions, cancel: &dyn Cancel) -> Result<Vec<f32>> {
        let architecture = self.architecture();
        let (n_vocab, width, causal) = (architecture.n_vocab, architecture.n_embd as usize, architecture.causal);
        let Some(pooling) = options.pooling.or(architecture.pooling) else {
            return Err(err!(
                BadOption,
                "embed: this file names no pooling: it may be no embeddings model. Give pooling: mean, cls or last"
            ));
        };
        let dimensions = options.dimensions.map_or(width, |n| n as usize);
        if dimensions == 0 || dimensions > width {
            return Err(err!(BadOption, "embed: dimensions: expected 1 to {width}, found {dimensions}"));
        }
        if ids.is_empty() {
            return Err(err!(BadOption, "embed: expected at least one token, found none"));
        }
        if let Some(id) = ids.iter().find(|id| **id >= n_vocab) {
            return Err(err!(BadOption, "embed: expected token ids below {n_vocab}, found {id}"));
        }
        let context = self.kv.context_length() as usize;
        let chunk = self.passes.prefill.last().map_or(1, |p| p.0) as usize;
        // Where every token sees every other, all must be in one pass.
        let most = if causal { context } else { chunk.min(context) };
        if ids.len() > most {
            return Err(err!(ContextOverflow, "embed: the text has {} tokens, {most} fit: shorten or split it", ids.len()));
        }
        self.forget();
        let result = self.pool(ids, chunk, pooling, cancel).await;
        self.forget();
        let mut vector = self.settled(result)?;
        vector.truncate(dimensions);
        if options.normalize {
            let length = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
            vector.iter_mut().for_each(|v| *v /= length.max(f64::MIN_POSITIVE));
        }
        if vector.iter().any(|v| !v.is_finite()) {
            return self.settled(Err(err!(
                BadFile,
                "embed: expected finite numbers: the weights are damaged; load the file again from its source"
            )));
        }
        Ok(vector.into_iter().map(|v| v as f32).collect())
    }

    /// The pooled vector of tokens that fit, before it is cut or scaled.
    async fn pool(&mut self, ids: &[u32], chunk: usize, pooling: Pooling, cancel: &dyn Cancel) -> Result<Vec<f64>> {
        let row_bytes = u64::from(self.architecture().n_embd) * 4;
        let mut pooled = vec![0f64; self.architecture().n_embd as usize];
        let (mut pos, mut run) = (0, Prefill::new());
        for part in ids.chunks(chunk) {
            let n = part.len() as u32;
            self.begin_pass(part, pos)?;
            self.write(self.plan.ids.state.id, 0, &[Done::Running as u32, pos, n])?;
            self.feed(&[self.pass(pos, n)?, &self.passes.final_norm], pos + n, &mut run, cancel).await?;
            self.settle(&mut run, cancel).await?;
            let is_last = (pos + n) as usize == ids.len();
            let rows = match pooling {
                Pooling::Mean => 0..n,
                Pooling::Cls => 0..u32::from(pos == 0),
                Pooling::Last => n - u32::from(is_last)..n,
            };
            pos += n;
            if rows.is_empty() {
                continue;
            }
            let (offset, bytes) = (u64::from(rows.start) * row_bytes, u64::from(rows.end - rows.start) * row_bytes);
            let bytes = self.gpu.read(&self.buffers, self.plan.hidden().id, offset, bytes).await?;
            let floats: Vec<f32> = bytemuck::pod_collect_to_vec(&bytes);
            for row in floats.chunks_exact(pooled.len()) {
                pooled.iter_mut().zip(row).for_each(|(sum, v)| *sum += f64::from(*v));
            }
        }
        if pooling == Pooling::Mean {
            pooled.iter_mut().for_each(|v| *v /= ids.len() as f64);
        }
        Ok(pooled)
    }
}
