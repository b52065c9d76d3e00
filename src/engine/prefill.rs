//! Prompts on their way into the KV cache: chunk after chunk, each pass cut into submits that a page can paint between.

use std::collections::VecDeque;

use super::cancel::{Cancel, check_cancel, unless_cancelled};
use super::load::Engine;
use super::pace::Flow;
use crate::err;
use crate::error::Result;
use crate::gpu::{Part, Prepared, Readback};
use crate::kernels::state::{self, Done};

/// Answers under way at once: while one's submits run, the next one's wait in the device's queue.
const AHEAD: usize = 2;

/// A prefill under way.
pub(super) struct Prefill {
    pub flow: Flow,
    /// The answers that tell how far the device is, the oldest first.
    readbacks: VecDeque<Readback>,
}

impl Prefill {
    pub fn new() -> Self {
        Self { flow: Flow::new(), readbacks: VecDeque::new() }
    }
}

impl Engine {
    /// Keeps what the cache and the prompt have in common, and gives how many tokens that is. At least one token of the
    /// prompt is computed, since its logits are wanted.
    ///
    /// What recurrent layers remember stands for all tokens of the cache and for no fewer: it is kept where the prompt goes on
    /// behind them. From here on it changes, and until a generation has ended nobody knows what it stands for.
    pub(super) fn keep_prefix(&mut self, ids: &[u32]) -> u32 {
        let common = self.cached.iter().zip(ids).take_while(|(a, b)| a == b).count().min(ids.len() - 1);
        let recurrent = self.architecture().is_recurrent();
        let common = if recurrent && common < self.cached.len() { 0 } else { common };
        let kept = self.kv.rewindable(common as u32);
        self.kv.truncate(kept);
        self.cached.truncate(if recurrent { 0 } else { kept as usize });
        kept
    }

    /// Submits the prompt from `start` on, all chunks but the last, which is left to be played with the head. Gives where
    /// that one starts. Error: `aborted`, with the cache holding the chunks that were submitted whole, and nothing of a recurrent model.
    pub(super) async fn prefill(&mut self, ids: &[u32], start: u32, run: &mut Prefill, cancel: &dyn Cancel) -> Result<u32> {
        let chunk = self.passes.prefill.last().map_or(1, |p| p.0);
        let mut pos = start;
        while ids.len() as u32 - pos > chunk {
            self.begin_pass(&ids[pos as usize..(pos + chunk) as usize], pos)?;
            self.write(self.plan.ids.state.id, 0, &[Done::Running as u32, pos, chunk])?;
            self.feed(&[self.pass(pos, chunk)?], pos + chunk, run, cancel).await?;
            pos += chunk;
            if !self.architecture().is_recurrent() {
                self.cached = ids[..pos as usize].to_vec();
            }
        }
        check_cancel(cancel)?;
        Ok(pos)
    }

    /// Blocks and ids for a pass over `ids`, the first at `pos`.
    pub(super) fn begin_pass(&mut self, ids: &[u32], pos: u32) -> Result<()> {
        self.reserve(pos, pos + ids.len() as u32)?;
        self.write(self.plan.ids.ids.id, 0, ids)
    }

    /// The pass for this many tokens, the first at `pos`.
    pub(super) fn pass(&self, pos: u32, tokens: u32) -> Result<&Prepared> {
        if tokens == 1 && self.architecture().causal {
            return self.passes.decode(pos + 1);
        }
        let fits = self.passes.prefill.iter().find(|p| p.0 >= tokens);
        fits.map(|p| &p.1).ok_or_else(|| err!(Internal, "no pass takes {tokens} tokens"))
    }

    /// Submits recordings whose last token sees `keys` keys, never more at once than the pacer allows, and waits while
    /// enough is under way. Error: `aborted`, between two submits.
    pub(super) async fn feed(&self, recordings: &[&Prepared], keys: u32, run: &mut Prefill, cancel: &dyn Cancel) -> Result<()> {
        let mut work: VecDeque<Part<'_>> = recordings.iter().map(|r| r.whole()).collect();
        while !work.is_empty() {
            let submit = self.next_submit(&mut work, keys, run, cancel)?;
            self.submit_some(&submit, run, cancel).await?;
        }
        Ok(())
    }

    /// As [`Self::feed`], for the end of a prompt: gives the state after the last submit, which is still to come. The
    /// answers to those before it have come.
    pub(super) async fn feed_last(
        &self,
        recordings: &[&Prepared],
        keys: u32,
        run: &mut Prefill,
        cancel: &dyn Cancel,
    ) -> Result<Readback> {
        let mut work: VecDeque<Part<'_>> = recordings.iter().map(|r| r.whole()).collect();
        let mut submit = self.next_submit(&mut work, keys, run, cancel)?;
        while !work.is_empty() {
            self.submit_some(&submit, run, cancel).await?;
            submit = self.next_submit(&mut work, keys, run, cancel)?;
        }
        let last = self.ask(&submit, state::STATE_BYTES, run, cancel).await?;
        self.settle(run, cancel).await?;
        Ok(last)
    }

    /// Waits for all answers that are under way.
    pub(super) async fn settle(&self, run: &mut Prefill, cancel: &dyn Cancel) -> Result<()> {
        self.wait(run, 0, cancel).await
    }

    /// Waits until at most `left` answers are under way.
    async fn wait(&self, run: &mut Prefill, left: usize, cancel: &dyn Cancel) -> Result<()> {
        while run.readbacks.len() > left {
            let Some(oldest) = run.readbacks.pop_front() else { break };
            unless_cancelled(cancel, self.gpu.answer(&self.buffers, oldest)).await?;
            self.answered(run);
        }
        Ok(())
    }

    /// The answer to the oldest submit that was asked for one has come.
    pub(super) fn answered(&self, run: &mut Prefill) {
        self.pacer.borrow_mut().answered(&mut run.flow, self.host.now_ms());
    }

    fn next_submit<'a>(
        &self,
        work: &mut VecDeque<Part<'a>>,
        keys: u32,
        run: &mut Prefill,
        cancel: &dyn Cancel,
    ) -> Result<Vec<Part<'a>>> {
        check_cancel(cancel)?;
        Ok(self.pacer.borrow().cut(work, keys, &mut run.flow))
    }

    async fn submit_some(&self, submit: &[Part<'_>], run: &mut Prefill, cancel: &dyn Cancel) -> Result<()> {
        if !self.pacer.borrow().worth_asking(&run.flow) {
            self.gpu.submit_parts(submit);
            return Ok(());
        }
        self.wait(run, AHEAD - 1, cancel).await?;
        let readback = self.ask(submit, 4, run, cancel).await?;
        run.readbacks.push_back(readback);
        Ok(())
    }

    async fn ask(&self, submit: &[Part<'_>], bytes: u64, run: &mut Prefill, cancel: &dyn Cancel) -> Result<Readback> {
        let reading = self.gpu.submit_reading(submit, &self.buffers, self.plan.ids.state.id, bytes);
        let readback = unless_cancelled(cancel, reading).await?;
        run.flow.asked(self.host.now_ms());
        Ok(readback)
    }
}
