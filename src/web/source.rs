//! Sources of bytes, the clock and the abort flag, as JavaScript supplies them.

use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

use super::convert::source_error;
use crate::engine::{self, ByteSource, Files, Host, ModelSource};
use crate::err;
use crate::error::Result;
use crate::gguf::Header;
use crate::hf::Quantize;

/// The largest size that a JS number holds exactly.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

#[wasm_bindgen]
extern "C" {
    /// `{ size: number, read(offset: number, length: number): Promise<Uint8Array> }`
    #[wasm_bindgen(typescript_type = "ByteSource")]
    pub type JsByteSource;

    #[wasm_bindgen(method, getter)]
    fn size(this: &JsByteSource) -> f64;

    #[wasm_bindgen(method, catch)]
    fn read(this: &JsByteSource, offset: f64, length: f64) -> std::result::Result<js_sys::Promise, JsValue>;

    /// `{ entry: string, open(name: string): Promise<ByteSource | undefined> }`
    #[wasm_bindgen(typescript_type = "ModelFiles")]
    pub type JsModelFiles;

    #[wasm_bindgen(method, getter)]
    fn entry(this: &JsModelFiles) -> String;

    #[wasm_bindgen(method, catch)]
    fn open(this: &JsModelFiles, name: &str) -> std::result::Result<js_sys::Promise, JsValue>;

    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn performance_now() -> f64;
}

/// A [`ByteSource`] over a JS object.
pub struct JsSource {
    source: JsByteSource,
    len: u64,
}

impl Files for JsModelFiles {
    type Source = JsSource;

    async fn open(&self, name: &str) -> Result<Option<JsSource>> {
        let promise = JsModelFiles::open(self, name).map_err(|e| source_error(&e))?;
        let source = JsFuture::from(promise).await.map_err(|e| source_error(&e))?;
        if source.is_undefined() { Ok(None) } else { JsSource::new(source.unchecked_into()).map(Some) }
    }
}

/// Opens the model that the page handed over. Errors as [`engine::open_model`].
pub async fn open(files: &JsModelFiles, quantize: Option<Quantize>) -> Result<(Header, ModelSource<JsSource>)> {
    engine::open_model(files, &files.entry(), quantize).await
}

impl JsSource {
    /// Errors: `bad-option` where `size` is no length.
    fn new(source: JsByteSource) -> Result<Self> {
        let size = source.size();
        if !(0.0..=MAX_SAFE_INTEGER).contains(&size) || size.fract() != 0.0 {
            return Err(err!(BadOption, "source: expected a size in bytes, found {size}"));
        }
        Ok(Self { source, len: size as u64 })
    }
}

impl ByteSource for JsSource {
    fn len(&self) -> u64 {
        self.len
    }

    async fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let promise = self.source.read(offset as f64, buf.len() as f64).map_err(|e| source_error(&e))?;
        let bytes = JsFuture::from(promise).await.map_err(|e| source_error(&e))?;
        let bytes = bytes
            .dyn_into::<js_sys::Uint8Array>()
            .map_err(|found| err!(Internal, "source: expected a Uint8Array, found {found:?}"))?;
        if bytes.length() as usize != buf.len() {
            return Err(err!(
                Integrity,
                "source: expected {} bytes at offset {offset}, found {}; load the file again",
                buf.len(),
                bytes.length()
            ));
        }
        bytes.copy_to(buf);
        Ok(())
    }
}

/// The page's or worker's clocks and entropy.
pub struct BrowserHost;

impl Host for BrowserHost {
    fn now_ms(&self) -> f64 {
        performance_now()
    }

    fn unix_seconds(&self) -> i64 {
        // Local time, as templates mean it by "today".
        let now = js_sys::Date::new_0();
        ((now.get_time() - now.get_timezone_offset() * 60_000.0) / 1000.0).floor() as i64
    }

    fn entropy(&self) -> u64 {
        // Not for secrets: it only makes unseeded answers differ.
        let bits = || (js_sys::Math::random() * 4_294_967_296.0) as u64;
        (bits() << 32) | bits()
    }
}

/// A flag that ends a running call at once.
#[wasm_bindgen]
#[derive(Default)]
pub struct AbortFlag {
    flag: engine::AbortFlag,
}

#[wasm_bindgen]
impl AbortFlag {
    /// A flag that is not set.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets it; there is no way back.
    pub fn abort(&self) {
        self.flag.abort();
    }
}

impl AbortFlag {
    /// What the engine watches; it outlives the JS object.
    pub fn watch(&self) -> engine::AbortFlag {
        self.flag.clone()
    }
}
