//! What a model knows of text. It needs no device, and is shared, so that texts are counted and rendered while the
//! engine is busy with an answer.

use crate::err;
use crate::error::Result;
use crate::text::{ChatTemplate, RenderOptions, Tokenizer, Value};

/// The tokenizer and the chat template of a model.
pub struct Words {
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its chat template; base models have none.
    pub template: Option<ChatTemplate>,
}

impl Words {
    /// A conversation as the model's template writes it. Error: `bad-template` where there is none or it fails.
    pub fn render(&self, messages: &Value, options: &RenderOptions) -> Result<String> {
        let template = self.template.as_ref().ok_or_else(|| {
            err!(BadTemplate, "the model has no chat template (it is a base model): pass a text prompt instead of messages")
        })?;
        template.render(messages, options)
    }
}
