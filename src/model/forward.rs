//! The decoder block, once, as recordings: a pass over one token (decode) and over a chunk of a prompt (prefill).
//!
//! | decode, per layer | prefill, per layer |
//! |---|---|
//! | norm + q, k, v matvec | norm; q, k, v matmul |
//! | attention with q/k-norm, rope and KV append (long: in splits, which another dispatch merges) | rope and KV append; attention |
//! | output matvec + residual | output matmul + residual |
//! | norm + gate, up matvec + activation | norm; gate, up matmul + activation |
//! | down matvec + residual | down matmul + residual |
//!
//! Where a family norms what attention or feed-forward adds (Gemma), the matrix stores into `xn` and a norm adds it on.

use super::plan::{Chunk, Layer, Plan};
use crate::error::Result;
use crate::kernels::attention::AttentionBuffers;
use crate::kernels::attention_decode::{attention_decode, splits};
use crate::kernels::attention_prefill::attention_prefill;
use crate::kernels::embed::{self, embed};
use crate::kernels::kv_append::kv_append;
use crate::kernels::matmul::{self, matmul};
use crate::kernels::matvec::{self, Epilogue, matvec};
use crate::kernels::norm::{self, Into, norm};
use crate::kernels::{Binding, Dispatch, Matrix, Recording};

const STORE: Epilogue = Epilogue::Store { softcap: 0.0 };

impl Plan {
    /// One token, where the sequence with it has up to `positions` tokens: embedding to the residual stream after the last layer.
    pub fn decode(&self, positions: u32) -> Result<Recording> {
        let mut r = Recording::default();
        self.embed(&mut r, 1)?;
        for l in &self.layers {
            r.push(self.matvec(&l.qkv, self.ids.x.read(), Some(l.attn_norm), self.ids.qkv.write(), STORE)?);
            let shape = self.attention(l);
            let splits = splits(self.options.tier, &shape, self.options.split_rule, positions);
            r.dispatches.extend(attention_decode(self.options.tier, &shape, &self.attention_buffers(l), splits));
            self.add_matvec(&mut r, &l.out, self.ids.att.read(), l.post_attn_norm)?;
            let gated = Epilogue::Gated(self.architecture.activation);
            r.push(self.matvec(&l.gate_up, self.ids.x.read(), Some(l.ffn_norm), self.ids.gated.write(), gated)?);
            self.add_matvec(&mut r, &l.down, self.ids.gated.read(), l.post_ffn_norm)?;
        }
        Ok(r)
    }

    /// Up to `tokens` tokens (the state says how many): embedding to the residual stream after the last layer.
    pub fn prefill(&self, tokens: u32) -> Result<Recording> {
        let mut r = Recording::default();
        self.embed(&mut r, tokens)?;
        for l in &self.layers {
            r.push(self.norm(self.ids.x.read(), l.attn_norm, self.ids.xn.write(), Into::Store, tokens)?);
            r.extend(self.matmul(&l.qkv, self.ids.xn.read(), self.ids.qkv.write(), STORE, tokens)?);
            r.push(kv_append(self.options.tier, &self.attention(l), &self.attention_buffers(l), tokens));
            r.extend(attention_prefill(self.options.tier, &self.attention(l), &self.attention_buffers(l), tokens)?);
            self.add_matmul(&mut r, &l.out, self.ids.att.read(), l.post_attn_norm, tokens)?;
            r.push(self.norm(self.ids.x.read(), l.ffn_norm, self.ids.xn.write(), Into::Store, tokens)?);
            let gated = Epilogue::Gated(self.architecture.activation);
            r.extend(self.matmul(&l.gate_up, self.ids.xn.read(), self.ids.gated.write(), gated, tokens)?);
            self.add_matmul(&mut r, &l.down, self.ids.gated.read(), l.post_ffn_norm, tokens)?;
        }
        Ok(r)
    }

    /// The last token's logits.
    pub fn head(&self) -> Result<Recording> {
        let mut r = Recording::default();
        for Chunk { first_row, matrix } in &self.head {
            let y = Binding::read_write(self.ids.logits.id, u64::from(*first_row) * 4, u64::from(matrix.rows) * 4);
            let io = matvec::Io {
                state: self.ids.state.read(),
                x: self.ids.x.read(),
                last_row: true,
                norm: Some((self.output_norm, self.architecture.norm_eps)),
                y,
            };
            let epilogue = Epilogue::Store { softcap: self.architecture.logit_softcap };
            r.push(matvec(self.options.tier, &[*matrix], io, epilogue)?);
        }
        Ok(r)
    }

    fn embed(&self, r: &mut Recording, tokens: u32) -> Result<()> {
        for Chunk { first_row, matrix } in &self.embedding {
            let io = embed::Io { state: self.ids.state.read(), ids: self.ids.ids.read(), x: self.ids.x.write(), tokens };
            r.push(embed(self.options.tier, *matrix, *first_row, self.architecture.embedding_scale, io)?);
        }
        Ok(())
    }

    fn attention(&self, layer: &Layer) -> crate::kernels::attention::AttentionShape {
        self.architecture.attention(layer.index, self.options.kv)
    }

    fn attention_buffers(&self, layer: &Layer) -> AttentionBuffers {
        let group = &self.groups[layer.group];
        let rope = if group.window > 0 { self.ids.rope_window } else { self.ids.rope_global };
        AttentionBuffers {
            state: self.ids.state.read(),
            qkv: self.ids.qkv.write(),
            qk_norm: layer.qk_norm,
            rope: Some(rope.read()),
            kv: layer.kv.write(),
            blocks: group.table.read(),
            att: self.ids.att.write(),
            parts: self.ids.parts.write(),
        }
    }

    fn matvec(&self, m: &[Matrix], x: Binding, weights: Option<Binding>, y: Binding, epilogue: Epilogue) -> Result<Dispatch> {
        let norm = weights.map(|w| (w, self.architecture.norm_eps));
        let io = matvec::Io { state: self.ids.state.read(), x, last_row: false, norm, y };
        matvec(self.options.tier, m, io, epilogue)
    }

    fn matmul(&self, m: &[Matrix], x: Binding, y: Binding, epilogue: Epilogue, tokens: u32) -> Result<Vec<Dispatch>> {
        let io = matmul::Io { state: self.ids.state.read(), x, bias: None, y, tokens };
        matmul(self.options.tier, m, io, epilogue)
    }

    fn norm(&self, a: Binding, weights: Binding, out: Binding, into: Into, tokens: u32) -> Result<Dispatch> {
        let io = norm::Io { state: self.ids.state.read(), a, weights, out, tokens, cols: self.architecture.n_embd };
        norm(self.options.tier, io, self.architecture.norm_eps, into)
    }

    /// `x += m · input`, normed first where the family does.
    fn add_matvec(&self, r: &mut Recording, m: &[Matrix], input: Binding, post: Option<Binding>) -> Result<()> {
        let Some(post) = post else {
            r.push(self.matvec(m, input, None, self.ids.x.write(), Epilogue::Residual)?);
            return Ok(());
        };
        r.push(self.matvec(m, input, None, self.ids.xn.write(), STORE)?);
        r.push(self.norm(self.ids.xn.read(), post, self.ids.x.write(), Into::Add, 1)?);
        Ok(())
    }

    fn add_matmul(&self, r: &mut Recording, m: &[Matrix], input: Binding, post: Option<Binding>, tokens: u32) -> Result<()> {
        let Some(post) = post else {
            r.extend(self.matmul(m, input, self.ids.x.write(), Epilogue::Residual, tokens)?);
            return Ok(());
        };
        r.extend(self.matmul(m, input, self.ids.xn.write(), STORE, tokens)?);
        r.push(self.norm(self.ids.xn.read(), post, self.ids.x.write(), Into::Add, tokens)?);
        Ok(())
    }
}
