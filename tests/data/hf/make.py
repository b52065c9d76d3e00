"""Makes the model directories beside this file, their golden logits, and the split GGUF file of tests/data/split.

Needs torch, transformers and gguf (`pip install torch transformers gguf`), and a GGUF file to take each vocabulary from:

    python make.py FIXTURES [NAME...]

FIXTURES is the folder of the developers' fixtures (../shared/fixtures/models). Weights are seeded noise. Golden logits are
transformers', in f32, of the weights as they come out of each format: `quantize` of the `gguf` package and back.
"""
import copy
import json
import shutil
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import quants
from transformers import AutoConfig, AutoModelForCausalLM

HERE = Path(__file__).resolve().parent
FIXTURES = Path(sys.argv[1])

BASE = {
    "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 32, "max_position_embeddings": 256, "tie_word_embeddings": True, "vocab_size": 512,
}
SPM = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
BYTES = {"bos_token_id": 511, "eos_token_id": 511, "pad_token_id": 509}
# name: (model type, dtype, fixture whose vocabulary it has, its pre-tokenizer, most bytes of a shard, what differs from BASE)
MODELS = {
    "llama": ("llama", torch.float16, "q-llama", None, "110KB", {**SPM, "intermediate_size": 96, "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
                            "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}),
    "qwen2": ("qwen2", torch.bfloat16, "q-qwen3", "qwen2", "5GB", {**BYTES}),
    "qwen3": ("qwen3", torch.bfloat16, "q-qwen3", "qwen2", "5GB", {**BYTES, "head_dim": 64}),
    "gemma2": ("gemma2", torch.bfloat16, "q-llama", None, "5GB", {**SPM, "sliding_window": 32, "query_pre_attn_scalar": 32,
        "hidden_size": 32, "num_hidden_layers": 2, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 10.0}),
    "gemma3": ("gemma3_text", torch.bfloat16, "q-llama", None, "5GB", {**SPM, "sliding_window": 32, "query_pre_attn_scalar": 32,
        "num_hidden_layers": 6, "hidden_size": 32}),
    "phi3": ("phi3", torch.float16, "q-llama", None, "5GB", {**SPM, "head_dim": None}),
    "olmo2": ("olmo2", torch.float16, "q-qwen3", "qwen2", "5GB", {**BYTES, "head_dim": None}),
    "granite": ("granite", torch.float32, "q-qwen3", "qwen2", "5GB", {**BYTES, "head_dim": None,
        "hidden_size": 32, "num_attention_heads": 1,
        "attention_multiplier": 0.06, "embedding_multiplier": 6.0, "residual_multiplier": 0.5, "logits_scaling": 4.0}),
    "starcoder2": ("starcoder2", torch.float16, "q-qwen3", "qwen2", "5GB", {**BYTES, "head_dim": None}),
}
PRE = {
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
PROMPTS = {"short": [5, 260, 300, 7, 411, 33, 260, 90]}
PROMPTS["long"] = [(i * i * 7 + 3 * i) % 500 + 3 for i in range(50)]
FORMATS = {"none": None, "q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0}


def tokenizer_json(fixture, pre):
    """A tokenizer.json of a GGUF file's vocabulary, in the form that published ones have."""
    reader = gguf.GGUFReader(FIXTURES / fixture / "model.gguf")
    meta = {k: f.contents() for k, f in reader.fields.items() if k.startswith("tokenizer.ggml.")}
    tokens, types = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
    vocab = {token: i for i, token in enumerate(tokens)}
    added = [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, kind in enumerate(types) if kind in (2, 3)]
    if pre:
        model = {"type": "BPE", "unk_token": None, "byte_fallback": False, "ignore_merges": False, "vocab": vocab,
                 "merges": [merge.split(" ") for merge in meta["tokenizer.ggml.merges"]]}
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
        split = {"type": "Split", "pattern": {"Regex": PRE[pre]}, "behavior": "Isolated", "invert": False}
        return {"version": "1.0", "added_tokens": added, "normalizer": {"type": "NFC"}, "model": model,
                "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}, "decoder": byte_level}
    scores = dict(zip(tokens, meta["tokenizer.ggml.scores"]))
    found = []
    for token, kind in zip(tokens, types):
        if kind == 1:
            found += [(scores[token], cut, len(token) - cut, token) for cut in range(1, len(token))
                      if token[:cut] in vocab and token[cut:] in vocab]
    found.sort(key=lambda m: m[:3], reverse=True)
    model = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "ignore_merges": False, "vocab": vocab,
             "merges": [f"{token[:cut]} {token[cut:]}" for _, cut, _, token in found]}
    normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                                                      {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    return {"version": "1.0", "added_tokens": added, "normalizer": normalizer, "pre_tokenizer": None, "model": model, "decoder": None}


def as_stored(key, weight, kind):
    """A weight after a format and back; what is no matrix of whole blocks stays, and with four bits embedding and head have eight."""
    if kind == FORMATS["q4_0"] and key in ("model.embed_tokens.weight", "lm_head.weight"):
        kind = FORMATS["q8_0"]
    if kind is None or weight.ndim < 2 or weight.shape[-1] % 32:
        return weight
    rows = weight.float().numpy()
    return torch.from_numpy(quants.dequantize(quants.quantize(rows, kind), kind).reshape(rows.shape).copy())


def golden(model, config, folder):
    original = {k: v.clone() for k, v in model.state_dict().items()}
    floats, out = [], {"prompt_ids": PROMPTS, "vocab_size": config.vocab_size, "quantize": {}}
    for name, kind in FORMATS.items():
        model.load_state_dict({k: as_stored(k, v, kind) for k, v in original.items()})
        out["quantize"][name] = {}
        for prompt, ids in PROMPTS.items():
            with torch.no_grad():
                logits = model(torch.tensor([ids])).logits[0, -1].numpy()
            out["quantize"][name][prompt] = sum(len(f) for f in floats)
            floats.append(logits.astype(np.float32))
            if name == "none" and prompt == "long":
                print(f"  std of logits {logits.std():.2f}")
    greedy, margins = list(PROMPTS["short"]), []
    model.load_state_dict({k: as_stored(k, v, FORMATS["q8_0"]) for k, v in original.items()})
    for _ in range(16):
        with torch.no_grad():
            top = model(torch.tensor([greedy])).logits[0, -1].topk(2)
        greedy.append(int(top.indices[0]))
        margins.append(round(float(top.values[0] - top.values[1]), 4))
    out["greedy_q8_0"], out["greedy_margins"] = greedy[len(PROMPTS["short"]):], margins
    model.load_state_dict(original)
    np.concatenate(floats).tofile(folder / "golden.f32")
    (folder / "golden.json").write_text(json.dumps(out))


def make(name):
    kind, dtype, fixture, pre, shard, more = MODELS[name]
    settings = {k: v for k, v in {**BASE, **more}.items() if v is not None}
    config = AutoConfig.for_model(kind, **settings)
    config.dtype = dtype
    torch.manual_seed(sum(name.encode()) * 7919)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            spread = 0.3 if weight.ndim == 1 else 1.4 / weight.shape[-1] ** 0.5
            weight.normal_(0, spread)
            if weight.ndim == 1 and key.endswith("weight") and not kind.startswith("gemma"):
                weight += 1
            weight.copy_(weight.to(dtype).float())
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    # A copy: what is not a weight, such as the frequencies of rope, stays f32.
    copy.deepcopy(model).to(dtype).save_pretrained(folder, max_shard_size=shard)
    (folder / "generation_config.json").unlink(missing_ok=True)
    for file in folder.iterdir():
        file.chmod(0o644)
    # Of equal vocabularies one is enough; the others' tests borrow it.
    if name in ("llama", "qwen3"):
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(fixture, pre), ensure_ascii=False, separators=(",", ":")))
    print(name, sum(f.stat().st_size for f in folder.iterdir()))
    golden(model, config, folder)
    return model, config


def permuted(weight, heads):
    """Rows of a head in pairs, as GGUF's llama has them for interleaved rope."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def split_gguf(model, config):
    """The llama model as a GGUF file in three parts."""
    folder = HERE.parent / "split"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    writer = gguf.GGUFWriter(folder / "tiny.gguf", "llama", split_max_tensors=5)
    reader = gguf.GGUFReader(FIXTURES / "q-llama" / "model.gguf")
    for key in ("vocab_size", "context_length"):
        writer.add_uint32(f"llama.{key}", {"vocab_size": 512, "context_length": 256}[key])
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    for key, field in reader.fields.items():
        if key.startswith("tokenizer."):
            parts = field.types
            writer.add_key_value(key, field.contents(), parts[0], parts[1] if len(parts) > 1 else None)
    # Three halvings and more, by llama3's rule for its own rope.
    inv = model.model.rotary_emb.inv_freq.numpy()
    plain = config.rope_parameters["rope_theta"] ** (-np.arange(0, config.head_dim, 2) / config.head_dim)
    writer.add_tensor("rope_freqs.weight", (plain / inv).astype(np.float32))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for key, weight in model.state_dict().items():
        weight = weight.numpy()
        if "q_proj" in key or "k_proj" in key:
            weight = permuted(weight, config.num_attention_heads if "q_proj" in key else config.num_key_value_heads)
        kind = np.float32 if weight.ndim == 1 else np.float16
        writer.add_tensor(names.get_name(key, (".weight",)) + "", weight.astype(kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


for wanted in sys.argv[2:] or MODELS:
    made = make(wanted)
    if wanted == "llama":
        split_gguf(*made)
