//! A loaded model.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::*;

use super::compiler::JsCompiler;
use super::convert;
use super::info::ModelInfo;
use super::source::{self, AbortFlag, BrowserHost, JsModelFiles};
use crate::engine::{self, Engine, GenerateOptions, Host, LoadOptions, LoadPhases, Prompt, Words};
use crate::err;
use crate::error::Result;
use crate::gpu::{Gpu, GpuOptions};
use crate::text::{DateTime, EncodeOptions, RenderOptions, Value};

/// What exported functions return: an error is a JS `Error` with a `code`.
pub(super) type JsResult<T> = std::result::Result<T, JsValue>;

/// A model on a device. It generates one answer at a time: a call while another is under way is refused. Texts are counted
/// and rendered meanwhile.
#[wasm_bindgen]
pub struct Model {
    /// Taken out while a call uses it, so that nothing is ever borrowed twice.
    engine: Cell<Option<Engine>>,
    /// Shared with the engine: texts are counted and rendered while it is busy.
    words: Rc<Words>,
    /// Whether `dispose` was called; a call under way then drops the engine instead of putting it back.
    disposed: Cell<bool>,
    /// Ends the call under way.
    running: RefCell<engine::AbortFlag>,
    info: JsValue,
}

/// The options of `load` that choose the device; the others are the engine's.
const DEVICE_OPTIONS: [&str; 2] = ["tier", "subgroups"];

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct DeviceOptions {
    tier: Option<String>,
    subgroups: bool,
}

impl From<DeviceOptions> for GpuOptions {
    fn from(device: DeviceOptions) -> Self {
        Self { tier: device.tier, browser_subgroups: device.subgroups, ..Self::default() }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct TokenizeOptions {
    add_bos: bool,
    parse_special: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct DetokenizeOptions {
    skip_special: bool,
}

impl Default for DetokenizeOptions {
    fn default() -> Self {
        Self { skip_special: true }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct TemplateOptions {
    tools: Option<Value>,
    vars: Option<Value>,
    add_generation_prompt: bool,
}

impl Default for TemplateOptions {
    fn default() -> Self {
        Self { tools: None, vars: None, add_generation_prompt: true }
    }
}

/// See `LoadedModelInfo` in `www/sdk/src/types.ts`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Loaded<'a> {
    #[serde(flatten)]
    header: ModelInfo,
    device: Device<'a>,
    loaded_context_length: u32,
    load_phases: LoadPhases,
    tuning: &'a Option<engine::TuningReport>,
    kv_type: crate::kernels::attention::KvType,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Device<'a> {
    adapter: &'a str,
    tier: &'a str,
    memory_bytes: u64,
}

/// Splits an options object: the device's, and the rest.
pub(super) fn split(options: &js_sys::Object) -> Result<(JsValue, JsValue)> {
    let (device, rest) = (js_sys::Object::new(), js_sys::Object::new());
    for entry in js_sys::Object::entries(options).iter() {
        let entry: js_sys::Array = entry.unchecked_into();
        let name = entry.get(0);
        let of_device = name.as_string().is_some_and(|name| DEVICE_OPTIONS.contains(&name.as_str()));
        let target = if of_device { &device } else { &rest };
        js_sys::Reflect::set(target, &name, &entry.get(1)).map_err(|_| err!(BadOption, "load: the options cannot be read"))?;
    }
    Ok((device.into(), rest.into()))
}

/// A string, ids, or messages.
fn prompt(value: JsValue) -> Result<Prompt> {
    if let Some(text) = value.as_string() {
        return Ok(Prompt::Text(text));
    }
    match value.dyn_into::<js_sys::Uint32Array>() {
        Ok(ids) => Ok(Prompt::Ids(ids.to_vec())),
        Err(messages) => Ok(Prompt::Messages(convert::value("messages", messages)?)),
    }
}

#[wasm_bindgen]
impl Model {
    /// Loads a model onto a device. `on_progress({phase, loaded, total})` is called as it advances.
    pub async fn load(
        files: JsModelFiles,
        options: js_sys::Object,
        on_progress: js_sys::Function,
        abort: &AbortFlag,
        compiler: JsCompiler,
    ) -> JsResult<Model> {
        Self::load_now(files, &options, &on_progress, &abort.watch(), compiler).await.map_err(convert::error)
    }

    /// What was loaded, and onto what.
    pub fn info(&self) -> JsValue {
        self.info.clone()
    }

    /// Continues a prompt: a string, a Uint32Array of ids or an array of messages. `on_token({id, text, logprob, index})` is
    /// called for each token in order; what it throws is not seen here. An abort is no error: the result says so.
    pub async fn generate(
        &self,
        prompt: JsValue,
        options: JsValue,
        on_token: js_sys::Function,
        abort: &AbortFlag,
    ) -> JsResult<JsValue> {
        let cancel = abort.watch();
        let generated = self.generate_now(prompt, options, &on_token, &cancel).await.map_err(convert::error)?;
        convert::to_js(&generated)
    }

    /// The vector of a text, a Float32Array. Options: `pooling`, `normalize` (true), `dimensions`.
    pub async fn embed(&self, text: String, options: JsValue, abort: &AbortFlag) -> JsResult<js_sys::Float32Array> {
        let vector = self.embed_now(&text, options, &abort.watch()).await.map_err(convert::error)?;
        Ok(js_sys::Float32Array::from(vector.as_slice()))
    }

    /// Puts a LoRA adapter on the device; `generate`'s option `adapters` names it by the number that this gives.
    #[wasm_bindgen(js_name = loadAdapter)]
    pub async fn load_adapter(&self, files: JsModelFiles, abort: &AbortFlag) -> JsResult<u32> {
        self.load_adapter_now(files, &abort.watch()).await.map_err(convert::error)
    }

    /// The ids of a text. Options: `addBos` (false), `parseSpecial` (false).
    pub fn tokenize(&self, text: &str, options: JsValue) -> JsResult<js_sys::Uint32Array> {
        let encode = |words: &Words| {
            let TokenizeOptions { add_bos, parse_special } = convert::options("tokenize", options)?;
            words.tokenizer.encode(text, EncodeOptions { parse_special, add_bos, add_eos: false })
        };
        self.words().and_then(encode).map(|ids| js_sys::Uint32Array::from(ids.as_slice())).map_err(convert::error)
    }

    /// The text of ids. Options: `skipSpecial` (true).
    pub fn detokenize(&self, ids: js_sys::Uint32Array, options: JsValue) -> JsResult<String> {
        let decode = |words: &Words| {
            let DetokenizeOptions { skip_special } = convert::options("detokenize", options)?;
            words.tokenizer.decode(&ids.to_vec(), skip_special)
        };
        self.words().and_then(decode).map_err(convert::error)
    }

    /// A conversation as the model's template writes it. Options: `tools`, `vars`, `addGenerationPrompt` (true).
    #[wasm_bindgen(js_name = applyChatTemplate)]
    pub fn apply_chat_template(&self, messages: JsValue, options: JsValue) -> JsResult<String> {
        let render = |words: &Words| {
            let TemplateOptions { tools, vars, add_generation_prompt } = convert::options("applyChatTemplate", options)?;
            let messages = convert::value("messages", messages)?;
            let variables = vars.unwrap_or(Value::UNDEFINED);
            let now = DateTime::from_unix(BrowserHost.unix_seconds());
            words.render(&messages, &RenderOptions { tools, variables, add_generation_prompt, now })
        };
        self.words().and_then(render).map_err(convert::error)
    }

    /// Frees the device's memory. A call under way ends as by an abort, and frees it. Idempotent.
    pub fn dispose(&self) {
        self.disposed.set(true);
        self.running.borrow().abort();
        drop(self.engine.take());
    }
}

impl Model {
    async fn load_now(
        files: JsModelFiles,
        options: &js_sys::Object,
        on_progress: &js_sys::Function,
        cancel: &engine::AbortFlag,
        compiler: JsCompiler,
    ) -> Result<Model> {
        let (device, rest) = split(options)?;
        let device: DeviceOptions = convert::options("load", device)?;
        let options: LoadOptions = convert::options("load", rest)?;
        let mut progress = |p: engine::Progress| {
            // The host's own callback: it posts a message, and has nobody to tell when that fails.
            if let Ok(p) = convert::to_js(&p) {
                let _ = on_progress.call1(&JsValue::NULL, &p);
            }
        };
        // What is wrong with the files is said before a device is asked for.
        let began = BrowserHost.now_ms();
        progress(engine::Progress { phase: "header", loaded: 0, total: 0 });
        let (header, source) = source::open(&files, options.quantize).await?;
        let described = ModelInfo::of(&header)?.with_template(options.template.as_deref());
        let header_ms = BrowserHost.now_ms() - began;
        super::need_webgpu()?;
        let gpu = Gpu::request(device.into()).await?;
        gpu.compile_with(Box::new(compiler));
        let gpu = Rc::new(gpu);
        let engine = Engine::load_header(header, &source, gpu, &options, Box::new(BrowserHost), &mut progress, cancel).await?;
        let loaded = engine.info();
        let report = engine.report();
        let phases = loaded.load_phases.map(|p| LoadPhases { header_ms, total_ms: p.total_ms + header_ms, ..p });
        let info = Loaded {
            header: described,
            load_phases: phases.unwrap_or_default(),
            tuning: &loaded.tuning,
            device: Device { adapter: &report.name, tier: &report.tier, memory_bytes: loaded.memory_bytes },
            loaded_context_length: loaded.context_length,
            kv_type: loaded.kv_type,
        };
        let info = convert::to_js(&info).map_err(|_| err!(Internal, "the model's description cannot be handed to JavaScript"))?;
        let words = engine.words().clone();
        Ok(Model { engine: Cell::new(Some(engine)), words, disposed: Cell::new(false), running: RefCell::default(), info })
    }

    async fn generate_now(
        &self,
        prompt_value: JsValue,
        options: JsValue,
        on_token: &js_sys::Function,
        cancel: &engine::AbortFlag,
    ) -> Result<engine::Generated> {
        let prompt = prompt(prompt_value)?;
        let options = match options.is_undefined() || options.is_null() {
            true => GenerateOptions::default(),
            false => GenerateOptions::parse(serde_wasm_bindgen::Deserializer::from(options))?,
        };
        let mut deliver = |token: engine::TokenEvent| {
            if let Ok(token) = convert::to_js(&token) {
                let _ = on_token.call1(&JsValue::NULL, &token);
            }
        };
        let mut engine = self.take()?;
        self.running.replace(cancel.clone());
        let result = engine.generate(&prompt, &options, &mut deliver, cancel).await;
        self.put_back(engine);
        result
    }

    async fn embed_now(&self, text: &str, options: JsValue, cancel: &engine::AbortFlag) -> Result<Vec<f32>> {
        let options: engine::EmbedOptions = convert::options("embed", options)?;
        let mut engine = self.take()?;
        self.running.replace(cancel.clone());
        let result = engine.embed(text, &options, cancel).await;
        self.put_back(engine);
        result
    }

    async fn load_adapter_now(&self, files: JsModelFiles, cancel: &engine::AbortFlag) -> Result<u32> {
        let (header, source) = source::open(&files, None).await?;
        let mut engine = self.take()?;
        self.running.replace(cancel.clone());
        let result = engine.load_adapter(&header, &source, cancel).await;
        self.put_back(engine);
        result
    }

    fn take(&self) -> Result<Engine> {
        if self.disposed.get() {
            return Err(disposed());
        }
        self.engine.take().ok_or_else(|| err!(Internal, "the model is busy: calls on one model must take turns"))
    }

    fn put_back(&self, engine: Engine) {
        if !self.disposed.get() {
            self.engine.set(Some(engine));
        }
    }

    fn words(&self) -> Result<&Words> {
        match self.disposed.get() {
            true => Err(disposed()),
            false => Ok(&self.words),
        }
    }
}

fn disposed() -> crate::error::Error {
    err!(Disposed, "the model was disposed of; load it again")
}
