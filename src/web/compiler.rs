//! Pipelines that the browser compiles without holding the page up: see `www/sdk/src/pipelines.ts`.

use std::future::Future;
use std::pin::Pin;

use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

use crate::gpu::Compiler;

#[wasm_bindgen]
extern "C" {
    /// `{ begin(): boolean, end(): void, ended(known: number): Promise<number> }`
    #[wasm_bindgen(typescript_type = "PipelineCompiler")]
    pub type JsCompiler;

    #[wasm_bindgen(method)]
    fn begin(this: &JsCompiler) -> bool;

    #[wasm_bindgen(method)]
    fn end(this: &JsCompiler);

    #[wasm_bindgen(method)]
    fn ended(this: &JsCompiler, known: f64) -> js_sys::Promise;
}

impl Compiler for JsCompiler {
    fn begin(&self) -> bool {
        JsCompiler::begin(self)
    }

    fn end(&self) {
        JsCompiler::end(self);
    }

    fn ended(&self, known: u64) -> Pin<Box<dyn Future<Output = u64>>> {
        let promise = JsCompiler::ended(self, known as f64);
        Box::pin(async move {
            // It never rejects; if it did, what is wrong would be said when the pipelines are made.
            JsFuture::from(promise).await.ok().and_then(|ended| ended.as_f64()).map_or(u64::MAX, |ended| ended as u64)
        })
    }
}
