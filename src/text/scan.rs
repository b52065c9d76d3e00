//! Scanners: what a published regular expression matches at the beginning of a text. Each takes time that is linear in
//! what it matches, whatever the text, where a backtracking engine gives up on long runs of white space.

use super::unicode::{Class, is_han};

/// One split of a text. What it matches is cut out, and what lies between two matches is a piece too.
pub(super) enum Step {
    /// `lead?[of]{min,max}`
    Run {
        /// What may stand before the run.
        lead: Lead,
        /// The characters of the run.
        of: fn(char) -> bool,
        /// The fewest and the most of them.
        min: usize,
        max: usize,
    },
    /// `\s+$`
    TrailingSpace,
    /// GPT-2's: `'s|'t|'re|'ve|'m|'ll|'d| ?L+| ?N+| ?[^\s L N]+|\s+(?!\S)|\s+`
    Gpt2,
    /// DeepSeek-V3's: `[ASCII punctuation][A-Za-z]+|[^\r\n L P S]?[L M]+| ?[P S]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
    DeepSeek3,
    /// Those made after GPT-4's.
    Words(Words),
}

/// What may stand before a run.
#[derive(Clone, Copy)]
pub(super) enum Lead {
    Nothing,
    /// A space.
    Space,
    /// Any white space: `\s`.
    White,
}

/// GPT-4's regular expression and its descendants; `A` is what `apart` holds:
/// `contraction|[^\r\n L N]?letters+|N{1,digits}| ?[^\s L N A]+[tail]*|\s*[\r\n]+|\s+(?!\S)|\s+`
pub(super) struct Words {
    /// How letters make words.
    pub letters: Letters,
    /// The most digits that stay together.
    pub digits: usize,
    /// What other characters must not be, besides space, letters and numbers.
    pub apart: Class,
    /// What goes with other characters, behind them.
    pub tail: &'static [char],
}

/// How letters make words.
#[derive(Clone, Copy)]
pub(super) enum Letters {
    /// `(?i:'s|'t|…)` is a piece, and then letters of these classes.
    Of(Class),
    /// `[Lu Lt Lm Lo M]*[Ll Lm Lo M]+|[Lu Lt Lm Lo M]+[Ll Lm Lo M]*`
    Cased {
        /// Whether a contraction may end a word: `(?i:'s|'t|…)?`
        contraction: bool,
        /// Whether Chinese characters stand alone: `\p{Han}+` goes before, and they are no letters of words.
        han: bool,
    },
}

impl Step {
    /// The length in bytes of the match that begins a text, or 0 where none does.
    pub fn matches(&self, text: &str) -> usize {
        match self {
            Self::Run { lead, of, min, max } => {
                let led = text.chars().next().filter(|&c| match lead {
                    Lead::Nothing => false,
                    Lead::Space => c == ' ',
                    Lead::White => c.is_whitespace(),
                });
                let lead = led.map_or(0, char::len_utf8);
                match counted(&text[lead..], *of, *min, *max) {
                    // `\s?` gives its character back where the run needs it.
                    0 if lead > 0 => counted(text, *of, *min, *max),
                    0 => 0,
                    n => lead + n,
                }
            }
            Self::TrailingSpace => {
                let n = run(text, char::is_whitespace);
                if n == text.len() { n } else { 0 }
            }
            Self::Gpt2 => gpt2(text),
            Self::DeepSeek3 => deepseek3(text),
            Self::Words(words) => words.matches(text),
        }
    }

    /// How far a text may be stepped over where nothing matches at its beginning: beyond one character only where that
    /// keeps the time linear.
    pub fn skip(&self, text: &str) -> usize {
        match self {
            Self::TrailingSpace => run(text, char::is_whitespace).max(1),
            _ => 1,
        }
    }
}

/// The length of `[of]{min,max}`.
fn counted(text: &str, of: fn(char) -> bool, min: usize, max: usize) -> usize {
    let (count, bytes) =
        text.chars().take(max).take_while(|&c| of(c)).fold((0, 0), |(count, bytes), c| (count + 1, bytes + c.len_utf8()));
    if count < min { 0 } else { bytes }
}

fn gpt2(text: &str) -> usize {
    if let Some(n) = contraction(text, false) {
        return n;
    }
    let kind = |c: char| match Class::of(c) {
        c if c == Class::SPACE || c == Class::NUMBER => c,
        Class::UPPER | Class::LOWER | Class::UNCASED => Class::LETTER,
        _ => Class::OTHER,
    };
    let body = text.strip_prefix(' ').unwrap_or(text);
    match body.chars().next().map(kind) {
        Some(Class::SPACE) | None => before_last_space(text),
        Some(class) => text.len() - body.len() + run(body, |c| kind(c) == class),
    }
}

fn deepseek3(text: &str) -> usize {
    let Some(first) = text.chars().next() else { return 0 };
    let after = &text[first.len_utf8()..];
    if first.is_ascii_punctuation() {
        let n = run(after, |c| c.is_ascii_alphabetic());
        if n > 0 {
            return 1 + n;
        }
    }
    const LETTER: Class = Class::LETTER.or(Class::MARK);
    const SIGN: Class = Class::PUNCTUATION.or(Class::SYMBOL);
    let letters = |s: &str| run(s, |c| LETTER.has(c));
    if !matches!(first, '\r' | '\n') && !Class::LETTER.or(SIGN).has(first) {
        let n = letters(after);
        if n > 0 {
            return first.len_utf8() + n;
        }
    }
    if LETTER.has(first) {
        return letters(text);
    }
    let body = text.strip_prefix(' ').unwrap_or(text);
    let n = run(body, |c| SIGN.has(c));
    if n > 0 {
        let end = text.len() - body.len() + n;
        return end + run(&text[end..], |c| matches!(c, '\r' | '\n'));
    }
    spaces(text)
}

impl Words {
    fn matches(&self, text: &str) -> usize {
        let Some(first) = text.chars().next() else { return 0 };
        let after = &text[first.len_utf8()..];
        let prefix = !matches!(first, '\r' | '\n') && !Class::LETTER.or(Class::NUMBER).has(first);
        match self.letters {
            Letters::Of(letter) => {
                if let Some(n) = contraction(text, true) {
                    return n;
                }
                let letters = |s: &str| run(s, |c| letter.has(c));
                let behind = if prefix { letters(after) } else { 0 };
                let n = if behind > 0 { first.len_utf8() + behind } else { letters(text) };
                if n > 0 {
                    return n;
                }
            }
            Letters::Cased { contraction: ends, han } => {
                if han {
                    let n = run(text, is_han);
                    if n > 0 {
                        return n;
                    }
                }
                let word = |word: fn(&str, bool) -> usize| {
                    let behind = if prefix { word(after, han) } else { 0 };
                    if behind > 0 { first.len_utf8() + behind } else { word(text, han) }
                };
                let n = match word(ends_low) {
                    0 => word(begins_high),
                    n => n,
                };
                if n > 0 {
                    let end = if ends { contraction(&text[n..], true) } else { None };
                    return n + end.unwrap_or(0);
                }
            }
        }
        if Class::NUMBER.has(first) {
            return counted(text, |c| Class::NUMBER.has(c), 1, self.digits);
        }
        let not = Class::SPACE.or(Class::LETTER).or(Class::NUMBER).or(self.apart);
        let body = text.strip_prefix(' ').unwrap_or(text);
        let n = run(body, |c| !not.has(c));
        if n > 0 {
            let end = text.len() - body.len() + n;
            return end + run(&text[end..], |c| self.tail.contains(&c));
        }
        spaces(text)
    }
}

/// Upper case, letters without case and marks; and the same with lower case. Chinese characters are left out where `han`.
fn high(c: char, han: bool) -> bool {
    Class::UPPER.or(Class::UNCASED).or(Class::MARK).has(c) && !(han && is_han(c))
}

fn low(c: char, han: bool) -> bool {
    Class::LOWER.or(Class::UNCASED).or(Class::MARK).has(c) && !(han && is_han(c))
}

/// `[high]*[low]+`: where no low character follows the high ones, the match ends behind the last of them that is both.
fn ends_low(text: &str, han: bool) -> usize {
    let high_end = run(text, |c| high(c, han));
    match run(&text[high_end..], |c| low(c, han)) {
        0 => text[..high_end].char_indices().rev().find(|&(_, c)| low(c, han)).map_or(0, |(at, c)| at + c.len_utf8()),
        n => high_end + n,
    }
}

/// `[high]+[low]*`
fn begins_high(text: &str, han: bool) -> usize {
    match run(text, |c| high(c, han)) {
        0 => 0,
        n => n + run(&text[n..], |c| low(c, han)),
    }
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`
fn spaces(text: &str) -> usize {
    match text[..run(text, char::is_whitespace)].rfind(['\r', '\n']) {
        Some(last) => last + 1,
        None => before_last_space(text),
    }
}

/// `\s+(?!\S)|\s+`: a run of white space, less its last character where something follows and the run has more.
fn before_last_space(text: &str) -> usize {
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

/// The length in bytes of the longest prefix whose characters are all `of`.
pub(super) fn run(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|c| !of(c)).unwrap_or(text.len())
}
