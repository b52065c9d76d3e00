//! What a model knows of text. It needs no device, and is shared, so that texts are counted and rendered while the
//! engine is busy with an answer.

use crate::err;
use crate::error::Result;
use crate::gguf::Metadata;
use crate::text::{ChatTemplate, RenderOptions, Tokenizer, Value};

/// The tokenizer and the chat template of a model.
pub struct Words {
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its chat template, or why it cannot be used; base models have none.
    pub template: Option<Result<ChatTemplate>>,
}

impl Words {
    /// The words of a file, with the chat template of the load's option in place of the file's. A template that came with
    /// the file and is broken fails where it is used, since without it the model still continues texts.
    ///
    /// Error: `bad-template` for an option that is none.
    pub fn new(tokenizer: Tokenizer, meta: &Metadata, template: Option<&str>) -> Result<Self> {
        let template = match template {
            Some(source) => Some(Ok(ChatTemplate::new(source)?)),
            None => ChatTemplate::from_metadata(meta).transpose(),
        };
        let template = template.map(|found| found.map(|template| template.with_tokens_of(&tokenizer)));
        Ok(Self { tokenizer, template })
    }

    /// A conversation as the model's template writes it. Error: `bad-template` where there is none or it fails.
    pub fn render(&self, messages: &Value, options: &RenderOptions) -> Result<String> {
        match &self.template {
            Some(Ok(template)) => template.render(messages, options),
            Some(Err(e)) => Err(err!(
                BadTemplate,
                "{}; load the model with the option `template`, or pass a text instead of messages",
                e.message
            )),
            None => Err(err!(
                BadTemplate,
                "the model has no chat template (it is a base model): load it with the option `template`, or pass a text instead of messages"
            )),
        }
    }
}
