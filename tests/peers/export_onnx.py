"""What transformers.js reads, made of the very GGUF that the others read: export_onnx.py MODEL.gguf FOLDER.

The weights are decoded to f32 and quantised once more by the vendor's own builder (ONNX has no Q4_1 with a float minimum), so
speed and bytes compare with the other runtimes and the answers do not. In FOLDER come to lie:

  webgpu-q4  4 bits, the head 8 bits and shared with the embedding
  wasm-q4    4 bits, the head 8 bits, the embedding f32: onnxruntime-web has no CPU kernel for a quantised one
  wasm-f32   unquantised
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

QUANTISED = ["block_size=32", "is_symmetric=false", "matmul_mixed_precision=last_matmul:int8"]
EXPORTS = {
    "webgpu-q4": ("model_q4.onnx", "int4", "webgpu", [*QUANTISED, "algo_config=rtn", "shared_embeddings=true", "use_webgpu_fp32=true"]),
    "wasm-q4": ("model_q4.onnx", "int4", "cpu", [*QUANTISED, "shared_embeddings=false"]),
    "wasm-f32": ("model.onnx", "fp32", "cpu", []),
}


def decode(gguf, folder):
    """Writes the weights as f32 safetensors, with config and tokenizer, in the layout of transformers."""
    place = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(
        **place, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    )
    # What was loaded is plain f32 now, and must be saved as such.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**place).save_pretrained(folder)
    return model.config


def export(weights, work, precision, provider, options):
    """Runs the builder of onnxruntime-genai and returns its graph with all weights inside."""
    out = work / f"{provider}-{precision}"
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", str(weights), "-o", str(out), "-p", precision]
    command += ["-e", provider, "-c", str(work / "cache"), "--extra_options", "prune_lm_head=true", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"onnxruntime-genai's builder failed:\n{done.stderr[-2000:]}")
    graph = onnx.load(out / "model.onnx")
    shutil.rmtree(out)
    return graph


def settle_cache(graph, head_dim):
    """The builder leaves the last dimension of the cache open, which transformers.js takes for 0; it is the head's."""
    for value in [*graph.graph.input, *graph.graph.output]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "kv_cache_dim":
                dim.dim_value = head_dim


def main():
    gguf, target = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        work = Path(scratch)
        weights = work / "weights"
        config = decode(gguf, weights)
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        for name, (file, precision, provider, options) in EXPORTS.items():
            graph = export(weights, work, precision, provider, options)
            settle_cache(graph, head_dim)
            (target / name / "onnx").mkdir(parents=True)
            onnx.save_model(graph, target / name / "onnx" / file, save_as_external_data=False)
            for extra in ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]:
                shutil.copy(weights / extra, target / name)
            print(f"{name}: {(target / name / 'onnx' / file).stat().st_size / 1e6:.0f} MB", flush=True)


main()
