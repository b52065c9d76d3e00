//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};

/// Runs language models, GGUF files and directories of safetensors, on the GPU, as Rivulet does in a page.
#[derive(Parser)]
#[command(name = "rivulet", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// One JSON object on stdout, and nothing else there.
    #[arg(long, global = true)]
    pub json: bool,
    /// The device and what is put on it.
    #[command(flatten)]
    pub device: Device,
}

/// Options that every command takes.
#[derive(Args, Clone)]
pub struct Device {
    /// Positions of the KV cache.
    #[arg(long, global = true)]
    pub context_length: Option<u32>,
    /// Type of the KV cache: f32 or f16.
    #[arg(long, global = true)]
    pub kv_type: Option<String>,
    /// exact, or fast: activations rounded to eight bits, which changes answers.
    #[arg(long, global = true)]
    pub precision: Option<String>,
    /// What weights in safetensors become while they load: q8_0 (the default), q4_0, or none.
    #[arg(long, global = true)]
    pub quantize: Option<String>,
    /// Takes the adapter whose name contains this, such as llvmpipe, SwiftShader or NVIDIA.
    #[arg(long, global = true)]
    pub adapter: Option<String>,
    /// Forces a tier: base, f16, subgroup or f16+subgroup; with cpu+ or gpu+ before it, the kernels for that kind of adapter.
    #[arg(long, global = true)]
    pub tier: Option<String>,
    /// Whether kernels may be tuned on the device while loading, for a second or two: true or false. By itself, on GPUs.
    #[arg(long, global = true)]
    pub autotune: Option<bool>,
    /// A LoRA adapter in GGUF that answers and logits are given with; may be given more than once.
    #[arg(long, global = true)]
    pub lora: Vec<PathBuf>,
    /// What the changes of the adapters are multiplied with, in their order; 1 by default.
    #[arg(long, global = true, allow_hyphen_values = true)]
    pub lora_scale: Vec<f32>,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// What a file's header says.
    Inspect {
        /// A GGUF file, or a directory of safetensors.
        model: PathBuf,
    },
    /// Token ids of texts.
    Tokenize {
        /// A GGUF file, or a directory of safetensors.
        model: PathBuf,
        /// The text.
        #[arg(long, required_unless_present = "texts", allow_hyphen_values = true)]
        text: Option<String>,
        /// A JSON file with an array of texts.
        #[arg(long, conflicts_with = "text")]
        texts: Option<PathBuf>,
        /// Read the text of control tokens as those tokens.
        #[arg(long)]
        special: bool,
        /// Begin with the beginning-of-sequence token where the model wants one.
        #[arg(long)]
        bos: bool,
    },
    /// The text of token ids.
    Detokenize {
        /// A GGUF file, or a directory of safetensors.
        model: PathBuf,
        /// Ids, separated by commas.
        #[arg(long)]
        ids: Ids,
    },
    /// A conversation as a chat template writes it.
    Render(Render),
    /// Logits after the last token of a prompt.
    Logits {
        /// A GGUF file, or a directory of safetensors.
        model: PathBuf,
        /// Ids, separated by commas.
        #[arg(long, required_unless_present = "prompts")]
        ids: Option<Ids>,
        /// A JSON file with an array of id arrays.
        #[arg(long, conflicts_with = "ids")]
        prompts: Option<PathBuf>,
        /// After every token.
        #[arg(long)]
        all: bool,
    },
    /// How probable a text is.
    Score {
        /// A GGUF file, or a directory of safetensors.
        model: PathBuf,
        /// The text.
        #[arg(long, allow_hyphen_values = true)]
        text: String,
    },
    /// The vector of a text, or of several.
    Embed(Embed),
    /// The distribution that the sampling options make of logits.
    Sample {
        /// A JSON array of logits; null is minus infinity.
        #[arg(long)]
        logits: PathBuf,
        /// A JSON object of options, named as in JavaScript, with `order`.
        #[arg(long)]
        options: PathBuf,
        /// A JSON array of the token ids before it.
        #[arg(long)]
        history: Option<PathBuf>,
        /// On the CPU. Without it the same: no kernel computes a distribution, the GPU only draws from it.
        #[arg(long)]
        reference: bool,
    },
    /// Continues a prompt.
    Generate(Box<Generate>),
    /// Measures speed, and counts what a token costs.
    Bench(Bench),
    /// Every kernel that this adapter can run, against its CPU twin.
    Selftest,
    /// Writes every linked kernel variant as WGSL, for compilers in browsers.
    Shaders {
        /// Where to.
        dir: PathBuf,
    },
}

/// A list of ids on the command line.
#[derive(Clone)]
pub struct Ids(pub Vec<u32>);

impl FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let id = |part: &str| part.trim().parse().map_err(|_| format!("expected ids separated by commas, found {part:?}"));
        text.split(',').filter(|p| !p.trim().is_empty()).map(id).collect::<Result<_, _>>().map(Ids)
    }
}

/// Arguments of `render`.
#[derive(Args)]
pub struct Render {
    /// A GGUF file or a directory of safetensors with a chat template.
    #[arg(required_unless_present = "template")]
    pub model: Option<PathBuf>,
    /// A Jinja template instead of the model's. Without a model there are no bos_token and eos_token.
    #[arg(long)]
    pub template: Option<PathBuf>,
    /// A JSON file with an array of messages.
    #[arg(long, required_unless_present = "batch")]
    pub messages: Option<PathBuf>,
    /// A JSON file with an array of tools.
    #[arg(long)]
    pub tools: Option<PathBuf>,
    /// A JSON file with an object of further variables.
    #[arg(long)]
    pub vars: Option<PathBuf>,
    /// What strftime_now takes for now, such as 2026-07-04T12:00:00.
    #[arg(long)]
    pub now: Option<String>,
    /// Do not end with the beginning of an answer.
    #[arg(long)]
    pub no_generation_prompt: bool,
    /// A JSON array of {messages, tools, vars, addGenerationPrompt}.
    #[arg(long, conflicts_with_all = ["messages", "tools", "vars"])]
    pub batch: Option<PathBuf>,
}

/// Arguments of `embed`.
#[derive(Args)]
pub struct Embed {
    /// A model.
    pub model: PathBuf,
    /// The text.
    #[arg(long, required_unless_present = "texts", allow_hyphen_values = true)]
    pub text: Option<String>,
    /// A JSON file with an array of texts.
    #[arg(long, conflicts_with = "text")]
    pub texts: Option<PathBuf>,
    /// mean, cls or last; by itself what the file says.
    #[arg(long)]
    pub pooling: Option<String>,
    /// Leave vectors as long as they come, instead of scaling them to length 1.
    #[arg(long)]
    pub no_normalize: bool,
    /// Only the first so many numbers.
    #[arg(long)]
    pub dimensions: Option<u32>,
}

/// Arguments of `generate`: the options of JavaScript in kebab-case.
#[derive(Args)]
pub struct Generate {
    /// A GGUF file, or a directory of safetensors.
    pub model: PathBuf,
    /// The text to continue.
    #[arg(long, allow_hyphen_values = true, required_unless_present_any = ["ids", "messages"])]
    pub prompt: Option<String>,
    /// Ids to continue, separated by commas.
    #[arg(long, conflicts_with_all = ["prompt", "messages"])]
    pub ids: Option<Ids>,
    /// A JSON file with an array of messages to answer.
    #[arg(long, conflicts_with = "prompt")]
    pub messages: Option<PathBuf>,
    /// A JSON file with an array of tools for the chat template.
    #[arg(long)]
    pub tools: Option<PathBuf>,
    /// A JSON file with an object of further variables of the chat template, such as enable_thinking.
    #[arg(long)]
    pub vars: Option<PathBuf>,
    /// A Jinja template for the messages instead of the model's.
    #[arg(long, requires = "messages")]
    pub template: Option<PathBuf>,
    /// The most tokens to sample; as many as the context holds by default.
    #[arg(long)]
    pub max_tokens: Option<u32>,
    /// A stop string; may be given more than once.
    #[arg(long, allow_hyphen_values = true)]
    pub stop: Vec<String>,
    /// Go on past end-of-generation tokens.
    #[arg(long)]
    pub ignore_eos: bool,
    /// Read the text of control tokens in the prompt as those tokens.
    #[arg(long)]
    pub special: bool,
    /// 0 takes the most probable token; 1 (the default) leaves the distribution as it is.
    #[arg(long)]
    pub temperature: Option<f32>,
    /// Keep the k most probable tokens; 0 keeps all.
    #[arg(long)]
    pub top_k: Option<u32>,
    /// Keep the smallest set of tokens whose probability reaches p.
    #[arg(long)]
    pub top_p: Option<f32>,
    /// Keep tokens at least p times as probable as the most probable one.
    #[arg(long)]
    pub min_p: Option<f32>,
    /// Keep the tokens whose surprise is nearest the expected one, up to p.
    #[arg(long)]
    pub typical_p: Option<f32>,
    /// Divides the logits of tokens that occurred; 1 is off.
    #[arg(long)]
    pub repetition_penalty: Option<f32>,
    /// Subtracted from a logit for each time its token occurred; 0 is off.
    #[arg(long, allow_hyphen_values = true)]
    pub frequency_penalty: Option<f32>,
    /// Subtracted from the logit of every token that occurred; 0 is off.
    #[arg(long, allow_hyphen_values = true)]
    pub presence_penalty: Option<f32>,
    /// How many of the last tokens the penalties see; all by default.
    #[arg(long)]
    pub penalty_window: Option<u32>,
    /// A JSON object of {id: bias}.
    #[arg(long)]
    pub logit_bias: Option<String>,
    /// The same seed gives the same text.
    #[arg(long)]
    pub seed: Option<u64>,
}

/// Arguments of `bench`.
#[derive(Args)]
pub struct Bench {
    /// A GGUF file, or a directory of safetensors.
    #[arg(required_unless_present = "synthetic")]
    pub model: Option<PathBuf>,
    /// A model by name instead, with noise for weights and nothing to download, such as llama-3.2-1b:q4_k.
    #[arg(long, conflicts_with = "model")]
    pub synthetic: Option<String>,
    /// Context lengths, separated by commas; 0,512,2048,8192 by default, within the model's context.
    #[arg(long)]
    pub contexts: Option<Ids>,
    /// Tokens of a prompt; 512 by default, on a CPU adapter 128.
    #[arg(long)]
    pub prompt_tokens: Option<u32>,
    /// Tokens to decode after each context; 128 by default, on a CPU adapter 32.
    #[arg(long)]
    pub max_tokens: Option<u32>,
    /// Runs; medians are reported. 3 by default, of a profile 20.
    #[arg(long)]
    pub runs: Option<u32>,
    /// Times each kernel instead, in a compute pass of its own, after each of the contexts (0 by default). No rates.
    #[arg(long, conflicts_with_all = ["prompt_tokens", "max_tokens"])]
    pub profile: bool,
    /// Writes the JSON object into this file as well.
    #[arg(long)]
    pub out: Option<PathBuf>,
}
