//! Text: tokenizers made from GGUF vocabularies, chat templates, and the decoder of a stream of tokens.
//!
//! What each part knows:
//! - [`Tokenizer`]: a model's vocabulary and how its text is cut. Merging is Hugging Face's (`tokenizers`' `BPE`); what
//!   stands around it is ours, because that crate's pipeline keeps 16 bytes of alignment for each byte of text, and
//!   its pre-tokenizers are backtracking regular expressions that give up on long runs of white space. So are Unigram and
//!   WordPiece, which are a page each.
//! - [`StreamDecoder`], [`StopMatcher`]: token ids one at a time to whole characters, and stop strings across them.
//! - [`ChatTemplate`]: messages to a prompt, by minijinja made to behave like the Jinja of `transformers`.
//!
//! Deliberately absent: files, clocks (`strftime_now` is handed the time), and any guess of a template where a file has
//! none or of a pre-tokenizer that is not known.

mod added;
mod bpe;
mod charsmap;
mod guard;
mod json;
mod pretokenize;
mod python;
mod scan;
mod stop;
mod stream;
mod strftime;
mod template;
mod tokenizer;
mod unicode;
mod unigram;
mod vocabulary;
mod wordpiece;

pub use stop::{Matched, StopMatcher};
pub use stream::StreamDecoder;
pub use strftime::DateTime;
pub use template::{ChatTemplate, RenderOptions};
pub use tokenizer::{EncodeOptions, Tokenizer};

/// Values of template variables: anything `serde` can serialize or deserialize, such as JSON, with key order kept.
pub use minijinja::Value;

/// A [`Value`] of anything serializable: messages, tools or variables.
pub fn to_value<T: serde::Serialize>(value: T) -> Value {
    Value::from(minijinja::value::Serde(value))
}
