//! A pass through all blocks as a recording: over one token (decode) or over a chunk of a prompt (prefill). The blocks are
//! written once; [`Pass`] knows what a multiplication takes in either.
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

use super::layer::Linear;
use super::plan::{Chunk, Ids, Plan, Slot};
use crate::error::Result;
use crate::kernels::embed::{self, Rows, embed};
use crate::kernels::matmul::{self, matmul};
use crate::kernels::matvec::{self, Added, Epilogue, matvec};
use crate::kernels::norm::{self, Into, Norm, NormKind, norm};
use crate::kernels::tuning::{MatvecChoice, Role};
use crate::kernels::{Binding, Matrix, Recording};
use crate::tensor::Tier;

pub(super) const STORE: Epilogue = Epilogue::STORE;

/// A recording while it is put together: where the residual stream is, and how a matrix is multiplied.
pub(super) struct Pass<'a> {
    pub plan: &'a Plan,
    pub recording: Recording,
    /// The most tokens of the pass.
    pub tokens: u32,
    /// Decode: the most positions that the sequence has with its token. `None` for a prefill.
    pub positions: Option<u32>,
    /// Where the stream is.
    x: Slot,
    /// Where the next matvec that adds to the stream leaves it.
    other: Slot,
    /// The weights of a norm of `xn` that is still to be added.
    pending: Option<Binding>,
}

impl<'a> Pass<'a> {
    /// Where decode begins. Each norm that is left to the next matvec moves the stream to the other buffer: one a layer half but
    /// for the first, so an odd number, and the last token's stream ends in `x`, where the head looks for it.
    fn decode(plan: &'a Plan, positions: u32) -> Self {
        let Ids { x, x_other, .. } = plan.ids;
        let (x, other) = if plan.defers_norms() { (x_other, x) } else { (x, x_other) };
        Self { plan, recording: Recording::default(), tokens: 1, positions: Some(positions), x, other, pending: None }
    }

    fn prefill(plan: &'a Plan, tokens: u32) -> Self {
        let Ids { x, x_other: other, .. } = plan.ids;
        Self { plan, recording: Recording::default(), tokens, positions: None, x, other, pending: None }
    }

    fn embed(&mut self) -> Result<()> {
        let plan = self.plan;
        for Chunk { first_row, matrix } in &plan.embedding {
            let (state, ids) = (plan.ids.state.read(), plan.ids.ids.read());
            let io = embed::Io { state, ids, rows: Rows::Tokens, add: false, x: self.x.write(), tokens: self.tokens };
            self.recording.push(embed(plan.options.tier, *matrix, *first_row, plan.architecture.embedding_scale, io)?);
        }
        Ok(())
    }

    /// `y = epilogue(m · norm(stream))`
    pub fn normed(&mut self, role: Role, m: &Linear, weights: Binding, y: Slot, epilogue: Epilogue) -> Result<()> {
        if self.positions.is_none() {
            self.norm(self.x.read(), weights, self.plan.ids.xn.write(), Into::Store)?;
            return self.matmul(m, self.plan.ids.xn.read(), y.write(), epilogue);
        }
        let (x, pending) = (self.x, self.pending.take());
        let added = pending.map(|weights| Added { d: self.plan.ids.xn.read(), weights, sum: self.other.write() });
        if added.is_some() {
            std::mem::swap(&mut self.x, &mut self.other);
        }
        self.matvec(role, m, x.read(), Some(weights), added, y.write(), epilogue)
    }

    /// `stream += m · input`, normed first where the family does.
    pub fn add(&mut self, role: Role, m: &Linear, input: Slot, post: Option<Binding>) -> Result<()> {
        let (y, epilogue) = match post {
            Some(_) => (self.plan.ids.xn, STORE),
            None => (self.x, Epilogue::RESIDUAL),
        };
        match self.positions {
            Some(_) => self.matvec(role, m, input.read(), None, None, y.write(), epilogue)?,
            None => self.matmul(m, input.read(), y.write(), epilogue)?,
        }
        match post {
            Some(_) if self.positions.is_some() && self.plan.defers_norms() => self.pending = post,
            Some(weights) => self.norm(self.plan.ids.xn.read(), weights, self.x.write(), Into::Add)?,
            None => {}
        }
        Ok(())
    }

    /// As if a half block had left this norm to be added.
    pub fn pending(&mut self, post: Option<Binding>) {
        if self.plan.defers_norms() {
            self.pending = post;
        }
    }

    fn finish(mut self) -> Result<Recording> {
        if let Some(weights) = self.pending.take() {
            self.norm(self.plan.ids.xn.read(), weights, self.x.write(), Into::Add)?;
        }
        Ok(self.recording)
    }

    #[allow(clippy::too_many_arguments)] // they are the kernel's
    fn matvec(
        &mut self,
        role: Role,
        m: &Linear,
        x: Binding,
        norm: Option<Binding>,
        added: Option<Added>,
        y: Binding,
        epilogue: Epilogue,
    ) -> Result<()> {
        let plan = self.plan;
        let norm = norm.map(|weights| (weights, plan.architecture.norm_eps));
        let io = matvec::Io { state: plan.ids.state.read(), x, last_row: false, norm, bias: None, added, y };
        self.recording.push(matvec(self.tier_of(m), plan.tuning.get(role), &m.matrices, io, epilogue)?);
        Ok(())
    }

    /// The tier in which products are made.
    fn tier_of(&self, m: &Linear) -> Tier {
        let tier = self.plan.options.tier;
        if m.exact { Tier { f16: false, packed_dot: false, ..tier } } else { tier }
    }

    fn matmul(&mut self, m: &Linear, x: Binding, y: Binding, epilogue: Epilogue) -> Result<()> {
        let io = matmul::Io { state: self.plan.ids.state.read(), x, bias: None, y, tokens: self.tokens };
        self.recording.extend(matmul(self.tier_of(m), &m.matrices, io, epilogue)?);
        Ok(())
    }

    fn norm(&mut self, a: Binding, weights: Binding, out: Binding, into: Into) -> Result<()> {
        let (plan, cols) = (self.plan, self.plan.architecture.n_embd);
        let (state, tokens) = (plan.ids.state.read(), self.tokens);
        let io = norm::Io { state, a, weights, bias: None, out, offset: 0, stride: cols, tokens, cols };
        let rms = Norm { kind: NormKind::Rms, eps: plan.architecture.norm_eps };
        self.recording.push(norm(plan.options.tier, io, rms, into)?);
        Ok(())
    }
}

impl Plan {
    /// One token, where the sequence with it has up to `positions` tokens: embedding to the residual stream after the last layer.
    pub fn decode(&self, positions: u32) -> Result<Recording> {
        self.play(Pass::decode(self, positions))
    }

    /// Up to `tokens` tokens (the state says how many): embedding to the residual stream after the last layer.
    pub fn prefill(&self, tokens: u32) -> Result<Recording> {
        self.play(Pass::prefill(self, tokens))
    }

    fn play(&self, mut pass: Pass<'_>) -> Result<Recording> {
        pass.embed()?;
        for layer in &self.layers {
            layer.play(&mut pass)?;
        }
        pass.finish()
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
        let of_layer = self.layers.first().and_then(|layer| layer.linear(role)).map(|linear| linear.matrices.clone());
        let head = || self.head.iter().take(1).map(|chunk| chunk.matrix).collect();
        let matrices: Vec<Matrix> = if role == Role::Head { head() } else { of_layer.unwrap_or_default() };
        matrices.iter().map(|m| m.format.name()).collect::<Vec<_>>().join("+")
    }

    /// The matvecs of one role in the first `layers` layers and nothing else, shared out as `choice` says: what tuning times.
    /// Their results are of no use.
    pub fn matvecs(&self, role: Role, choice: MatvecChoice, layers: usize) -> Result<Recording> {
        let plan = Plan { tuning: self.tuning.with(role, choice), ..self.clone() };
        if role == Role::Head {
            return plan.head();
        }
        let mut pass = Pass::decode(&plan, 1);
        for layer in plan.layers.iter().take(layers) {
            layer.play_role(&mut pass, role)?;
        }
        Ok(pass.recording)
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
                bias: None,
                added: None,
                y,
            };
            let epilogue = Epilogue::Store { softcap: self.architecture.logit_softcap, scale: 1.0 };
            r.push(matvec(self.options.tier, self.tuning.head, &[*matrix], io, epilogue)?);
        }
        Ok(r)
    }
}
