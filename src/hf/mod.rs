//! Model directories as Hugging Face publishes them: `config.json`, `tokenizer.json`, and weights in `.safetensors` files. They
//! become what a GGUF file would have said: the same metadata keys, the same tensor names and shapes. Families and the tokenizer
//! know nothing of this module, and it does no I/O: it is handed bytes, and says for each tensor which rows of which file it is
//! made of ([`Recipe`]).
//!
//! **To add a family**: one row in [`families`], which names what differs from the names and keys that most share.
//!
//! Sources: the [safetensors format](https://github.com/huggingface/safetensors), the configurations of `transformers`, and the
//! conventions of GGUF's own converter, which `general.architecture` and all keys follow.

mod config;
mod families;
mod json;
mod pretokenizer;
mod recipe;
mod rope;
mod safetensors;
mod tokenizer;

pub use config::Config;
pub use recipe::{Recipe, Rows, recipes};
pub use safetensors::{MAX_HEADER_BYTES, Stored, StoredFormat, file_names, header_len, tensors};
pub use tokenizer::{Texts, vocabulary};

use serde::{Deserialize, Serialize};

/// What matrices become while they load. Norms and biases are F32, and rows that are no multiple of 32 stay floats, of 16 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Quantize {
    /// Eight bits and a scale for each 32.
    #[default]
    #[serde(rename = "q8_0")]
    Q8_0,
    /// Four bits and a scale for each 32; the embedding and the head have eight.
    #[serde(rename = "q4_0")]
    Q4_0,
    /// What they are in the files: F32, F16 or BF16.
    #[serde(rename = "none")]
    None,
}
