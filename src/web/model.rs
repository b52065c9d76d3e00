//! A loaded model.

use std::cell::Cell;

use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::*;

use super::convert;
use super::info::ModelInfo;
use super::source::{AbortFlag, JsByteSource, JsSource, PerformanceClock};
use crate::engine::{Engine, GenerateOptions, LoadOptions, Prompt};
use crate::err;
use crate::error::{Error, Result};
use crate::gpu::{Gpu, GpuOptions};
use crate::text::{EncodeOptions, RenderOptions, Value};

/// A model on a device. It does one thing at a time: a call while another is under way is refused.
#[wasm_bindgen]
pub struct Model {
    /// Taken out while a call uses it, so that nothing is ever borrowed twice.
    engine: Cell<Option<Engine>>,
    /// Whether `dispose` was called; a call under way then drops the engine instead of putting it back.
    disposed: Cell<bool>,
    info: JsValue,
}

/// The options of `load` that choose the device; the others are the engine's.
const DEVICE_OPTIONS: [&str; 2] = ["tier", "subgroups"];

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct DeviceOptions {
    tier: Option<String>,
    subgroups: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct TokenizeOptions {
    add_bos: bool,
    parse_special: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct DetokenizeOptions {
    skip_special: bool,
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Loaded<H: Serialize, E: Serialize> {
    #[serde(flatten)]
    header: H,
    #[serde(flatten)]
    engine: E,
}

/// Splits an options object: the device's, and the rest.
fn split(options: &js_sys::Object) -> Result<(JsValue, JsValue)> {
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

#[wasm_bindgen]
impl Model {
    /// Loads a model onto a device. `on_progress({phase, loaded, total})` is called as it advances.
    pub async fn load(
        source: JsByteSource,
        options: js_sys::Object,
        on_progress: js_sys::Function,
        abort: &AbortFlag,
    ) -> std::result::Result<Model, JsValue> {
        Self::load_now(source, &options, &on_progress, abort.watch()).await.map_err(convert::error)
    }

    async fn load_now(
        source: JsByteSource,
        options: &js_sys::Object,
        on_progress: &js_sys::Function,
        cancel: impl Fn() -> bool,
    ) -> Result<Model> {
        let (device, rest) = split(options)?;
        let device: DeviceOptions = convert::options("load", device)?;
        let options: LoadOptions = convert::options("load", rest)?;
        let source = JsSource::new(source)?;
        let gpu = Gpu::request(GpuOptions { adapter: None, tier: device.tier, browser_subgroups: device.subgroups }).await?;
        let mut thrown = None;
        let mut progress = |p: crate::engine::Progress| {
            let told = convert::to_js(&p).and_then(|p| on_progress.call1(&JsValue::NULL, &p));
            if let Err(e) = told {
                thrown.get_or_insert(e);
            }
        };
        let header = ModelInfo::of(&crate::engine::read_header(&source).await?)?;
        let engine = Engine::load(&source, gpu, options, PerformanceClock, &mut progress, &cancel).await?;
        if let Some(e) = thrown {
            return Err(err!(Internal, "a progress callback failed: {e:?}"));
        }
        let info = convert::to_js(&Loaded { header, engine: engine.info() })
            .map_err(|_| err!(Internal, "the model's description could not be handed to JavaScript"))?;
        Ok(Model { engine: Cell::new(Some(engine)), disposed: Cell::new(false), info })
    }
}
