//! Which model types there are, and how their names and keys are GGUF's. Data only.

/// What a configuration's `sliding_window` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// Nothing: there is none.
    None,
    /// Every this many layers one sees all, the others the window; GGUF has a key for it.
    Every(u32),
    /// All layers have it, and GGUF has no word for that. A context within the window is the same model: it is bounded to that.
    Bounds,
    /// As `Bounds`, where `use_sliding_window` says so.
    BoundsIfUsed,
}

/// How a metadata value is found in a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A whole number that must be there.
    Count,
    /// A whole number that may be absent.
    OptionalCount,
    /// A number that may be absent.
    OptionalNumber,
    /// A boolean that may be absent.
    OptionalFlag,
}

/// A key of the metadata without the architecture's name, where its value is found (the first place that has one), and as what.
pub(super) type Key = (&'static str, &'static [&'static str], Kind);

/// A tensor's name in a layer (or outside), and GGUF's. `*` stands for the number of an expert.
pub(super) type Name = (&'static str, &'static str);

/// A model type, as what differs from [`KEYS`] and [`NAMES`].
pub(super) struct Family {
    /// `model_type` in `config.json`.
    pub model_type: &'static str,
    /// `general.architecture`.
    pub architecture: &'static str,
    /// What `hidden_act` may be, since the architecture has no other.
    pub activations: &'static [&'static str],
    /// Keys beside [`KEYS`].
    pub keys: &'static [Key],
    /// Names before [`NAMES`].
    pub names: &'static [Name],
    /// Width of a head where the configuration is silent; 0: `hidden_size` divided by the number of heads.
    pub head_dim: u32,
    /// Rows of q and k are stored for rope that turns the halves of a head, and GGUF has them in pairs.
    pub pairs: bool,
    /// Norm weights are stored less 1.
    pub plus_one: bool,
    pub window: Window,
}

pub(super) const KEYS: &[Key] = &[
    ("block_count", &["num_hidden_layers"], Kind::Count),
    ("embedding_length", &["hidden_size"], Kind::Count),
    ("feed_forward_length", &["intermediate_size"], Kind::Count),
    ("attention.head_count", &["num_attention_heads"], Kind::Count),
    ("attention.head_count_kv", &["num_key_value_heads"], Kind::OptionalCount),
    ("attention.layer_norm_rms_epsilon", &["rms_norm_eps"], Kind::OptionalNumber),
    ("attention.layer_norm_epsilon", &["norm_epsilon", "layer_norm_eps"], Kind::OptionalNumber),
];

pub(super) const NAMES: &[Name] = &[
    ("embed_tokens", "token_embd"),
    ("norm", "output_norm"),
    ("lm_head", "output"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "ffn_norm"),
];

const SILU: &[&str] = &["silu", "swish"];
const GELU_TANH: &[&str] = &["gelu_pytorch_tanh", "gelu_new"];

const LLAMA: Family = Family {
    model_type: "llama",
    architecture: "llama",
    activations: SILU,
    keys: &[],
    names: &[],
    head_dim: 0,
    pairs: true,
    plus_one: false,
    window: Window::None,
};

/// Rope turns the halves of a head, as it is stored.
const NEOX: Family = Family { pairs: false, ..LLAMA };

const POST_NORMS: &[Name] = &[
    ("post_attention_layernorm", "post_attention_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
];

const GEMMA2: Family = Family {
    model_type: "gemma2",
    architecture: "gemma2",
    activations: GELU_TANH,
    keys: &[
        ("attn_logit_softcapping", &["attn_logit_softcapping"], Kind::OptionalNumber),
        ("final_logit_softcapping", &["final_logit_softcapping"], Kind::OptionalNumber),
    ],
    names: POST_NORMS,
    head_dim: 256,
    plus_one: true,
    window: Window::Every(2),
    ..NEOX
};

const EXPERTS: &[Key] = &[
    ("expert_count", &["num_experts", "num_local_experts"], Kind::Count),
    ("expert_used_count", &["num_experts_per_tok"], Kind::Count),
    ("expert_feed_forward_length", &["moe_intermediate_size"], Kind::OptionalCount),
];

const EXPERT_NAMES: &[Name] = &[
    ("mlp.gate", "ffn_gate_inp"),
    ("mlp.experts.*.gate_proj", "ffn_gate_exps"),
    ("mlp.experts.*.up_proj", "ffn_up_exps"),
    ("mlp.experts.*.down_proj", "ffn_down_exps"),
];

/// Every family there is.
pub(super) const FAMILIES: &[Family] = &[
    LLAMA,
    Family { model_type: "mistral", window: Window::Bounds, ..LLAMA },
    Family { model_type: "smollm3", architecture: "smollm3", ..LLAMA },
    Family {
        model_type: "granite",
        architecture: "granite",
        keys: &[
            ("attention.scale", &["attention_multiplier"], Kind::OptionalNumber),
            ("embedding_scale", &["embedding_multiplier"], Kind::OptionalNumber),
            ("residual_scale", &["residual_multiplier"], Kind::OptionalNumber),
            ("logit_scale", &["logits_scaling"], Kind::OptionalNumber),
        ],
        ..LLAMA
    },
    Family {
        model_type: "mixtral",
        keys: EXPERTS,
        names: &[
            ("block_sparse_moe.gate", "ffn_gate_inp"),
            ("block_sparse_moe.experts.*.w1", "ffn_gate_exps"),
            ("block_sparse_moe.experts.*.w2", "ffn_down_exps"),
            ("block_sparse_moe.experts.*.w3", "ffn_up_exps"),
        ],
        window: Window::Bounds,
        ..LLAMA
    },
    Family { model_type: "qwen2", architecture: "qwen2", window: Window::BoundsIfUsed, ..NEOX },
    Family { model_type: "qwen3", architecture: "qwen3", head_dim: 128, window: Window::BoundsIfUsed, ..NEOX },
    Family {
        model_type: "qwen3_moe",
        architecture: "qwen3moe",
        keys: EXPERTS,
        names: EXPERT_NAMES,
        head_dim: 128,
        window: Window::BoundsIfUsed,
        ..NEOX
    },
    Family { model_type: "olmoe", architecture: "olmoe", keys: EXPERTS, names: EXPERT_NAMES, ..NEOX },
    Family {
        model_type: "olmo2",
        architecture: "olmo2",
        names: &[("post_attention_layernorm", "post_attention_norm"), ("post_feedforward_layernorm", "post_ffw_norm")],
        ..NEOX
    },
    Family {
        model_type: "gemma",
        architecture: "gemma",
        activations: &["gelu", "gelu_pytorch_tanh"], // the first is what older files say for the second
        head_dim: 256,
        plus_one: true,
        ..NEOX
    },
    GEMMA2,
    Family { model_type: "gemma3_text", architecture: "gemma3", window: Window::Every(6), ..GEMMA2 },
    Family {
        model_type: "phi3",
        architecture: "phi3",
        names: &[("self_attn.qkv_proj", "attn_qkv"), ("mlp.gate_up_proj", "ffn_up")],
        window: Window::Bounds,
        ..NEOX
    },
    Family {
        model_type: "phi",
        architecture: "phi2",
        activations: &["gelu_new"],
        names: &[
            ("final_layernorm", "output_norm"),
            ("self_attn.dense", "attn_output"),
            ("mlp.fc1", "ffn_up"),
            ("mlp.fc2", "ffn_down"),
        ],
        ..NEOX
    },
    Family {
        model_type: "starcoder2",
        architecture: "starcoder2",
        activations: GELU_TANH,
        names: &[("mlp.c_fc", "ffn_up"), ("mlp.c_proj", "ffn_down")],
        window: Window::Bounds,
        ..NEOX
    },
    Family {
        model_type: "stablelm",
        architecture: "stablelm",
        keys: &[("use_parallel_residual", &["use_parallel_residual"], Kind::OptionalFlag)],
        ..NEOX
    },
];
