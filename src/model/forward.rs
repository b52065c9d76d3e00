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
//! Where a family norms what attention or feed-forward adds (Gemma), the matrix stores into `xn` and a norm adds it on. In
//! decode on a GPU that norm is the next matvec's to do; only the last one is a dispatch.

use super::plan::{Chunk, Ids, Layer, Plan, Slot};
use crate::error::Result;
use crate::kernels::attention::AttentionBuffers;
use crate::kernels::attention_decode::{attention_decode, splits};
use crate::kernels::attention_prefill::attention_prefill;
use crate::kernels::embed::{self, embed};
use crate::kernels::kv_append::kv_append;
use crate::kernels::matmul::{self, matmul};
use crate::kernels::matvec::{self, Added, Epilogue, matvec};
use crate::kernels::norm::{self, Into, norm};
use crate::kernels::tuning::{MatvecChoice, Role};
use crate::kernels::{Binding, Dispatch, Matrix, Recording};

const STORE: Epilogue = Epilogue::Store { softcap: 0.0 };

/// The residual stream while a decode pass is put together.
struct Stream {
    /// Where it is.
    x: Slot,
    /// Where the next matvec that adds to it leaves it.
    other: Slot,
    /// The weights of a norm of `xn` that is still to be added.
    pending: Option<Binding>,
}

impl Plan {
    /// One token, where the sequence with it has up to `positions` tokens: embedding to the residual stream after the last layer.
    pub fn decode(&self, positions: u32) -> Result<Recording> {
        let mut r = Recording::default();
        let mut stream = self.stream();
        self.embed(&mut r, stream.x, 1)?;
        for l in &self.layers {
            r.push(self.norm_matvec(&mut stream, Role::Qkv, &l.qkv, l.attn_norm, self.ids.qkv.write(), STORE)?);
            let shape = self.attention(l);
            let splits = splits(self.options.tier, &shape, self.options.split_rule, positions);
            r.dispatches.extend(attention_decode(self.options.tier, &shape, &self.attention_buffers(l), splits));
            self.add_matvec(&mut r, &mut stream, Role::Out, &l.out, self.ids.att.read(), l.post_attn_norm)?;
            let gated = Epilogue::Gated(self.architecture.activation);
            r.push(self.norm_matvec(&mut stream, Role::GateUp, &l.gate_up, l.ffn_norm, self.ids.gated.write(), gated)?);
            self.add_matvec(&mut r, &mut stream, Role::Down, &l.down, self.ids.gated.read(), l.post_ffn_norm)?;
        }
        if let Some(post) = stream.pending {
            r.push(self.norm(self.ids.xn.read(), post, stream.x.write(), Into::Add, 1)?);
        }
        Ok(r)
    }

    /// Up to `tokens` tokens (the state says how many): embedding to the residual stream after the last layer.
    pub fn prefill(&self, tokens: u32) -> Result<Recording> {
        let mut r = Recording::default();
        self.embed(&mut r, self.ids.x, tokens)?;
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

    /// Weights in a row of a role's matrices.
    pub fn cols(&self, role: Role) -> u32 {
        let a = &self.architecture;
        match role {
            Role::Qkv | Role::GateUp | Role::Head => a.n_embd,
            Role::Out => a.n_heads * a.head_dim,
            Role::Down => a.n_ff,
        }
    }

    /// The weight formats of a role, as its first layer has them.
    pub fn formats(&self, role: Role) -> String {
        let Some(layer) = self.layers.first() else { return String::new() };
        let head: Vec<Matrix> = self.head.iter().take(1).map(|chunk| chunk.matrix).collect();
        let matrices = match role {
            Role::Qkv => &layer.qkv,
            Role::Out => &layer.out,
            Role::GateUp => &layer.gate_up,
            Role::Down => &layer.down,
            Role::Head => &head,
        };
        matrices.iter().map(|m| m.format.name()).collect::<Vec<_>>().join("+")
    }

    /// The matvecs of one role in the first `layers` layers and nothing else, shared out as `choice` says: what tuning times.
    /// Their results are of no use.
    pub fn matvecs(&self, role: Role, choice: MatvecChoice, layers: usize) -> Result<Recording> {
        let plan = Plan { tuning: self.tuning.with(role, choice), ..self.clone() };
        let mut r = Recording::default();
        let mut stream = plan.stream();
        let gated = Epilogue::Gated(plan.architecture.activation);
        for l in plan.layers.iter().take(layers) {
            if plan.defers_norms() {
                stream.pending = l.post_attn_norm;
            }
            match role {
                Role::Head => return plan.head(),
                Role::Qkv => r.push(plan.norm_matvec(&mut stream, role, &l.qkv, l.attn_norm, plan.ids.qkv.write(), STORE)?),
                Role::GateUp => {
                    r.push(plan.norm_matvec(&mut stream, role, &l.gate_up, l.ffn_norm, plan.ids.gated.write(), gated)?)
                }
                Role::Out => plan.add_matvec(&mut r, &mut stream, role, &l.out, plan.ids.att.read(), l.post_attn_norm)?,
                Role::Down => plan.add_matvec(&mut r, &mut stream, role, &l.down, plan.ids.gated.read(), l.post_ffn_norm)?,
            }
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
                added: None,
                y,
            };
            let epilogue = Epilogue::Store { softcap: self.architecture.logit_softcap };
            r.push(matvec(self.options.tier, self.tuning.head, &[*matrix], io, epilogue)?);
        }
        Ok(r)
    }

    fn embed(&self, r: &mut Recording, x: Slot, tokens: u32) -> Result<()> {
        for Chunk { first_row, matrix } in &self.embedding {
            let io = embed::Io { state: self.ids.state.read(), ids: self.ids.ids.read(), x: x.write(), tokens };
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

    /// Where decode begins. Each norm that is left to the next matvec moves the stream to the other buffer: one a layer half but
    /// for the first, so an odd number, and the last token's stream ends in `x`, where the head looks for it.
    fn stream(&self) -> Stream {
        let Ids { x, x_other, .. } = self.ids;
        match self.defers_norms() {
            true => Stream { x: x_other, other: x, pending: None },
            false => Stream { x, other: x_other, pending: None },
        }
    }

    /// A matvec of the normed residual stream, once what is pending has been added to it.
    fn norm_matvec(
        &self,
        stream: &mut Stream,
        role: Role,
        m: &[Matrix],
        norm: Binding,
        y: Binding,
        epilogue: Epilogue,
    ) -> Result<Dispatch> {
        let pending = stream.pending.take();
        let added = pending.map(|weights| Added { d: self.ids.xn.read(), weights, sum: stream.other.write() });
        let norm = Some((norm, self.architecture.norm_eps));
        let io = matvec::Io { state: self.ids.state.read(), x: stream.x.read(), last_row: false, norm, added, y };
        if added.is_some() {
            std::mem::swap(&mut stream.x, &mut stream.other);
        }
        matvec(self.options.tier, self.tuning.get(role), m, io, epilogue)
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
    fn add_matvec(
        &self,
        r: &mut Recording,
        stream: &mut Stream,
        role: Role,
        m: &[Matrix],
        input: Binding,
        post: Option<Binding>,
    ) -> Result<()> {
        let (y, epilogue) = if post.is_some() { (self.ids.xn.write(), STORE) } else { (stream.x.write(), Epilogue::Residual) };
        let io = matvec::Io { state: self.ids.state.read(), x: input, last_row: false, norm: None, added: None, y };
        r.push(matvec(self.options.tier, self.tuning.get(role), m, io, epilogue)?);
        if self.defers_norms() {
            stream.pending = post;
        } else if let Some(post) = post {
            r.push(self.norm(self.ids.xn.read(), post, stream.x.write(), Into::Add, 1)?);
        }
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
