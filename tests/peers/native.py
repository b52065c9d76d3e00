"""llama.cpp on the CPU: the yardstick. native.py MODEL.gguf PROMPT.txt THREADS TOKENS RUNS [plain] -> one JSON object.

`plain` leaves out the weight layouts for special instructions (AMX), on which it crashes where a sandbox forbids them.

Its C interface is called directly, since the Python class above it copies logits at every token. The figures are those of
pages/stopwatch.js: the prompt's tokens over the time to the first token, then the tokens after it.
"""

import ctypes
import json
import sys
import time
from importlib.metadata import version

import numpy as np
from llama_cpp import llama_cpp as c

CONTEXT = 1024
SEQUENCE = 0


def milliseconds():
    return time.perf_counter() * 1e3


class Session:
    def __init__(self, path, threads, plain):
        began = milliseconds()
        params = c.llama_model_default_params()
        params.use_extra_bufts = not plain
        params.n_gpu_layers = 0
        self.model = c.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            sys.exit(f"llama.cpp could not load {path}")
        params = c.llama_context_default_params()
        params.n_ctx = CONTEXT
        params.n_batch = params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = threads
        self.context = c.llama_init_from_model(self.model, params)
        self.vocabulary = c.llama_model_get_vocab(self.model)
        self.size = c.llama_vocab_n_tokens(self.vocabulary)
        self.load_ms = milliseconds() - began

    def tokenize(self, text):
        raw = text.encode()
        ids = (c.llama_token * CONTEXT)()
        count = c.llama_tokenize(self.vocabulary, raw, len(raw), ids, CONTEXT, True, False)
        if count < 0:
            sys.exit(f"the prompt has more than {CONTEXT} tokens")
        return list(ids[:count])

    def text(self, ids):
        pieces = []
        buffer = ctypes.create_string_buffer(256)
        for token in ids:
            length = c.llama_token_to_piece(self.vocabulary, token, buffer, len(buffer), 0, False)
            pieces.append(buffer.raw[: max(length, 0)])
        return b"".join(pieces).decode(errors="replace")

    def step(self, ids, position):
        """Computes `ids` from `position` on, and returns the most probable token after them."""
        batch = c.llama_batch_init(len(ids), 0, 1)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position + i, 1
            batch.seq_id[i][0] = SEQUENCE
            batch.logits[i] = i == len(ids) - 1
        batch.n_tokens = len(ids)
        status = c.llama_decode(self.context, batch)
        c.llama_batch_free(batch)
        if status != 0:
            sys.exit(f"llama_decode answered {status}")
        logits = c.llama_get_logits_ith(self.context, len(ids) - 1)
        return int(np.ctypeslib.as_array(logits, shape=(self.size,)).argmax())

    def run(self, prompt, tokens):
        c.llama_memory_clear(c.llama_get_memory(self.context), True)
        began = milliseconds()
        answer = [self.step(prompt, 0)]
        first = milliseconds()
        while len(answer) < tokens:
            answer.append(self.step(answer[-1:], len(prompt) + len(answer) - 1))
        last = milliseconds()
        return {
            "promptTokens": len(prompt),
            "tokens": tokens,
            "ttftMs": first - began,
            "prefillTps": len(prompt) / (first - began) * 1e3,
            "decodeTps": (tokens - 1) / (last - first) * 1e3 if tokens > 1 else None,
            "text": self.text(answer),
        }


def main():
    path, prompt_file, threads, tokens, runs, *rest = sys.argv[1:]
    quiet = c.llama_log_callback(lambda *_: None)  # held until the end: C keeps no reference
    c.llama_log_set(quiet, ctypes.c_void_p(0))
    c.llama_backend_init()
    session = Session(path, int(threads), plain=rest == ["plain"])
    with open(prompt_file, encoding="utf-8") as file:
        prompt = session.tokenize(file.read())
    session.run(prompt[:16], 2)
    measured = [session.run(prompt, int(tokens)) for _ in range(int(runs))]
    print(json.dumps({"version": version("llama-cpp-python"), "loadMs": session.load_ms, "runs": measured}))


main()
