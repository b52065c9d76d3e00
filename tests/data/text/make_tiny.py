"""Trains the tiny Unigram and WordPiece vocabularies, and writes them as GGUF headers with the ids of Hugging Face's tokenizers.
Needs: pip install tokenizers sentencepiece gguf. Run it in this folder."""
import io, json, os, unicodedata
import gguf, sentencepiece
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

strings = [(s["name"], s["text"]) for s in json.load(open("tiny-gpt-2.json", encoding="utf-8"))["strings"]]
strings += [("cls_sep", "[CLS] a [SEP] b [MASK]</s><s>"), ("accents", "Caf\u00e9 CAFE\u0301 na\u00efve \u00c5ngstr\u00f6m \u304c \u00df \u0130"),
            ("forms", "\uff21\uff22\uff23 \ufb01ne \u00bd \u2460 \u3000x\u00a0y\u200bz \u1e9b\u0323 \uff76\uff9e"), ("long_word", "a" * 99 + " " + "b" * 101),
            ("han", "\u6c49\u5b57 and kana \u304b\u306a"), ("unknown", "\u2603\u2603 x\u2603y \u2603")]
corpus = [text for _, text in strings for _ in range(3)] + [
    "the quick brown fox jumps over the lazy dog", "The Quick Brown Fox", "she sells sea shells by the sea shore", "Caf\u00e9 au lait",
    "tokenizers split words into pieces", "a river runs through it, rivulet by rivulet", "12 34 567 8.9 $3"] * 8

def write(name, model, tokens, types, keys, scores=None):
    w = gguf.GGUFWriter(f"{name}.gguf-header", "bert")
    w.add_tokenizer_model(model); w.add_tokenizer_pre("default"); w.add_token_list(tokens); w.add_token_types(types)
    if scores is not None: w.add_token_scores(scores)
    for key, value in keys.items():
        (w.add_bool if isinstance(value, bool) else w.add_array if isinstance(value, bytes) else w.add_uint32)("tokenizer.ggml." + key, value)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

def golden(name, tokenizer):
    out = []
    for what, text in strings:
        entry = {"name": what, "text": text}
        for special in (True, False):
            tokenizer.encode_special_tokens = not special
            entry["hf_special_parsed" if special else "hf_special_as_text"] = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        entry["hf_with_bos_eos"] = tokenizer.encode(text).ids
        out.append(entry)
    json.dump({"tokenizer": name, "normalized": True, "strings": out}, open(f"{name}.json", "w", encoding="utf-8"), separators=(",", ":"))

for cased in (True, False):
    name = "tiny-wordpiece-" + ("cased" if cased else "uncased")
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(corpus, trainers.WordPieceTrainer(vocab_size=700, special_tokens=specials, limit_alphabet=200, show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    vocab = sorted(t.get_vocab().items(), key=lambda item: item[1])
    tokens = [text if i < 5 else text[2:] if text.startswith("##") else "\u2581" + text for text, i in vocab]
    write(name, "bert", tokens, [3 if i < 5 else 1 for i in range(len(tokens))],
          {"unknown_token_id": 1, "cls_token_id": 2, "seperator_token_id": 3, "padding_token_id": 0, "mask_token_id": 4})
    golden(name, t)

# A part of NFKC with SentencePiece's own rules for spaces: all of it would make a map of 240 KB.
rules = {c: " " for c in "\t\n\r\u00a0\u3000\u2003"} | {c: "" for c in "\u200e\ufeff"}
for c in [*range(0xa1, 0x100), *range(0x2460, 0x2474), *range(0xfb00, 0xfb07), *range(0xff01, 0xffa0)]:
    rules[chr(c)] = unicodedata.normalize("NFKC", chr(c))
for c in [*range(0xc0, 0x180), *range(0x304c, 0x30ff)]:
    if len(unicodedata.normalize("NFD", chr(c))) > 1: rules[unicodedata.normalize("NFD", chr(c))] = chr(c)
with open("rules.tsv", "w", encoding="utf-8") as f:
    for a, b in rules.items():
        if a != b: f.write(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n")

model = io.BytesIO()
sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus), model_writer=model, vocab_size=600, model_type="unigram", normalization_rule_tsv="rules.tsv",
                                         character_coverage=0.98, hard_vocab_limit=False, minloglevel=2)
os.remove("rules.tsv")
proto = pb.ModelProto.FromString(model.getvalue())
pieces = [(p.piece, p.score) for p in proto.pieces]
t = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=False))
t.normalizer = normalizers.Sequence([normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap), normalizers.Strip(left=False, right=True),
                                     normalizers.Replace(Regex(" {2,}"), "\u2581")])
t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
t.decoder = decoders.Metaspace(replacement="\u2581", prepend_scheme="always")
t.add_special_tokens(["<s>", "</s>", "<unk>"])
t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
write("tiny-unigram", "t5", [p for p, _ in pieces], [2 if i == 0 else 3 if i < 3 else 1 for i in range(len(pieces))],
      {"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "add_bos_token": True, "add_eos_token": True, "add_space_prefix": True,
       "remove_extra_whitespaces": True, "precompiled_charsmap": proto.normalizer_spec.precompiled_charsmap}, [s for _, s in pieces])
golden("tiny-unigram", t)
