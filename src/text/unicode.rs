//! Classes of characters, as the published regular expressions of pre-tokenizers name them.

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// A set of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Class(u16);

impl Class {
    /// Upper case and title case: `\p{Lu}\p{Lt}`.
    pub const UPPER: Self = Self(1);
    /// Lower case: `\p{Ll}`.
    pub const LOWER: Self = Self(2);
    /// Letters without case: `\p{Lm}\p{Lo}`.
    pub const UNCASED: Self = Self(4);
    /// `\p{M}`
    pub const MARK: Self = Self(8);
    /// `\p{N}`
    pub const NUMBER: Self = Self(16);
    /// `\s`: White_Space.
    pub const SPACE: Self = Self(32);
    /// `\p{P}`
    pub const PUNCTUATION: Self = Self(64);
    /// `\p{S}`
    pub const SYMBOL: Self = Self(128);
    /// Controls, formats and what is not assigned.
    pub const OTHER: Self = Self(256);
    /// `\p{L}`
    pub const LETTER: Self = Self::UPPER.or(Self::LOWER).or(Self::UNCASED);

    /// The union of two sets.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether a character is in the set.
    pub fn has(self, c: char) -> bool {
        self.0 & Self::of(c).0 != 0
    }

    /// The class of a character.
    pub fn of(c: char) -> Self {
        match c {
            'a'..='z' => return Self::LOWER,
            'A'..='Z' => return Self::UPPER,
            '0'..='9' => return Self::NUMBER,
            c if c.is_whitespace() => return Self::SPACE,
            _ => {}
        }
        use GeneralCategory as G;
        match c.general_category() {
            G::UppercaseLetter | G::TitlecaseLetter => Self::UPPER,
            G::LowercaseLetter => Self::LOWER,
            G::ModifierLetter | G::OtherLetter => Self::UNCASED,
            G::NonspacingMark | G::SpacingMark | G::EnclosingMark => Self::MARK,
            G::DecimalNumber | G::LetterNumber | G::OtherNumber => Self::NUMBER,
            G::ConnectorPunctuation
            | G::DashPunctuation
            | G::OpenPunctuation
            | G::ClosePunctuation
            | G::InitialPunctuation
            | G::FinalPunctuation
            | G::OtherPunctuation => Self::PUNCTUATION,
            G::MathSymbol | G::CurrencySymbol | G::ModifierSymbol | G::OtherSymbol => Self::SYMBOL,
            _ => Self::OTHER,
        }
    }
}

/// Punctuation as `tokenizers` has it: `\p{P}` and all of ASCII that is no letter, number, space or control.
pub(super) fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || Class::PUNCTUATION.has(c)
}

/// `\p{Han}`, the script, as of Unicode 16.
pub(super) fn is_han(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{2e99}' | '\u{2e9b}'..='\u{2ef3}' | '\u{2f00}'..='\u{2fd5}' | '\u{3005}' | '\u{3007}'
        | '\u{3021}'..='\u{3029}' | '\u{3038}'..='\u{303b}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{fa6d}' | '\u{fa70}'..='\u{fad9}' | '\u{16fe2}'..='\u{16fe3}' | '\u{16ff0}'..='\u{16ff1}'
        | '\u{20000}'..='\u{2a6df}' | '\u{2a700}'..='\u{2b739}' | '\u{2b740}'..='\u{2b81d}' | '\u{2b820}'..='\u{2cea1}'
        | '\u{2ceb0}'..='\u{2ebe0}' | '\u{2ebf0}'..='\u{2ee5d}' | '\u{2f800}'..='\u{2fa1d}' | '\u{30000}'..='\u{3134a}'
        | '\u{31350}'..='\u{323af}')
}

/// `[一-龥぀-ゟ゠-ヿ]`, of DeepSeek-V3.
pub(super) fn is_han_or_kana(c: char) -> bool {
    matches!(c, '\u{4e00}'..='\u{9fa5}' | '\u{3040}'..='\u{30ff}')
}

/// `[一-龥ࠀ-一가-퟿]`, of the first DeepSeek models: all from Samaritan to the last of Hangul but what lies between Han and
/// Hangul.
pub(super) fn is_deepseek_asian(c: char) -> bool {
    matches!(c, '\u{800}'..='\u{9fa5}' | '\u{ac00}'..='\u{d7ff}')
}

/// `[!-/:-~！-／：-～‘-‟　-。]`, of DeepSeek-LLM.
pub(super) fn is_deepseek_punctuation(c: char) -> bool {
    matches!(c, '!'..='/' | ':'..='~' | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff5e}' | '\u{2018}'..='\u{201f}'
        | '\u{3000}'..='\u{3002}')
}

/// The letters of DeepSeek-LLM: most of those that have case, as its tokenizer lists them.
pub(super) fn is_deepseek_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || DEEPSEEK_LETTERS.binary_search_by(|(first, last)| compare(*first, *last, u32::from(c))).is_ok()
}

fn compare(first: u32, last: u32, c: u32) -> std::cmp::Ordering {
    match c {
        c if c < first => std::cmp::Ordering::Greater,
        c if c > last => std::cmp::Ordering::Less,
        _ => std::cmp::Ordering::Equal,
    }
}

#[rustfmt::skip] // one a line would be a page
const DEEPSEEK_LETTERS: [(u32, u32); 82] = [
    (0xb5, 0xb5), (0xc0, 0xd6), (0xd8, 0xf6), (0xf8, 0x1ba), (0x1bc, 0x1bf), (0x1c4, 0x293), (0x295, 0x2af),
    (0x370, 0x373), (0x376, 0x377), (0x37b, 0x37d), (0x37f, 0x37f), (0x386, 0x386), (0x388, 0x38a), (0x38c, 0x38c),
    (0x38e, 0x3a1), (0x3a3, 0x3f5), (0x3f7, 0x481), (0x48a, 0x52f), (0x531, 0x556), (0x10a0, 0x10c5), (0x13a0, 0x13f5),
    (0x13f8, 0x13fd), (0x1c90, 0x1cba), (0x1cbd, 0x1cbf), (0x1d00, 0x1d2b), (0x1d6b, 0x1d77), (0x1d79, 0x1d9a),
    (0x1e00, 0x1f15), (0x1f18, 0x1f1d), (0x1f20, 0x1f45), (0x1f48, 0x1f4d), (0x1f50, 0x1f57), (0x1f59, 0x1f59),
    (0x1f5b, 0x1f5b), (0x1f5d, 0x1f5d), (0x1f5f, 0x1f7d), (0x1f80, 0x1fb4), (0x1fb6, 0x1fbc), (0x1fbe, 0x1fbe),
    (0x1fc2, 0x1fc4), (0x1fc6, 0x1fcc), (0x1fd0, 0x1fd3), (0x1fd6, 0x1fdb), (0x1fe0, 0x1fec), (0x1ff2, 0x1ff4),
    (0x1ff6, 0x1ffc), (0x2102, 0x2102), (0x2107, 0x2107), (0x210a, 0x2113), (0x2115, 0x2115), (0x2119, 0x211d),
    (0x2124, 0x2124), (0x2126, 0x2126), (0x2128, 0x2128), (0x212a, 0x212d), (0x212f, 0x2134), (0x2139, 0x2139),
    (0x213c, 0x213f), (0x2145, 0x2149), (0x214e, 0x214e), (0x2183, 0x2184), (0x2c00, 0x2c7b), (0x2c7e, 0x2ce4),
    (0x2ceb, 0x2cee), (0x2cf2, 0x2cf3), (0xa640, 0xa66d), (0xa680, 0xa69b), (0xa722, 0xa76f), (0xa771, 0xa787),
    (0xa78b, 0xa78e), (0xab70, 0xabbf), (0xfb00, 0xfb06), (0xfb13, 0xfb17), (0xff21, 0xff3a), (0xff41, 0xff5a),
    (0x10400, 0x1044f), (0x104b0, 0x104d3), (0x104d8, 0x104fb), (0x10c80, 0x10cb2), (0x10cc0, 0x10cf2),
    (0x118a0, 0x118df), (0x1e900, 0x1e943),
];
