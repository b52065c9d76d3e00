//! Pre-tokenizers: where byte-level BPE may not merge across. GGUF names one in `tokenizer.ggml.pre`.
//!
//! Each is published as a regular expression; here they are scanners, whose time is linear in the text whatever it is
//! (a backtracking engine stops at runs of a million spaces), and which leave the regular expression engine and its
//! tables out of the wasm. `L` and `N` below are Unicode's general categories, `\s` its White_Space.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// A pre-tokenizer, by the family that published it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PreTokenizer {
    /// GPT-2: `'s|'t|'re|'ve|'m|'ll|'d| ?L+| ?N+| ?[^\s L N]+|\s+(?!\S)|\s+`
    Gpt2,
    /// SmolLM: each number character on its own, then GPT-2's between them.
    SmolLm,
    /// Llama 3 (`digits` 3) and Qwen2 (`digits` 1):
    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n L N]?L+|N{1,digits}| ?[^\s L N]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
    Llama3 { digits: usize },
}

impl PreTokenizer {
    /// The pre-tokenizer that `tokenizer.ggml.pre` names, or `None` where it is not known.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "gpt-2" | "gpt2" | "default" => Self::Gpt2,
            "smollm" => Self::SmolLm,
            "llama-bpe" => Self::Llama3 { digits: 3 },
            "qwen2" => Self::Llama3 { digits: 1 },
            _ => return None,
        })
    }

    /// Calls `each` with the pieces of `text` in order; together they are the whole text.
    pub fn split<'a>(self, text: &'a str, mut each: impl FnMut(&'a str)) {
        match self {
            Self::Gpt2 => pieces(text, gpt2, each),
            Self::Llama3 { digits } => pieces(text, |rest| llama3(rest, digits), each),
            Self::SmolLm => {
                let mut rest = text;
                while let Some(c) = rest.chars().next() {
                    let (piece, after) = if c.is_numeric() {
                        rest.split_at(c.len_utf8())
                    } else {
                        rest.split_at(rest.find(char::is_numeric).unwrap_or(rest.len()))
                    };
                    if c.is_numeric() {
                        each(piece)
                    } else {
                        pieces(piece, gpt2, &mut each)
                    }
                    rest = after;
                }
            }
        }
    }
}

/// Cuts `text` by a scanner that gives the length of the first piece in bytes (at least one character).
fn pieces<'a>(text: &'a str, scan: impl Fn(&str) -> usize, mut each: impl FnMut(&'a str)) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (piece, after) = rest.split_at(scan(rest).max(first.len_utf8()));
        each(piece);
        rest = after;
    }
}

fn gpt2(text: &str) -> usize {
    if let Some(n) = contraction(text, false) {
        return n;
    }
    let body = text.strip_prefix(' ').unwrap_or(text);
    let space = text.len() - body.len();
    match body.chars().next().map(Class::of) {
        Some(Class::Space) | None => white_space(text),
        Some(class) => space + run(body, |c| Class::of(c) == class),
    }
}

fn llama3(text: &str, digits: usize) -> usize {
    if let Some(n) = contraction(text, true) {
        return n;
    }
    let letters = |s: &str| run(s, |c| Class::of(c) == Class::Letter);
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return 0 };
    match Class::of(first) {
        Class::Letter => return letters(text),
        Class::Number => {
            let numbers = text.chars().take(digits).take_while(|&c| Class::of(c) == Class::Number);
            return numbers.map(char::len_utf8).sum();
        }
        // One character of any other kind, but no line break, belongs to the letters behind it.
        Class::Space | Class::Other if !matches!(first, '\r' | '\n') => {
            let n = letters(chars.as_str());
            if n > 0 {
                return first.len_utf8() + n;
            }
        }
        _ => {}
    }
    let body = text.strip_prefix(' ').unwrap_or(text);
    let n = run(body, |c| Class::of(c) == Class::Other);
    if n > 0 {
        let end = text.len() - body.len() + n;
        return end + run(&text[end..], |c| matches!(c, '\r' | '\n'));
    }
    let spaces = &text[..run(text, char::is_whitespace)];
    match spaces.rfind(['\r', '\n']) {
        Some(last) => last + 1,
        None => white_space(text),
    }
}

/// `\s+(?!\S)|\s+`: a run of white space, less its last character where something follows and the run has more.
fn white_space(text: &str) -> usize {
    let n = run(text, char::is_whitespace);
    if n == text.len() {
        return n;
    }
    let last = text[..n].chars().next_back().map_or(0, char::len_utf8);
    if n > last { n - last } else { n }
}

/// `'s|'t|'re|'ve|'m|'ll|'d`, in any case where `any_case`.
fn contraction(text: &str, any_case: bool) -> Option<usize> {
    let rest = text.strip_prefix('\'')?;
    let mut chars = rest.chars();
    let mut next = || {
        let c = chars.next().unwrap_or('\0');
        match c {
            // The long s is an s of another case, says Unicode.
            '\u{17f}' if any_case => ('s', c.len_utf8()),
            c if any_case => (c.to_ascii_lowercase(), c.len_utf8()),
            c => (c, c.len_utf8()),
        }
    };
    let (first, n) = next();
    if matches!(first, 's' | 't' | 'm' | 'd') {
        return Some(1 + n);
    }
    let (second, m) = next();
    matches!((first, second), ('r', 'e') | ('v', 'e') | ('l', 'l')).then_some(1 + n + m)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Number,
    Space,
    Other,
}

impl Class {
    fn of(c: char) -> Self {
        if c.is_ascii() {
            return match c {
                'a'..='z' | 'A'..='Z' => Self::Letter,
                '0'..='9' => Self::Number,
                c if c.is_whitespace() => Self::Space,
                _ => Self::Other,
            };
        }
        match c.general_category_group() {
            GeneralCategoryGroup::Letter => Self::Letter,
            GeneralCategoryGroup::Number => Self::Number,
            _ if c.is_whitespace() => Self::Space,
            _ => Self::Other,
        }
    }
}

/// The length in bytes of the longest prefix whose characters are all `of`.
fn run(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|c| !of(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pre: PreTokenizer, text: &str) -> Vec<&str> {
        let mut out = Vec::new();
        pre.split(text, |piece| out.push(piece));
        out
    }

    #[test]
    fn gpt2_splits_as_published() {
        let pre = PreTokenizer::Gpt2;
        assert_eq!(split(pre, "I'm  here,\n\n it's 12a"), ["I", "'m", " ", " here", ",", "\n\n", " it", "'s", " 12", "a"]);
        assert_eq!(split(pre, "   "), ["   "]);
        assert_eq!(split(pre, " \u{a0}x"), [" ", "\u{a0}", "x"]);
        assert_eq!(split(pre, "I'M don\u{2019}t"), ["I", "'", "M", " don", "\u{2019}", "t"]);
    }

    #[test]
    fn smollm_isolates_digits() {
        assert_eq!(split(PreTokenizer::SmolLm, "a 12 b"), ["a", " ", "1", "2", " b"]);
        assert_eq!(split(PreTokenizer::SmolLm, "x  1"), ["x", "  ", "1"]);
    }

    #[test]
    fn llama3_splits_as_published() {
        let pre = PreTokenizer::Llama3 { digits: 3 };
        assert_eq!(split(pre, "I'LL (say) 12345!!\n\nx"), ["I", "'LL", " (", "say", ")", " ", "123", "45", "!!\n\n", "x"]);
        assert_eq!(split(pre, "a \n \n  b"), ["a", " \n \n", " ", " b"]);
        assert_eq!(split(pre, "\tx\t\ty"), ["\tx", "\t", "\ty"]);
        assert_eq!(split(pre, "'\u{17f}x"), ["'\u{17f}", "x"]);
        assert_eq!(split(PreTokenizer::Llama3 { digits: 1 }, "12 3"), ["1", "2", " ", "3"]);
    }

    #[test]
    fn long_runs_take_linear_time() {
        // Five million characters of the kinds that backtracking engines fear.
        for unit in [" ", "\n", " \n", "'", "a", "1", "!", "\u{a0}"] {
            let text = unit.repeat(5_000_000 / unit.len()) + "x";
            for pre in [PreTokenizer::Gpt2, PreTokenizer::SmolLm, PreTokenizer::Llama3 { digits: 3 }] {
                let mut total = 0;
                pre.split(&text, |piece| total += piece.len());
                assert_eq!(total, text.len());
            }
        }
    }
}
