"""Makes pieces.json: how Hugging Face tokenizers cuts texts by the published regular expressions of pre-tokenizers.
Needs: pip install tokenizers. Run it in this folder."""
import json, random, unicodedata
from tokenizers import pre_tokenizers as P, Regex
def split(r): return P.Split(Regex(r), "isolated", False)
BL=P.ByteLevel(add_prefix_space=False,use_regex=True)
gpt2=r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
L="A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184Ⰰ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
C="(?i:'s|'t|'re|'ve|'m|'ll|'d)"
def words(d, l=r"\p{L}", a="", tail=r"[\r\n]*"):
    return C+r"|[^\r\n\p{L}\p{N}]?["+l+r"]+|\p{N}{1,"+str(d)+r"}| ?[^\s\p{L}"+a+r"\p{N}]+"+tail+r"|\s*[\r\n]+|\s+(?!\S)|\s+"
U=r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"; W=r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
def cased(U,W,c,d,tail,front=""):
    return front+r"[^\r\n\p{L}\p{N}]?"+U+"*"+W+"+"+c+r"|[^\r\n\p{L}\p{N}]?"+U+"+"+W+"*"+c+r"|\p{N}{1,"+str(d)+r"}| ?[^\s\p{L}\p{N}]+"+tail+r"|\s*[\r\n]+|\s+(?!\S)|\s+"
UH=r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"; WH=r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
bloom=" ?[^(\\s|[.,!?…。，、।۔،])]+"
ds3="[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
D=lambda i: split(r"\p{N}" if i else r"\p{N}+")
K={
"gpt-2":[split(gpt2)],
"starcoder":[P.Digits(True),split(gpt2)],
"falcon":[P.Punctuation("contiguous"),split(gpt2),P.Digits(False),split("[0-9][0-9][0-9]")],
"bloom":[split(bloom)],
"viking":[split(bloom),D(1)],
"deepseek-llm":[split("[\r\n]"),split(r"\s?["+L+"]+"),split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),split(r"\s+$"),split("[一-龥ࠀ-一가-퟿]+"),D(0)],
"deepseek-coder":[split("[\r\n]"),split(r"\s?\p{L}+"),split(r"\s?\p{P}+"),split("[一-龥ࠀ-一가-퟿]+"),D(1)],
"deepseek-v3":[split(r"\p{N}{1,3}"),split("[一-龥぀-ゟ゠-ヿ]+"),split(ds3)],
"llama-bpe":[split(words(3))],
"qwen2":[split(words(1))],
"qwen35":[split(words(1,r"\p{L}\p{M}",r"\p{M}"))],
"seed-coder":[split(C+r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+")],
"gpt-4o":[split(cased(U,W,C+"?",3,r"[\r\n/]*"))],
"tekken":[split(cased(U,W,"",1,r"[\r\n/]*"))],
"kimi-k2":[split(cased(UH,WH,C+"?",3,r"[\r\n]*",r"[\p{Han}]+|"))],
}
texts=[s["text"] for s in json.load(open("tiny-gpt-2.json"))["strings"] if len(s["text"])<400]
rng=random.Random(5)
special=list(" \n\r\t'sStlLdDreVE12345²½aZéſǅ!/_.,?()|\u0301\u0e34\u0e01一三〇あカ・゛가\u200d　\u00a0~$+<=>^`“”—।،।🚀\0Ⅷ🏽")
pool=[chr(c) for c in range(32,0x2fa1e) if unicodedata.category(chr(c)) not in("Cn","Cs","Co")]
for i in range(400):
    n=rng.randrange(1,16)
    texts.append("".join(rng.choice(special) if rng.random()<.8 else rng.choice(pool) for _ in range(n)))
out={"texts":texts,"lengths":{}}
for k,v in K.items():
    p=P.Sequence(v); o=[]
    for t in texts:
        ps=p.pre_tokenize_str(t); 
        assert "".join(x for x,_ in ps)==t,(k,t)
        o.append([len(x) for x,_ in ps])
    out["lengths"][k]=o
json.dump(out,open("pieces.json","w"),ensure_ascii=True,separators=(",",":"))
