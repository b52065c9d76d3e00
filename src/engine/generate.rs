//! The token loop: prefill what the cache does not hold, then groups of decode steps, each group one submit and one
//! readback, the sampled token fed to the next step on the device. While one group runs, the next is submitted already;
//! where the sampler has stopped, its kernels see that and do nothing.

use std::collections::VecDeque;

use serde::Serialize;

use super::cancel::{Cancel, unless_cancelled};
use super::load::Engine;
use super::options::{GenerateOptions, Prompt};
use super::pace::{GROUPS, GroupSize};
use super::prefill::Prefill;
use crate::err;
use crate::error::{Code, Result};
use crate::gpu::{Counters, Part, Readback};
use crate::kernels::BufferId;
use crate::kernels::state::{self, CpuStep, Done, Request};
use crate::sample::{CpuSampler, Mode, Plan as SamplingPlan};
use crate::text::{DateTime, EncodeOptions, RenderOptions, StopMatcher, StreamDecoder, Tokenizer};

/// One sampled token, as it is delivered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TokenEvent {
    /// The token.
    pub id: u32,
    /// The text that it completes: whole characters only, so it may be empty.
    pub text: String,
    /// Natural logarithm of its probability under the model's own distribution.
    pub logprob: f32,
    /// Its place in the answer, from 0.
    pub index: u32,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    /// An end-of-generation token.
    Stop,
    /// `maxTokens`, or the end of the context.
    Length,
    /// A stop string.
    StopString,
    /// The caller aborted.
    Aborted,
}

/// Tokens counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Of the prompt.
    pub prompt_tokens: u32,
    /// Delivered.
    pub completion_tokens: u32,
    /// Of the prompt, those whose keys and values were still in the cache.
    pub cached_tokens: u32,
}

/// How long things took, by the host's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timings {
    /// Loading the model.
    pub load_ms: f64,
    /// From the call, before the prompt is tokenised, to the first token.
    pub ttft_ms: f64,
    /// Prompt tokens computed per second.
    pub prefill_tps: f64,
    /// Tokens per second after the first.
    pub decode_tps: f64,
    /// Submits that the prompt was computed in.
    pub prefill_submits: u32,
    /// Milliseconds of the longest of them, among those whose size was chosen by measured times. `None` where the prompt was
    /// too short to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_submit_ms: Option<f64>,
}

/// The result of a generation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Generated {
    /// The answer.
    pub text: String,
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub finish_reason: Finish,
    /// Tokens counted.
    pub usage: Usage,
    /// Times.
    pub timings: Timings,
    /// What the tokens after the first cost the device.
    #[serde(skip)]
    pub decode_cost: Counters,
}

impl Engine {
    /// The prompt's token ids.
    ///
    /// # Errors
    /// `bad-option` for ids beyond the vocabulary or an empty prompt, `bad-template` where the model has no template or
    /// it fails.
    pub fn encode_prompt(&self, prompt: &Prompt, options: &GenerateOptions) -> Result<Vec<u32>> {
        let ids = match prompt {
            Prompt::Ids(ids) => ids.clone(),
            Prompt::Text(text) => {
                let how = EncodeOptions { parse_special: options.parse_special, add_bos: true, add_eos: false };
                self.tokenizer().encode(text, how)?
            }
            Prompt::Messages(messages) => {
                let text = self.render(messages, options, true)?;
                // Templates write the beginning-of-sequence token themselves, or leave it to the tokenizer.
                let bos = self.tokenizer().bos().and_then(|id| self.tokenizer().token_text(id));
                let add_bos = !bos.is_some_and(|bos| text.starts_with(bos));
                self.tokenizer().encode(&text, EncodeOptions { parse_special: true, add_bos, add_eos: false })?
            }
        };
        if ids.is_empty() {
            return Err(err!(BadOption, "prompt: expected at least one token, found none"));
        }
        let n_vocab = self.architecture().n_vocab;
        if let Some(id) = ids.iter().find(|id| **id >= n_vocab) {
            return Err(err!(BadOption, "prompt: expected token ids below {n_vocab}, found {id}"));
        }
        Ok(ids)
    }

    /// A conversation as the model's template writes it.
    pub fn render(&self, messages: &minijinja::Value, options: &GenerateOptions, add_generation_prompt: bool) -> Result<String> {
        let render = RenderOptions {
            tools: options.tools.clone(),
            variables: options.template_vars.clone().unwrap_or(minijinja::Value::UNDEFINED),
            add_generation_prompt,
            now: DateTime::from_unix(self.host.unix_seconds()),
        };
        self.words().render(messages, &render)
    }

    /// Continues a prompt, calling `on_token` for each token in order.
    ///
    /// # Errors
    /// `unsupported-architecture` for a model that does not generate, `bad-option`, `bad-template`, `context-overflow` where the prompt alone does not fit, and what the device fails
    /// with. Aborting is no error: the result says so. It comes at once where `cancel` can wake (see [`Cancel`]); what the
    /// device was given by then is played to its end before the next call's work, and is seen by nobody.
    pub async fn generate(
        &mut self,
        prompt: &Prompt,
        options: &GenerateOptions,
        on_token: &mut dyn FnMut(TokenEvent),
        cancel: &dyn Cancel,
    ) -> Result<Generated> {
        let called = self.host.now_ms();
        self.must_generate()?;
        options.validate(self.architecture().n_vocab as usize)?;
        let ids = self.encode_prompt(prompt, options)?;
        let context = self.kv.context_length();
        if ids.len() as u64 + 1 > u64::from(context) {
            return Err(err!(
                ContextOverflow,
                "the prompt has {} tokens, the context holds {context}, and an answer needs at least one of them: shorten the prompt \
                 or load the model with a larger contextLength",
                ids.len()
            ));
        }
        self.choose_adapters(&options.adapters).await?;
        // Whatever goes wrong, what the cache holds is then unknown.
        let result = self.run(&ids, options, on_token, cancel, called).await;
        self.settled(result)
    }

    /// The result; a failure empties the cache, and what is in it is wiped: where it is no number, a kernel that multiplies a key out of
    /// sight with zero would see it.
    pub(super) fn settled<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.forget();
            self.gpu.clear(&self.buffers, self.plan.caches())?;
        }
        result
    }

    /// Empties the cache.
    pub(super) fn forget(&mut self) {
        self.cached.clear();
        self.kv.truncate(0);
    }

    async fn run(
        &mut self,
        ids: &[u32],
        options: &GenerateOptions,
        on_token: &mut dyn FnMut(TokenEvent),
        cancel: &dyn Cancel,
        called: f64,
    ) -> Result<Generated> {
        let started = self.host.now_ms();
        let n_vocab = self.architecture().n_vocab;
        let sampler = CpuSampler::new(options.sampling.clone(), n_vocab as usize, self.host.entropy())?;
        let room = self.kv.context_length() - ids.len() as u32;
        let end_ids = if options.ignore_eos { Vec::new() } else { self.tokenizer().end_of_generation().to_vec() };
        let mut request = Request {
            pos: 0,
            n_tokens: 0,
            step: 0,
            remaining: options.max_tokens.unwrap_or(u32::MAX).min(room),
            prompt_len: ids.len() as u32,
            options: &options.sampling,
            plan: SamplingPlan::new(&options.sampling, n_vocab),
            seed: sampler.seed(),
            end_ids: &end_ids,
        };
        self.write_history(ids, &request)?;
        let cached = self.keep_prefix(ids);
        let mut answer = Answer::new(ids, options)?;

        let mut prompt = Prefill::new();
        let first_group = match self.prompt(ids, cached, &mut request, &mut prompt, cancel).await {
            Ok(readback) => readback,
            Err(e) if e.code == Code::Aborted => {
                let timings = Timings { load_ms: self.load_ms, prefill_submits: prompt.flow.submits, ..Default::default() };
                return Ok(answer.finish(Finish::Aborted, cached, timings, on_token));
            }
            Err(e) => return Err(e),
        };

        let counted = self.gpu.counters();
        let mut flying = VecDeque::from([first_group]);
        let mut submitted = 1; // steps; the first is the prompt's own
        let mut size = GroupSize::new(self.latency_ms);
        let mut ahead = if request.plan.mode == Mode::Cpu { 1 } else { GROUPS };
        let mut first = None;
        // Whether the device has played no token but those before the last that is taken.
        let mut exact = false;
        let finish = loop {
            while flying.len() < ahead && submitted < request.remaining {
                let steps = size.steps().min(request.remaining - submitted);
                // The last token's own keys and values come with the next step.
                let pos = request.prompt_len + submitted - 1;
                self.reserve(pos, pos + steps)?;
                flying.push_back(self.submit_group(pos, steps).await?);
                submitted += steps;
            }
            let Some(group) = flying.pop_front() else { break Finish::Length };
            let words = match unless_cancelled(cancel, self.state_of(group)).await {
                Err(e) if e.code == Code::Aborted => {
                    exact = false;
                    break Finish::Aborted;
                }
                other => other?,
            };
            let now = self.host.now_ms();
            if first.is_none() {
                first = Some(now);
                self.answered(&mut prompt);
            }
            let mut stopped = answer.take_all(&words, self.tokenizer(), &end_ids, on_token);
            size.answered(now, answer.taken);
            let mut done = Done::from_word(words[state::DONE]);
            // Groups behind one that has stopped do nothing; a step left to the CPU has been played.
            let ended = matches!(done, Done::End | Done::Length);
            exact = answer.taken == words[state::STEP] && (ended || (done == Done::Running && flying.is_empty()));
            let on_cpu = done == Done::Cpu && !stopped;
            if on_cpu {
                // The groups behind this one did nothing; the next step may well be the CPU's again.
                flying.clear();
                size.restart();
                let (token, after) = self.sample_on_cpu(&words, &sampler, &answer.history, &request).await?;
                stopped = answer.take(token, self.tokenizer(), &end_ids, on_token);
                submitted = answer.taken;
                done = after;
                exact = true;
            }
            ahead = if on_cpu { 1 } else { GROUPS };
            match done {
                _ if stopped => break Finish::StopString,
                Done::End => break Finish::Stop,
                Done::Length => break Finish::Length,
                Done::Running | Done::Cpu => {}
            }
        };
        let ended = self.host.now_ms();
        let first = first.unwrap_or(ended);
        let rate = |tokens: u32, ms: f64| if ms > 0.0 { f64::from(tokens) * 1000.0 / ms } else { 0.0 };
        let timings = Timings {
            load_ms: self.load_ms,
            ttft_ms: first - called,
            prefill_tps: rate(ids.len() as u32 - cached, first - started),
            decode_tps: rate(answer.taken.saturating_sub(1), ended - first),
            prefill_submits: prompt.flow.submits,
            longest_submit_ms: prompt.flow.longest_ms,
        };
        // Steps that were played and not taken are forgotten. Recurrent layers cannot: they forget all.
        answer.history.pop();
        if exact || !self.architecture().is_recurrent() {
            self.cached.clone_from(&answer.history);
        }
        self.kv.truncate(self.cached.len() as u32);
        let mut generated = answer.finish(finish, cached, timings, on_token);
        generated.decode_cost = self.gpu.counters().since(counted);
        Ok(generated)
    }

    /// Submits what of the prompt is not cached, with its first token's sampling, whose answer is still to come.
    async fn prompt(
        &mut self,
        ids: &[u32],
        cached: u32,
        request: &mut Request<'_>,
        run: &mut Prefill,
        cancel: &dyn Cancel,
    ) -> Result<Readback> {
        let last = self.prefill(ids, cached, run, cancel).await?;
        request.pos = last;
        request.n_tokens = ids.len() as u32 - last;
        self.begin_pass(&ids[last as usize..], last)?;
        self.write(self.plan.ids.state.id, 0, &request.header()?)?;
        let passes = [self.pass(last, request.n_tokens)?, &self.passes.head, &self.passes.sample];
        self.feed_last(&passes, ids.len() as u32, run, cancel).await
    }

    /// Submits decode steps, the first at `pos`.
    async fn submit_group(&self, pos: u32, steps: u32) -> Result<Readback> {
        let step = [self.passes.decode(pos + steps)?, &self.passes.head, &self.passes.sample];
        let parts: Vec<Part<'_>> = step.iter().map(|r| r.whole()).cycle().take(steps as usize * step.len()).collect();
        self.gpu.submit_reading(&parts, &self.buffers, self.plan.ids.state.id, state::STATE_BYTES).await
    }

    /// The state that a group left behind.
    async fn state_of(&self, group: Readback) -> Result<Vec<u32>> {
        let words: Vec<u32> = bytemuck::pod_collect_to_vec(&self.gpu.answer(&self.buffers, group).await?);
        if words.len() < state::STATE_WORDS {
            return Err(err!(Internal, "expected {} words of state, found {}", state::STATE_WORDS, words.len()));
        }
        Ok(words)
    }

    /// Writes words into a buffer, `at` words from its start.
    pub(super) fn write(&self, buffer: BufferId, at: usize, words: &[u32]) -> Result<()> {
        self.gpu.write(&self.buffers, buffer, at as u64 * 4, bytemuck::cast_slice(words))
    }

    /// Blocks for positions `start..end`.
    pub(super) fn reserve(&mut self, start: u32, end: u32) -> Result<()> {
        for (group, table) in self.kv.reserve(start, end)? {
            self.write(self.plan.groups[group].table.id, 0, &table)?;
        }
        Ok(())
    }

    /// What the sampler must know of the tokens before the first step.
    fn write_history(&self, ids: &[u32], request: &Request<'_>) -> Result<()> {
        let (n_vocab, at) = (self.architecture().n_vocab, &self.plan.ids);
        if request.plan.penalties {
            self.write(at.counts.id, 0, &state::counts(request.options, ids, n_vocab))?;
            self.write(at.ring.id, 0, &state::ring(ids))?;
        }
        if !request.options.logit_bias.is_empty() {
            self.gpu.write(&self.buffers, at.bias.id, 0, bytemuck::cast_slice(&state::dense_bias(request.options, n_vocab)))?;
        }
        Ok(())
    }

    /// Samples the step that the device left to the CPU, and tells the device.
    async fn sample_on_cpu(
        &self,
        words: &[u32],
        sampler: &CpuSampler,
        history: &[u32],
        request: &Request<'_>,
    ) -> Result<(Sampled, Done)> {
        let at = &self.plan.ids;
        let logits = self.read_logits().await?;
        let drawn = sampler.draw(&logits, history, words[state::STEP])?;
        let step = CpuStep::new(words, drawn.token, drawn.logprob, history, request)?;
        self.write(at.state.id, 0, &step.header)?;
        self.write(at.ids.id, 0, &[step.token])?;
        if request.plan.penalties {
            self.write(at.ring.id, step.ring.0, &[step.ring.1])?;
        }
        for (token, count) in step.counts {
            self.write(at.counts.id, token as usize, &[count])?;
        }
        Ok((Sampled { id: drawn.token, logprob: drawn.logprob }, Done::from_word(step.header[state::DONE])))
    }

    /// The last token's logits. Error: `bad-file` where they are no numbers, which sound weights do not give.
    pub(super) async fn read_logits(&self) -> Result<Vec<f32>> {
        let bytes = u64::from(self.architecture().n_vocab) * 4;
        let bytes = self.gpu.read(&self.buffers, self.plan.ids.logits.id, 0, bytes).await?;
        let logits: Vec<f32> = bytemuck::pod_collect_to_vec(&bytes);
        if let Some(id) = logits.iter().position(|logit| logit.is_nan() || *logit == f32::INFINITY) {
            return Err(err!(
                BadFile,
                "expected finite logits, found {} for token {id}: the weights are damaged{}; load the file again from its source",
                logits[id],
                if self.plan.chosen_adapters().is_empty() { "" } else { ", or those of an adapter" }
            ));
        }
        Ok(logits)
    }
}

struct Sampled {
    id: u32,
    logprob: f32,
}

/// The answer as it grows.
struct Answer {
    /// Prompt and sampled tokens.
    history: Vec<u32>,
    prompt_len: u32,
    /// Steps taken from the device.
    taken: u32,
    tokens: Vec<u32>,
    text: String,
    decoder: StreamDecoder,
    stops: StopMatcher,
    /// The last token, held back while some of its text is: that text may still come, and each token is delivered once.
    pending: Option<TokenEvent>,
}

impl Answer {
    fn new(ids: &[u32], options: &GenerateOptions) -> Result<Self> {
        Ok(Self {
            history: ids.to_vec(),
            prompt_len: ids.len() as u32,
            taken: 0,
            tokens: Vec::new(),
            text: String::new(),
            decoder: StreamDecoder::new(false, true),
            stops: StopMatcher::new(options.stop.clone())?,
            pending: None,
        })
    }

    /// Takes the steps that a readback brought. True where a stop string is complete.
    fn take_all(&mut self, words: &[u32], tokenizer: &Tokenizer, end_ids: &[u32], on_token: &mut dyn FnMut(TokenEvent)) -> bool {
        for step in self.taken..words[state::STEP] {
            let at = state::OUT + 2 * (step as usize % state::OUT_LEN);
            let token = Sampled { id: words[at], logprob: f32::from_bits(words[at + 1]) };
            if self.take(token, tokenizer, end_ids, on_token) {
                return true;
            }
        }
        false
    }

    fn take(&mut self, token: Sampled, tokenizer: &Tokenizer, end_ids: &[u32], on_token: &mut dyn FnMut(TokenEvent)) -> bool {
        self.history.push(token.id);
        self.taken += 1;
        if end_ids.contains(&token.id) {
            return false;
        }
        if let Some(event) = self.pending.take() {
            on_token(event);
        }
        let index = self.tokens.len() as u32;
        self.tokens.push(token.id);
        let matched = self.stops.push(&self.decoder.push(tokenizer, token.id));
        self.text.push_str(&matched.emit);
        let event = TokenEvent { id: token.id, text: matched.emit, logprob: token.logprob, index };
        if self.decoder.is_holding() || self.stops.is_holding() {
            self.pending = Some(event);
        } else {
            on_token(event);
        }
        matched.stopped
    }

    fn finish(mut self, finish: Finish, cached: u32, timings: Timings, on_token: &mut dyn FnMut(TokenEvent)) -> Generated {
        let mut rest = self.stops.push(&self.decoder.finish()).emit;
        rest.push_str(&self.stops.finish());
        self.text.push_str(&rest);
        if let Some(mut event) = self.pending.take() {
            event.text.push_str(&rest);
            on_token(event);
        }
        let usage = Usage { prompt_tokens: self.prompt_len, completion_tokens: self.tokens.len() as u32, cached_tokens: cached };
        Generated {
            text: self.text,
            tokens: self.tokens,
            finish_reason: finish,
            usage,
            timings,
            decode_cost: Counters::default(),
        }
    }
}
