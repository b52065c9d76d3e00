//! The surface that the npm package stands on: wasm-bindgen classes around the engine. Only the package's host
//! (`www/sdk/src/host.ts`) calls it; the types it relies on are in `www/sdk/typings`.
//!
//! Every failure is a JS `Error` with a `code`. A panic ends in [`on_panic`]'s callback, since the promise that was
//! under way never settles: the module must not be entered again.
//!
//! Deliberately absent: fetching, files, queues, retries. Those are JavaScript's side; here a source of bytes is an
//! object that answers reads, and a model does one thing at a time.

mod bench;
mod compiler;
mod convert;
mod info;
mod model;
mod source;

pub use bench::benchmark;
pub use model::Model;
pub use source::AbortFlag;

use std::cell::RefCell;

use wasm_bindgen::prelude::*;

thread_local! {
    static ON_PANIC: RefCell<Option<js_sys::Function>> = const { RefCell::new(None) };
}

/// Tells `callback` the message of a panic, the moment it happens. The last callback given is the one called.
#[wasm_bindgen(js_name = onPanic)]
pub fn on_panic(callback: js_sys::Function) {
    ON_PANIC.with(|slot| {
        if let Ok(mut slot) = slot.try_borrow_mut() {
            *slot = Some(callback);
        }
    });
    std::panic::set_hook(Box::new(|info| {
        let message = JsValue::from_str(&info.to_string());
        ON_PANIC.with(|slot| {
            // Cloned out first: the callback may come back here.
            let callback = slot.try_borrow().ok().and_then(|slot| slot.clone());
            match callback {
                Some(callback) => drop(callback.call1(&JsValue::NULL, &message)),
                None => web_sys::console::error_1(&message),
            }
        });
    }));
}

/// Reads a model's header only, and says what is in it and whether this version can run it. `quantize`: as in a load.
///
/// Errors: `bad-file`, `unsupported-quant` for a type number that is unknown, and those of the source.
#[wasm_bindgen]
pub async fn inspect(files: source::JsModelFiles, quantize: JsValue) -> Result<JsValue, JsValue> {
    let quantize = convert::options("inspect: quantize", quantize).map_err(convert::error)?;
    let (header, _) = source::open(&files, quantize).await.map_err(convert::error)?;
    convert::to_js(&info::ModelInfo::of(&header).map_err(convert::error)?)
}

/// Where there is no WebGPU to ask, the browser's bindings would panic instead of saying so.
///
/// # Errors
/// `webgpu-unavailable`
fn need_webgpu() -> crate::error::Result<()> {
    let global = js_sys::global();
    let get = |of: &JsValue, name: &str| js_sys::Reflect::get(of, &name.into()).unwrap_or(JsValue::UNDEFINED);
    let reachable = ["Window", "DedicatedWorkerGlobalScope"].iter().any(|scope| !get(&global, scope).is_undefined());
    let navigator = get(&global, "navigator");
    if reachable && !navigator.is_undefined() && !get(&navigator, "gpu").is_undefined() {
        return Ok(());
    }
    Err(crate::err!(
        WebgpuUnavailable,
        "there is no WebGPU here: it needs a page or dedicated worker of a secure context (https or localhost) in a browser that has it"
    ))
}
