//! Pre-tokenizers: where byte-level BPE may not merge across. GGUF names one in `tokenizer.ggml.pre`.
//!
//! Each is published as a list of regular expressions, every one of which splits the pieces of the one before; here they
//! are [`Step`]s. `L`, `N`, `P` and `S` are Unicode's general categories, `\s` its White_Space.

use super::scan::{Lead, Letters, Step, Words};
use super::unicode::{Class, is_deepseek_asian, is_deepseek_letter, is_deepseek_punctuation, is_han_or_kana, is_punctuation};
use crate::err;
use crate::error::Result;

/// A pre-tokenizer, and what else the name in a file says of a tokenizer.
#[derive(Clone, Copy)]
pub(super) struct PreTokenizer {
    steps: &'static [Step],
    /// Whether texts are normalized to NFC before.
    pub nfc: bool,
    /// Whether a piece that is a token as it stands is not merged.
    pub whole_first: bool,
    /// Whether the beginning-of-sequence token goes first where the file does not say.
    pub add_bos: bool,
}

const fn each(of: fn(char) -> bool) -> Step {
    Step::Run { lead: Lead::Nothing, of, min: 1, max: 1 }
}

const fn run(lead: Lead, of: fn(char) -> bool) -> Step {
    Step::Run { lead, of, min: 1, max: usize::MAX }
}

fn number(c: char) -> bool {
    Class::NUMBER.has(c)
}

fn letter(c: char) -> bool {
    Class::LETTER.has(c)
}

/// `[^(\s|.,!?…。，、।۔،)]`
fn bloom(c: char) -> bool {
    !c.is_whitespace() && !"(|.,!?\u{2026}\u{3002}\u{ff0c}\u{3001}\u{964}\u{6d4}\u{60c})".contains(c)
}

const BREAKS: &[char] = &['\r', '\n'];
const BREAKS_OR_SLASH: &[char] = &['\r', '\n', '/'];
const NO_CLASS: Class = Class::SPACE;

/// The steps by name; the names are those of llama.cpp's converter, which are those of the first model of a kind.
static GPT2: [Step; 1] = [Step::Gpt2];
/// Each number character on its own, then GPT-2's between them.
static STARCODER: [Step; 2] = [each(number), Step::Gpt2];
static FALCON: [Step; 4] = [
    run(Lead::Nothing, is_punctuation),
    Step::Gpt2,
    run(Lead::Nothing, number),
    Step::Run { lead: Lead::Nothing, of: |c| c.is_ascii_digit(), min: 3, max: 3 },
];
static BLOOM: [Step; 1] = [run(Lead::Space, bloom)];
static VIKING: [Step; 2] = [run(Lead::Space, bloom), each(number)];
static DEEPSEEK_LLM: [Step; 6] = [
    each(|c| matches!(c, '\r' | '\n')),
    run(Lead::White, is_deepseek_letter),
    run(Lead::White, is_deepseek_punctuation),
    Step::TrailingSpace,
    run(Lead::Nothing, is_deepseek_asian),
    run(Lead::Nothing, number),
];
static DEEPSEEK_CODER: [Step; 5] = [
    each(|c| matches!(c, '\r' | '\n')),
    run(Lead::White, letter),
    run(Lead::White, |c| Class::PUNCTUATION.has(c)),
    run(Lead::Nothing, is_deepseek_asian),
    each(number),
];
static DEEPSEEK_V3: [Step; 3] =
    [Step::Run { lead: Lead::Nothing, of: number, min: 1, max: 3 }, run(Lead::Nothing, is_han_or_kana), Step::DeepSeek3];
static LLAMA3: [Step; 1] = [Step::Words(Words { letters: Letters::Of(Class::LETTER), digits: 3, apart: NO_CLASS, tail: BREAKS })];
static QWEN2: [Step; 1] = [Step::Words(Words { letters: Letters::Of(Class::LETTER), digits: 1, apart: NO_CLASS, tail: BREAKS })];
static QWEN35: [Step; 1] =
    [Step::Words(Words { letters: Letters::Of(Class::LETTER.or(Class::MARK)), digits: 1, apart: Class::MARK, tail: BREAKS })];
static SEED_CODER: [Step; 1] =
    [Step::Words(Words { letters: Letters::Of(Class::LETTER), digits: 1, apart: NO_CLASS, tail: &[] })];
static GPT4O: [Step; 1] = [Step::Words(Words {
    letters: Letters::Cased { contraction: true, han: false },
    digits: 3,
    apart: NO_CLASS,
    tail: BREAKS_OR_SLASH,
})];
static TEKKEN: [Step; 1] = [Step::Words(Words {
    letters: Letters::Cased { contraction: false, han: false },
    digits: 1,
    apart: NO_CLASS,
    tail: BREAKS_OR_SLASH,
})];
static KIMI_K2: [Step; 1] =
    [Step::Words(Words { letters: Letters::Cased { contraction: true, han: true }, digits: 3, apart: NO_CLASS, tail: BREAKS })];

impl PreTokenizer {
    /// The pre-tokenizer that `tokenizer.ggml.pre` names.
    ///
    /// Error: `unsupported-tokenizer`, with the name, where it is not known: a guess would give other tokens than those that
    /// the model was trained on.
    pub fn from_name(name: &str) -> Result<Self> {
        let plain = |steps: &'static [Step]| Self { steps, nfc: false, whole_first: false, add_bos: false };
        let composed = |steps: &'static [Step]| Self { nfc: true, ..plain(steps) };
        let whole = |steps: &'static [Step]| Self { whole_first: true, ..plain(steps) };
        Ok(match name {
            // Files from before there were names have none; most of their tokenizers are GPT-2's.
            "default" | "gpt-2" | "gpt2" | "phi-2" | "jina-es" | "jina-de" | "jina-v1-en" | "jina-v2-es" | "jina-v2-de"
            | "jina-v2-code" | "roberta-bpe" | "gigachat" | "a.x-4.0" | "mellum" | "jais" | "trillion" | "granite-docling"
            | "exaone4" => plain(&GPT2),
            "mpt" | "olmo" | "modern-bert" => composed(&GPT2),
            "starcoder" | "refact" | "codeshell" | "smollm" | "exaone" | "minerva-7b" => plain(&STARCODER),
            "command-r" => composed(&STARCODER),
            "falcon" => plain(&FALCON),
            "bloom" | "poro-chat" | "gpt3-finnish" => plain(&BLOOM),
            "viking" => plain(&VIKING),
            "deepseek-llm" => plain(&DEEPSEEK_LLM),
            "deepseek-coder" => plain(&DEEPSEEK_CODER),
            "deepseek-v3" | "hunyuan-dense" | "joyai-llm" => plain(&DEEPSEEK_V3),
            "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0" | "lfm2" => {
                Self { add_bos: true, ..whole(&LLAMA3) }
            }
            "dbrx" | "smaug-bpe" | "glm4" | "chatglm-bpe" => plain(&LLAMA3),
            "qwen2" | "deepseek-r1-qwen" | "megrez" | "stablelm2" | "hunyuan" => composed(&QWEN2),
            "bailingmoe" | "bailingmoe2" | "llada-moe" | "solar-open" | "grok-2" => plain(&QWEN2),
            "qwen35" => composed(&QWEN35),
            "seed-coder" => plain(&SEED_CODER),
            "gpt-4o" | "llama4" | "minimax-m2" => whole(&GPT4O),
            "tekken" => Self { add_bos: true, ..whole(&TEKKEN) },
            "kimi-k2" => plain(&KIMI_K2),
            _ => {
                return Err(err!(
                    UnsupportedTokenizer,
                    "tokenizer.ggml.pre: found the pre-tokenizer {name:?}, which this version does not know"
                ));
            }
        })
    }

    /// Calls `each` with the pieces of `text` in order; together they are the whole text.
    pub fn split<'a>(self, text: &'a str, mut each: impl FnMut(&'a str)) {
        split(self.steps, text, &mut each);
    }
}

/// Splits a text by the first step, and each piece by the others.
fn split<'a>(steps: &'static [Step], text: &'a str, each: &mut dyn FnMut(&'a str)) {
    let Some((step, others)) = steps.split_first() else { return each(text) };
    let (mut from, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let n = step.matches(rest);
        if n == 0 {
            // What matches nothing is a piece up to the next match.
            at += rest.ceil_char_boundary(step.skip(rest));
            continue;
        }
        if from < at {
            split(others, &text[from..at], each);
        }
        split(others, &text[at..at + n], each);
        at += n;
        from = at;
    }
    if from < at {
        split(others, &text[from..at], each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that stand for all steps.
    const NAMES: [&str; 15] = [
        "gpt-2",
        "starcoder",
        "falcon",
        "bloom",
        "viking",
        "deepseek-llm",
        "deepseek-coder",
        "deepseek-v3",
        "llama-bpe",
        "qwen2",
        "qwen35",
        "seed-coder",
        "gpt-4o",
        "tekken",
        "kimi-k2",
    ];

    fn split<'a>(name: &str, text: &'a str) -> Vec<&'a str> {
        let mut out = Vec::new();
        PreTokenizer::from_name(name).unwrap().split(text, |piece| out.push(piece));
        out
    }

    #[test]
    fn gpt2_splits_as_published() {
        let text = "I'm  here,\n\n it's 12a";
        assert_eq!(split("gpt-2", text), ["I", "'m", " ", " here", ",", "\n\n", " it", "'s", " 12", "a"]);
        assert_eq!(split("gpt-2", "   "), ["   "]);
        assert_eq!(split("gpt-2", " \u{a0}x"), [" ", "\u{a0}", "x"]);
        assert_eq!(split("gpt-2", "I'M don\u{2019}t"), ["I", "'", "M", " don", "\u{2019}", "t"]);
        assert_eq!(split("smollm", "a 12 b"), ["a", " ", "1", "2", " b"]);
    }

    #[test]
    fn llama3_splits_as_published() {
        let text = "I'LL (say) 12345!!\n\nx";
        assert_eq!(split("llama-bpe", text), ["I", "'LL", " (", "say", ")", " ", "123", "45", "!!\n\n", "x"]);
        assert_eq!(split("llama-bpe", "a \n \n  b"), ["a", " \n \n", " ", " b"]);
        assert_eq!(split("llama-bpe", "'\u{17f}x"), ["'\u{17f}", "x"]);
        assert_eq!(split("qwen2", "12 3"), ["1", "2", " ", "3"]);
        assert_eq!(
            split("gpt-4o", "camelCaseABC'LLx \u{e01}\u{e34}a//\n1234"),
            ["camel", "Case", "ABC'LL", "x", " \u{e01}\u{e34}a", "//\n", "123", "4"]
        );
    }

    /// The same pieces as Hugging Face's `tokenizers` with the published expressions; see tests/data/text/README.md.
    #[test]
    fn pieces_are_those_of_the_published_expressions() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/text/pieces.json");
        let golden: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let texts: Vec<&str> = golden["texts"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
        for name in NAMES {
            let all = golden["lengths"][name].as_array().unwrap();
            assert_eq!(all.len(), texts.len(), "{name}");
            for (text, lengths) in texts.iter().zip(all) {
                let found: Vec<u64> = split(name, text).iter().map(|piece| piece.chars().count() as u64).collect();
                let expected: Vec<u64> = lengths.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
                assert_eq!(found, expected, "{name} {text:?}: found {:?}", split(name, text));
            }
        }
    }

    #[test]
    fn pieces_of_any_text_are_the_text() {
        // xorshift: characters of every plane, and of those with a meaning here.
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let mut below = |n: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % n
        };
        let special: Vec<char> =
            " \n\r\t'sStlLdD12\u{b2}aZ\u{e9}\u{17f}\u{1c5}!/_\u{301}\u{4e00}\u{3042}\u{ac00}\u{200d}\u{3000}".chars().collect();
        for _ in 0..3000 {
            let text: String = (0..below(24))
                .filter_map(|_| match below(3) {
                    0 => char::from_u32(below(0x110000) as u32),
                    _ => special.get(below(special.len() as u64) as usize).copied(),
                })
                .collect();
            for name in NAMES {
                assert_eq!(split(name, &text).concat(), text, "{name}");
            }
        }
    }

    #[test]
    fn unknown_names_are_no_guess() {
        let error = PreTokenizer::from_name("tomorrow").err().unwrap();
        assert!(error.message.contains("\"tomorrow\"") && error.code.as_str() == "unsupported-tokenizer");
    }

    #[test]
    fn long_runs_take_linear_time() {
        // A million bytes of the kinds that backtracking engines fear.
        for unit in [" ", "\n", " \n", "'", "a", "A", "1", "!", "\u{a0}", "\u{301}", "\u{4e00}A", "\u{4e00}", "\0", " \0"] {
            let text = unit.repeat(1_000_000 / unit.len()) + "x";
            for name in NAMES {
                let mut total = 0;
                PreTokenizer::from_name(name).unwrap().split(&text, |piece| total += piece.len());
                assert_eq!(total, text.len());
            }
        }
    }
}
