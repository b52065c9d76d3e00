//! Rivulet runs language models inside a web page: GGUF weights, WebGPU compute shaders, tokens as a stream.
//!
//! The house has floors, and a module looks only down (a test greps the imports, `tests/floors.rs`):
//!
//! | floor | module | knows | never knows |
//! |---|---|---|---|
//! | 0 | [`error`], [`tensor`] | codes, weight formats, the device tier | bytes, devices |
//! | 1 | [`gguf`] | bytes to header, metadata, tensor table | I/O |
//! | 1 | [`quant`] | block formats: sizes, CPU decode, layout on the GPU | files, devices |
//! | 1 | [`text`] | tokenizers, chat templates, the streaming decoder | models, devices |
//! | 1 | [`sample`] | options, logit processors, the CPU sampler | models, devices |
//! | 2 | [`hf`] | model directories of safetensors as GGUF headers | I/O |
//! | 2 | [`kernels`] | shaders, shapes in, `Dispatch` out | devices |
//! | 2 | `reference` | the CPU twin of each kernel, in f64 (feature `reference`) | devices |
//! | 3 | [`model`] | metadata to architecture to a `Recording` | devices |
//! | 3 | [`gpu`] | adapter, tier, buffers, pipelines, player, readback | models |
//! | 4 | [`engine`] | loading, KV pool, generation | browsers, files |
//! | 5 | `web`, `bin/rivulet` | the browser; the command line | |
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod error;
pub mod tensor;

pub mod engine;
pub mod gguf;
pub mod gpu;
pub mod hf;
pub mod kernels;
pub mod model;
pub mod quant;
#[cfg(feature = "reference")]
pub mod reference;
pub mod sample;
pub mod text;
#[cfg(target_arch = "wasm32")]
pub mod web;
