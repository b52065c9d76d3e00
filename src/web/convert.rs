//! Values and errors across the border.

use serde::Serialize;
use serde::de::DeserializeOwned;
use wasm_bindgen::prelude::*;

use crate::err;
use crate::error::{Code, Error, Result};

/// The codes that a source of bytes may fail with; what it throws without one of them is `network`.
const SOURCE_CODES: [Code; 6] = [Code::Network, Code::Integrity, Code::Aborted, Code::Quota, Code::BadFile, Code::Internal];

/// An error as a JS `Error` with a `code`.
pub fn error(error: Error) -> JsValue {
    let js = js_sys::Error::new(&error.message);
    // Setting a property of a fresh object does not fail.
    let _ = js_sys::Reflect::set(&js, &"code".into(), &error.code.as_str().into());
    js.into()
}

/// What a source of bytes threw.
pub fn source_error(thrown: &JsValue) -> Error {
    let text = |name: &str| js_sys::Reflect::get(thrown, &name.into()).ok().and_then(|v| v.as_string());
    let code = text("code").and_then(|name| SOURCE_CODES.into_iter().find(|code| code.as_str() == name));
    let message = text("message").or_else(|| thrown.as_string()).unwrap_or_else(|| format!("{thrown:?}"));
    Error::new(code.unwrap_or(Code::Network), message)
}

/// A value as plain JS: objects rather than Maps, `undefined` left out by serde's own attributes.
pub fn to_js(value: &impl Serialize) -> std::result::Result<JsValue, JsValue> {
    value
        .serialize(&serde_wasm_bindgen::Serializer::json_compatible())
        .map_err(|e| error(err!(Internal, "a result could not be handed to JavaScript: {e}")))
}

/// Options from JS. `undefined` and `null` are the defaults. Errors: `bad-option`, which names the option.
pub fn options<T: DeserializeOwned + Default>(what: &str, options: JsValue) -> Result<T> {
    if options.is_undefined() || options.is_null() {
        return Ok(T::default());
    }
    serde_wasm_bindgen::from_value(options).map_err(|e| err!(BadOption, "{what}: {e}"))
}

/// Any JS value as a value of templates.
pub fn value(what: &str, value: JsValue) -> Result<crate::text::Value> {
    serde_wasm_bindgen::from_value(value).map_err(|e| err!(BadOption, "{what}: {e}"))
}
