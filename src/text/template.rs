//! Chat templates: Jinja, as `transformers` runs it.
//!
//! A template comes with a file, so it is hostile. It reaches nothing but the values it is given. minijinja's fuel pays
//! for instructions and for the text and lists they make; what it does not count is counted here: printing containers
//! (`python`, `json`), what nests in its parser, and operations that visit all of a value (`guard`).

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value};

use super::strftime::DateTime;
use super::tokenizer::Tokenizer;
use super::{guard, json, python};
use crate::err;
use crate::error::{Error, Result};
use crate::gguf::Metadata;

/// The longest template, in bytes: fifteen times the longest in use (17 KB).
const MAX_TEMPLATE_BYTES: usize = 256 << 10;

/// The work that a template may do, in minijinja's fuel: about one an instruction, and one for each 64 bytes of text
/// that it makes. What real templates need for a conversation of a page is below 10,000, but some go through all earlier
/// messages at each, so that several hundred take a million.
const BASE_FUEL: u64 = 1_000_000;

/// Fuel for each byte of messages, tools and variables: enough to copy all of it 64 times over.
const FUEL_A_BYTE: u64 = 1;

/// Fuel for each message or other value in them.
const FUEL_A_VALUE: u64 = 600;

/// How deep templates may nest calls, in minijinja's measure. The stack of wasm is 1 MiB.
const MAX_RECURSION: usize = 120;

/// The most tokens in one tag. Long chains (`x.a.a.a…`) nest as deep as they are long, in a parser that does not count
/// them.
const MAX_TAG_TOKENS: usize = 2_000;

/// The most `elif` tags: they nest in the parser too, and real templates have some twenty.
const MAX_ELIFS: usize = 500;

/// The name of the template that is used where there are tools.
const TOOL_USE: &str = "tool_use";
const DEFAULT: &str = "default";

/// A model's chat template. Templates come with files, so they are hostile: they can reach nothing but the values they
/// are given, and their work, memory, nesting and output are bounded.
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos_token: Option<String>,
    eos_token: Option<String>,
}

/// What a conversation is rendered with, besides its messages.
#[derive(Debug, Clone)]
pub struct RenderOptions {
    /// The tools that the model may call, or none.
    pub tools: Option<Value>,
    /// More variables, by name (`enable_thinking`, `bos_token`, …), or [`Value::UNDEFINED`].
    pub variables: Value,
    /// Whether to end with the beginning of an answer.
    pub add_generation_prompt: bool,
    /// What `strftime_now` takes for now.
    pub now: DateTime,
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ChatTemplate")
    }
}

impl ChatTemplate {
    /// Compiles a template. Errors: `bad-template` with the line, for a syntax error or a template that is too long.
    pub fn new(source: &str) -> Result<Self> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| err!(Internal, "chat template: {e}"))?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_recursion_limit(MAX_RECURSION);
        environment.set_unknown_method_callback(python::method);
        environment.set_formatter(|out, state, value| {
            let text = match value.as_str() {
                Some(text) => return Ok(out.write_str(text)?),
                None => python::to_str(state, value)?,
            };
            Ok(out.write_str(&text)?)
        });
        environment.add_filter("tojson", json::tojson);
        environment.add_filter("string", python::string);
        environment.add_filter("join", python::join);
        guard::add(&mut environment);
        let mut this = Self { environment, bos_token: None, eos_token: None };
        this.add(DEFAULT, source)?;
        Ok(this)
    }

    /// The text of a file's template: `tokenizer.chat_template`, or else `tokenizer.chat_template.default`. `None` where the
    /// file has none (a base model). Error: `bad-file` for a key of another type than string.
    pub fn source(meta: &Metadata) -> Result<Option<&str>> {
        match meta.string("tokenizer.chat_template")? {
            Some(source) => Ok(Some(source)),
            None => meta.string("tokenizer.chat_template.default"),
        }
    }

    /// The template of a file, [`Self::source`]; where there is a `tokenizer.chat_template.tool_use` too, that one is used
    /// with tools.
    ///
    /// Errors: `bad-template` as [`Self::new`]; `bad-file` for a key of another type than string.
    pub fn from_metadata(meta: &Metadata) -> Result<Option<Self>> {
        let Some(source) = Self::source(meta)? else { return Ok(None) };
        let mut this = Self::new(source)?;
        if let Some(source) = meta.string("tokenizer.chat_template.tool_use")? {
            this.add(TOOL_USE, source)?;
        }
        Ok(Some(this))
    }

    /// The same template with `bos_token` and `eos_token` as the tokenizer has them.
    pub fn with_tokens_of(mut self, tokenizer: &Tokenizer) -> Self {
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id)).map(str::to_owned);
        self.bos_token = text(tokenizer.bos());
        self.eos_token = text(tokenizer.eos());
        self
    }

    fn add(&mut self, name: &'static str, source: &str) -> Result<()> {
        if source.len() > MAX_TEMPLATE_BYTES {
            return Err(err!(BadTemplate, "chat template: expected at most {MAX_TEMPLATE_BYTES} bytes, found {}", source.len()));
        }
        let source = guarded(&without_generation_tags(source))?;
        self.environment.add_template_owned(name, source).map_err(|e| bad_template(&e))
    }

    /// Renders `messages`, a list of `{role, content, …}`, to the text of a prompt.
    ///
    /// Errors: `bad-option` for messages that are no list, tools that are no list or variables that are no map;
    /// `bad-template` with the line where the template fails or raises an exception, or does more work than it may.
    pub fn render(&self, messages: &Value, options: &RenderOptions) -> Result<String> {
        let list = |value: &Value| matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable);
        if !list(messages) {
            return Err(err!(BadOption, "messages: expected a list, found {}", messages.kind()));
        }
        let tools = options.tools.clone().filter(|tools| !tools.is_none() && !tools.is_undefined());
        if let Some(tools) = tools.as_ref().filter(|tools| !list(tools)) {
            return Err(err!(BadOption, "tools: expected a list, found {}", tools.kind()));
        }
        let mut variables: Vec<(String, Value)> = Vec::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                variables.retain(|(known, _)| known != name);
                variables.push((name.to_owned(), value));
            }
        };
        set("bos_token", self.bos_token.clone().map(Value::from));
        set("eos_token", self.eos_token.clone().map(Value::from));
        match options.variables.kind() {
            ValueKind::Undefined | ValueKind::None => {}
            ValueKind::Map => {
                for key in options.variables.try_iter().map_err(|e| bad_template(&e))? {
                    set(key.as_str().unwrap_or_default(), options.variables.get_item(&key).ok());
                }
            }
            other => return Err(err!(BadOption, "template variables: expected a map, found {other}")),
        }
        let now = options.now;
        let strftime = move |format: &str| now.strftime(format);
        set("strftime_now", Some(Value::from_function(strftime)));
        set("messages", Some(messages.clone()));
        set("tools", Some(tools.clone().unwrap_or_else(|| Value::from(()))));
        set("documents", Some(documents(&options.variables)));
        set("add_generation_prompt", Some(Value::from(options.add_generation_prompt)));

        let mut environment = self.environment.clone();
        let (bytes, values) = variables.iter().fold((0, 0), |sum, (_, value)| size(value, sum, 0));
        environment.set_fuel(Some(BASE_FUEL + bytes * FUEL_A_BYTE + values * FUEL_A_VALUE));
        let name = match environment.get_template(TOOL_USE) {
            Ok(_) if tools.is_some() => TOOL_USE,
            _ => DEFAULT,
        };
        let template = environment.get_template(name).map_err(|e| bad_template(&e))?;
        template.render(Value::from_pairs(variables)).map_err(|e| bad_template(&e))
    }
}

/// `documents` is none where the caller gives none, as in `transformers`.
fn documents(variables: &Value) -> Value {
    let given = variables.get_attr("documents").ok().filter(|value| !value.is_undefined());
    given.unwrap_or_else(|| Value::from(()))
}

/// Adds the bytes of strings and the number of values in `value`, to a depth that real messages do not reach.
fn size(value: &Value, (mut bytes, mut values): (u64, u64), depth: usize) -> (u64, u64) {
    values += 1;
    if let Some(text) = value.as_str() {
        return (bytes + text.len() as u64, values);
    }
    let container = matches!(value.kind(), ValueKind::Seq | ValueKind::Map);
    if let Some(items) = value.try_iter().ok().filter(|_| container && depth < 32) {
        for item in items {
            let child = if value.kind() == ValueKind::Map { value.get_item(&item).unwrap_or_default() } else { item };
            (bytes, values) = size(&child, (bytes, values), depth + 1);
        }
    }
    (bytes, values)
}

/// `transformers` marks what the model wrote by `{% generation %}` … `{% endgeneration %}`, which prints as if it were
/// not there. minijinja has no such tag, so it becomes an `if` that is always true.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        // Nothing is looked for behind the word, or many openings before one end would take quadratic time.
        let inner = tag[2..].trim_start_matches(['-', '+']).trim_start();
        let word = &inner[..inner.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(inner.len())];
        let ends = || inner[word.len()..].trim_start().trim_start_matches(['-', '+']).starts_with("%}");
        let becomes = match word {
            "generation" if ends() => "if true",
            "endgeneration" if ends() => "endif",
            _ => {
                // Step over the opening only: a tag's text may hold anything.
                out.push_str("{%");
                rest = &tag[2..];
                continue;
            }
        };
        out.push_str(&tag[..tag.len() - inner.len()]);
        out.push_str(becomes);
        rest = &inner[word.len()..];
    }
    out.push_str(rest);
    out
}

/// The source with the filters of [`guard`] in it. Bounds what nests in the parser without being counted there: `elif`, and
/// the tokens of each tag.
fn guarded(source: &str) -> Result<String> {
    let mut rest = source;
    let (mut line, mut elifs) = (1, 0);
    let mut insertions = Vec::new();
    while let Some(at) = rest.find(['{', '\n']) {
        let tag = &rest[at..];
        line += usize::from(tag.starts_with('\n'));
        rest = &tag[1..];
        if let Some(comment) = tag.strip_prefix("{#") {
            // What a comment or a raw block holds is no tag, and must not hide one.
            rest = skip(comment, comment.find("#}"), &mut line);
            continue;
        }
        if opens(tag, "raw") {
            let ends = rest.match_indices("{%").map(|(at, _)| at).find(|at| opens(&rest[*at..], "endraw"));
            rest = skip(rest, ends, &mut line);
            continue;
        }
        let Some(end) = [("{{", "}}"), ("{%", "%}")].iter().find(|(open, _)| tag.starts_with(open)).map(|(_, end)| end) else {
            continue;
        };
        elifs += usize::from(opens(tag, "elif"));
        if elifs > MAX_ELIFS {
            return Err(err!(BadTemplate, "chat template: line {line}: expected at most {MAX_ELIFS} elif tags, found more"));
        }
        let inner = &tag[2..];
        let tag = guard::Tag::read(inner, end, source.len() - inner.len());
        if tag.len() > MAX_TAG_TOKENS {
            let found = tag.len();
            return Err(err!(
                BadTemplate,
                "chat template: line {line}: expected at most {MAX_TAG_TOKENS} tokens in a tag, found {found}"
            ));
        }
        tag.guard(*end == "%}", &mut insertions);
        line += tag.lines;
        rest = &inner[tag.length..];
    }
    insertions.sort_by_key(|(at, _)| *at);
    let mut out = String::with_capacity(source.len() + 16 * insertions.len());
    let mut from = 0;
    for (at, text) in insertions {
        out.push_str(&source[from..at]);
        out.push_str(text);
        from = at;
    }
    out.push_str(&source[from..]);
    Ok(out)
}

/// Whether a text starts with the block tag of this name.
fn opens(text: &str, name: &str) -> bool {
    let inner = text.strip_prefix("{%").map(|t| t.trim_start_matches(|c: char| c == '-' || c == '+' || c.is_whitespace()));
    let rest = inner.and_then(|t| t.strip_prefix(name));
    rest.is_some_and(|t| !t.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// What follows the first `to` bytes of a text, or nothing; counts the lines skipped.
fn skip<'a>(text: &'a str, to: Option<usize>, line: &mut usize) -> &'a str {
    let (skipped, rest) = text.split_at(to.unwrap_or(text.len()));
    *line += skipped.matches('\n').count();
    rest
}

fn bad_template(error: &minijinja::Error) -> Error {
    let line = error.line().map(|line| format!(" line {line}:")).unwrap_or_default();
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.kind() {
        ErrorKind::OutOfFuel => {
            err!(BadTemplate, "chat template:{line} expected less work, found that it never ends or makes too much text")
        }
        // What `raise_exception` says is the whole message.
        ErrorKind::InvalidOperation => err!(BadTemplate, "chat template:{line} {detail}"),
        kind => err!(BadTemplate, "chat template:{line} {kind}: {detail}"),
    }
}
