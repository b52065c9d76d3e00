//! Stop strings in a stream of text.

use crate::err;
use crate::error::Result;

/// Looks for stop strings across pieces of text, and holds back what may become one.
#[derive(Debug, Clone)]
pub struct StopMatcher {
    stops: Vec<String>,
    held: String,
    stopped: bool,
}

/// What [`StopMatcher::push`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matched {
    /// Text that is certain not to belong to a stop string.
    pub emit: String,
    /// Whether a stop string was completed. What stood before it has been emitted, and nothing comes after.
    pub stopped: bool,
}

impl StopMatcher {
    /// A matcher of `stops`; with none, text passes through. Errors: `bad-option` for an empty stop string.
    pub fn new(stops: Vec<String>) -> Result<Self> {
        if let Some(at) = stops.iter().position(String::is_empty) {
            return Err(err!(BadOption, "stop: expected strings of at least one character, found an empty one at {at}"));
        }
        Ok(Self { stops, held: String::new(), stopped: false })
    }

    /// Takes the next piece of text. Of several stop strings the one that is complete first wins, however the text is
    /// cut into pieces; of those that end together, the longest.
    pub fn push(&mut self, text: &str) -> Matched {
        if self.stopped {
            return Matched { emit: String::new(), stopped: true };
        }
        self.held.push_str(text);
        let found = self.stops.iter().filter_map(|stop| self.held.find(stop).map(|start| (start + stop.len(), start))).min();
        if let Some((_, start)) = found {
            self.stopped = true;
            self.held.truncate(start);
            return Matched { emit: std::mem::take(&mut self.held), stopped: true };
        }
        let keep = self.stops.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        Matched { emit: std::mem::replace(&mut self.held, rest), stopped: false }
    }

    /// Whether text that may begin a stop string is held back.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// What was held back, at the end of a text that has no stop string.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// The length of the longest end of `text` that is a beginning of `stop`, and not all of it.
fn overlap(text: &str, stop: &str) -> usize {
    let fits = |&at: &usize| at <= text.len() && text.ends_with(&stop[..at]);
    stop.char_indices().map(|(at, _)| at).rev().find(fits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let mut matcher = StopMatcher::new(stops.iter().map(|s| (*s).to_owned()).collect()).unwrap();
        let mut out = String::new();
        for piece in pieces {
            let m = matcher.push(piece);
            out += &m.emit;
            if m.stopped {
                assert_eq!(matcher.push("after").emit, "");
                return (out, true);
            }
        }
        (out + &matcher.finish(), false)
    }

    #[test]
    fn finds_stops_across_pieces() {
        assert_eq!(all(&["\n\nUser:"], &["Hi", "\n", "\nUs", "er: x"]), ("Hi".into(), true));
        assert_eq!(all(&["\n\nUser:"], &["Hi", "\n", "\nUs", "a"]), ("Hi\n\nUsa".into(), false));
        assert_eq!(all(&["aab"], &["a", "a", "a", "b", "c"]), ("a".into(), true));
        assert_eq!(all(&["日本"], &["今日", "本", "語"]), ("今".into(), true));
        assert_eq!(all(&["\u{e9}\u{e8}"], &["x\u{e9}", "y"]), ("x\u{e9}y".into(), false));
        assert_eq!(all(&[], &["as ", "it is"]), ("as it is".into(), false));
        assert!(StopMatcher::new(vec![String::new()]).is_err());
    }

    #[test]
    fn does_not_hold_what_cannot_match() {
        let mut matcher = StopMatcher::new(vec!["STOP".into()]).unwrap();
        assert_eq!(matcher.push("abc S").emit, "abc ");
        assert_eq!(matcher.push("TOx").emit, "STOx");
    }

    #[test]
    fn how_text_is_cut_does_not_matter() {
        let (text, stops) = ("xabcabbcabcd\u{e9}abe", ["abcd", "b\u{e9}", "bcabcd", "ca"]);
        let whole = all(&stops, &[text]);
        assert_eq!(whole, ("xab".into(), true));
        let pieces: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(all(&stops, &pieces.iter().map(String::as_str).collect::<Vec<_>>()), whole);
    }
}
