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
//! decode on a GPU that norm is the next matvec's to do; only the last one is a dispatch. LayerNorms are dispatches in decode, too.

use super::layer::{Linear, NormWeights, Norms};
use super::lora::Side;
use super::plan::{Chunk, Ids, Plan, Slot};
use crate::error::Result;
use crate::kernels::embed::{self, Rows, embed};
use crate::kernels::gate;
use crate::kernels::matmul::{self, matmul};
use crate::kernels::matvec::{self, Added, Epilogue, matvec};
use crate::kernels::norm::{self, Into, Norm, NormKind, norm};
use crate::kernels::tuning::{MatvecChoice, Role};
use crate::kernels::{Binding, Matrix, Recording};
use crate::tensor::Tier;

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
    /// The norm of `xn` that is still to be added.
    pending: Option<NormWeights>,
    /// Whose result on the stream, as it is now, lies in `xn`: a parallel residual with one norm norms once.
    in_xn: Option<NormWeights>,
}

impl<'a> Pass<'a> {
    /// Where decode begins. Each norm that is left to the next matvec moves the stream to the other buffer: one a layer half but
    /// for the first, so an odd number, and the last token's stream ends in `x`, where the head looks for it.
    fn decode(plan: &'a Plan, positions: u32) -> Self {
        let Ids { x, x_other, .. } = plan.ids;
        let (x, other) = if plan.defers_norms() { (x_other, x) } else { (x, x_other) };
        Self {
            plan,
            recording: Recording::default(),
            tokens: 1,
            positions: Some(positions),
            x,
            other,
            pending: None,
            in_xn: None,
        }
    }

    fn prefill(plan: &'a Plan, tokens: u32) -> Self {
        let Ids { x, x_other: other, .. } = plan.ids;
        Self { plan, recording: Recording::default(), tokens, positions: None, x, other, pending: None, in_xn: None }
    }

    fn embed(&mut self) -> Result<()> {
        let plan = self.plan;
        let tokens = plan.embedding.iter().map(|chunk| (chunk, Rows::Tokens, plan.architecture.embedding_scale));
        let positions = plan.positions.iter().map(|chunk| (chunk, Rows::Positions, 1.0));
        let types = plan.types.iter().take(1).map(|chunk| (chunk, Rows::First, 1.0));
        for (Chunk { first_row, matrix }, rows, scale) in tokens.chain(positions).chain(types) {
            let (state, ids, add) = (plan.ids.state.read(), plan.ids.ids.read(), rows != Rows::Tokens);
            let io = embed::Io { state, ids, rows, add, x: self.x.write(), tokens: self.tokens };
            self.recording.push(embed(plan.options.tier, *matrix, *first_row, scale, io)?);
        }
        match &plan.embedding_norm {
            Some(norm) => self.norm_within(self.x, plan.architecture.n_embd, 0, plan.architecture.n_embd, norm),
            None => Ok(()),
        }
    }

    /// `y = epilogue(m · norm(stream))`. Decode leaves an RMS norm to the matvec.
    pub fn normed(&mut self, role: Role, m: &Linear, norms: &Norms, y: Slot, epilogue: Epilogue) -> Result<()> {
        let sides = self.plan.sides(m);
        if !sides.is_empty() {
            return self.normed_with_sides(role, m, norms, y, epilogue, &sides);
        }
        let folds = self.positions.is_some() && self.plan.architecture.norm.kind == NormKind::Rms && self.in_xn.is_none();
        let Some(norm) = norms.before.filter(|_| folds) else {
            let x = self.normed_input(norms)?;
            return self.multiply(role, m, x, y, epilogue);
        };
        let (x, pending) = (self.x, self.pending.take());
        let added = pending.map(|n| Added { d: self.plan.ids.xn.read(), weights: n.weights, sum: self.other.write() });
        if added.is_some() {
            std::mem::swap(&mut self.x, &mut self.other);
        }
        self.matvec(role, m, x.read(), Some(norm.weights), added, y.write(), epilogue)
    }

    /// As [`Self::normed`], with what adapters add. What comes before an activation must be whole first.
    fn normed_with_sides(
        &mut self,
        role: Role,
        m: &Linear,
        norms: &Norms,
        y: Slot,
        epilogue: Epilogue,
        sides: &[(Side, f32)],
    ) -> Result<()> {
        let x = self.normed_input(norms)?;
        let (activation, gated) = match epilogue {
            Epilogue::Gated(activation) => (activation, true),
            Epilogue::Activated(activation) => (activation, false),
            _ => {
                self.multiply(role, m, x, y, epilogue)?;
                return self.sides(role, sides, x, y, 1.0);
            }
        };
        let products = self.plan.ids.wide;
        self.multiply(role, m, x, products, Epilogue::STORE)?;
        self.sides(role, sides, x, products, 1.0)?;
        let cols = m.matrices[0].rows;
        let stride: u32 = m.matrices.iter().map(|m| m.rows).sum();
        let rows = |offset| gate::Rows { binding: products.read(), offset, stride };
        let (state, out) = (self.plan.ids.state.read(), gate::Rows { binding: y.write(), offset: 0, stride: cols });
        let io = gate::Io { state, gate: rows(0), value: gated.then(|| rows(cols)), out, tokens: self.tokens, cols };
        self.recording.push(if gated { gate::gate(activation, io) } else { gate::activate(activation, io) }?);
        Ok(())
    }

    /// `y += scale · B · A · x` for each adapter.
    fn sides(&mut self, role: Role, sides: &[(Side, f32)], x: Slot, y: Slot, scale: f32) -> Result<()> {
        for (Side { a, b }, own) in sides {
            let low = self.plan.ids.low_rank;
            self.multiply(role, a, x, low, Epilogue::STORE)?;
            self.multiply(role, b, low, y, Epilogue::Residual { scale: scale * own })?;
        }
        Ok(())
    }

    /// What a kernel reads that can norm its input: in decode the stream and its RMS norm, else the normed stream.
    pub fn input(&mut self, norms: &Norms) -> Result<(Slot, Option<(Binding, f32)>)> {
        self.settle()?;
        let Norm { kind, eps } = self.plan.architecture.norm;
        let folds = self.positions.is_some() && kind == NormKind::Rms && self.in_xn.is_none();
        match norms.before.filter(|_| folds) {
            Some(norm) => Ok((self.x, Some((norm.weights, eps)))),
            None => Ok((self.normed_input(norms)?, None)),
        }
    }

    /// Where the stream is.
    pub fn stream(&self) -> Slot {
        self.x
    }

    /// Where the normed stream lies, for whatever reads it as it is. Within a block it is normed once.
    pub fn normed_input(&mut self, norms: &Norms) -> Result<Slot> {
        self.settle()?;
        let Some(norm) = norms.before else { return Ok(self.x) };
        if self.in_xn != Some(norm) {
            self.norm(self.x.read(), &norm, self.plan.ids.xn.write(), Into::Store)?;
            self.in_xn = Some(norm);
        }
        Ok(self.plan.ids.xn)
    }

    /// `stream += m · input`, with the norms that the family has around it.
    pub fn add(&mut self, role: Role, m: &Linear, input: Slot, norms: &Norms) -> Result<()> {
        let (y, epilogue) = match norms.added {
            Some(_) => (self.plan.ids.xn, Epilogue::STORE),
            None => (self.x, Epilogue::Residual { scale: self.plan.architecture.residual_scale }),
        };
        self.multiply(role, m, input, y, epilogue)?;
        let scale = if norms.added.is_some() { 1.0 } else { self.plan.architecture.residual_scale };
        self.sides(role, &self.plan.sides(m), input, y, scale)?;
        self.added(norms)
    }

    /// What is left to do when a half's result is in the stream, or in `xn` where it is normed before it is added.
    pub fn added(&mut self, norms: &Norms) -> Result<()> {
        self.in_xn = None;
        match norms.added {
            Some(norm) if self.positions.is_some() && self.plan.defers_norms() => self.pending = Some(norm),
            Some(norm) => self.norm(self.plan.ids.xn.read(), &norm, self.x.write(), Into::Add)?,
            None => {}
        }
        match norms.after {
            Some(norm) => self.norm_within(self.x, self.plan.architecture.n_embd, 0, self.plan.architecture.n_embd, &norm),
            None => Ok(()),
        }
    }

    /// As if a half block had left its norm to be added.
    pub fn pending(&mut self, norms: &Norms) {
        if self.plan.defers_norms() {
            self.pending = norms.added;
        }
    }

    /// Adds what is pending by a dispatch of its own.
    fn settle(&mut self) -> Result<()> {
        match self.pending.take() {
            Some(norm) => self.norm(self.plan.ids.xn.read(), &norm, self.x.write(), Into::Add),
            None => Ok(()),
        }
    }

    /// The stream as the head reads it: normed already, unless the head's matvec does that.
    fn finish(mut self) -> Result<Recording> {
        self.settle()?;
        if let Some(norm) = self.plan.output_norm.filter(|_| !self.plan.head_norms()) {
            self.norm(self.x.read(), &norm, self.plan.ids.xn.write(), Into::Store)?;
        }
        Ok(self.recording)
    }

    /// `y = epilogue(m · x)`
    pub fn multiply(&mut self, role: Role, m: &Linear, x: Slot, y: Slot, epilogue: Epilogue) -> Result<()> {
        if self.positions.is_some() {
            return self.matvec(role, m, x.read(), None, None, y.write(), epilogue);
        }
        let io = matmul::Io { state: self.plan.ids.state.read(), x: x.read(), bias: m.bias, y: y.write(), tokens: self.tokens };
        self.recording.extend(matmul(self.tier_of(m), &m.matrices, io, epilogue)?);
        Ok(())
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
        let norm = norm.map(|weights| (weights, plan.architecture.norm.eps));
        let io = matvec::Io { state: plan.ids.state.read(), x, last_row: false, norm, bias: m.bias, added, y };
        self.recording.push(matvec(self.tier_of(m), plan.tuning.get(role), &m.matrices, io, epilogue)?);
        Ok(())
    }

    /// The tier in which products are made.
    fn tier_of(&self, m: &Linear) -> Tier {
        let tier = self.plan.options.tier;
        if m.exact { Tier { f16: false, packed_dot: false, ..tier } } else { tier }
    }

    fn norm(&mut self, a: Binding, norm: &NormWeights, out: Binding, into: Into) -> Result<()> {
        let cols = self.plan.architecture.n_embd;
        self.norm_rows(a, norm, out, (cols, 0, cols), into)
    }

    /// Norms `len` numbers in place, from `offset` on in each row of `stride`.
    pub fn norm_within(&mut self, rows: Slot, stride: u32, offset: u32, len: u32, norm: &NormWeights) -> Result<()> {
        self.norm_rows(rows.read(), norm, rows.write(), (stride, offset, len), Into::InPlace)
    }

    fn norm_rows(&mut self, a: Binding, n: &NormWeights, out: Binding, row: (u32, u32, u32), into: Into) -> Result<()> {
        let (plan, tokens) = (self.plan, self.tokens);
        let (stride, offset, cols) = row;
        let NormWeights { weights, bias } = *n;
        let io = norm::Io { state: plan.ids.state.read(), a, weights, bias, out, offset, stride, tokens, cols };
        self.recording.push(norm(plan.options.tier, io, plan.architecture.norm, into)?);
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

    /// Whether the head's matvec norms the stream itself.
    fn head_norms(&self) -> bool {
        self.architecture.norm.kind == NormKind::Rms && self.output_norm.is_some()
    }

    /// What the last layer made of every token of the pass before, normed as the head reads it, into [`Self::hidden`].
    pub fn final_norm(&self) -> Result<Recording> {
        let mut pass = Pass::prefill(self, self.options.max_prefill);
        if let Some(norm) = self.output_norm.filter(|_| self.head_norms()) {
            pass.norm(self.ids.x.read(), &norm, self.ids.xn.write(), Into::Store)?;
        }
        Ok(pass.recording)
    }

    /// Where [`Self::final_norm`] leaves f32\[tokens, n_embd\].
    pub fn hidden(&self) -> Slot {
        if self.output_norm.is_some() { self.ids.xn } else { self.ids.x }
    }

    /// The last token's logits.
    pub fn head(&self) -> Result<Recording> {
        let a = &self.architecture;
        let folded = self.output_norm.filter(|_| self.head_norms());
        let mut r = Recording::default();
        for Chunk { first_row, matrix } in &self.head {
            let span =
                |b: Binding| Binding { offset: b.offset + u64::from(*first_row) * 4, bytes: u64::from(matrix.rows) * 4, ..b };
            let io = matvec::Io {
                state: self.ids.state.read(),
                x: if folded.is_some() { self.ids.x.read() } else { self.hidden().read() },
                last_row: true,
                norm: folded.map(|norm| (norm.weights, a.norm.eps)),
                bias: self.head_bias.map(span),
                added: None,
                y: span(self.ids.logits.write()),
            };
            let epilogue = Epilogue::Store { softcap: a.logit_softcap, scale: a.logit_scale };
            r.push(matvec(self.options.tier, self.tuning.head, &[*matrix], io, epilogue)?);
        }
        Ok(r)
    }
}
