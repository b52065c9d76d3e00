//! Token ids one at a time to text, in whole characters.

use super::tokenizer::Tokenizer;

/// Decodes a stream of tokens. A token may end in the middle of a character; what is incomplete waits for the next
/// token. All pieces together are what [`Tokenizer::decode`] gives for all ids.
#[derive(Debug, Clone)]
pub struct StreamDecoder {
    /// The bytes of a character that is not whole yet: at most three.
    held: Vec<u8>,
    at_start: bool,
    skip_special: bool,
}

impl StreamDecoder {
    /// A decoder. `at_start`: whether the tokens begin a text, so that the space which some models put before a text is
    /// taken off, rather than continue one. `skip_special` leaves control tokens out.
    pub fn new(at_start: bool, skip_special: bool) -> Self {
        Self { held: Vec::new(), at_start, skip_special }
    }

    /// The text that token `id` completes: none, or one or more whole characters. Bytes that can no longer become a
    /// character are U+FFFD. Ids that the vocabulary does not have give nothing.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        if self.skip_special && tokenizer.is_special(id) {
            return String::new();
        }
        let before = self.held.len();
        tokenizer.push_bytes(id, &mut self.held);
        if self.at_start && self.held.len() > before {
            self.at_start = false;
            if tokenizer.strips_leading_space() && self.held[0] == b' ' {
                self.held.remove(0);
            }
        }
        let mut text = String::new();
        let mut rest = self.held.as_slice();
        let keep = loop {
            match std::str::from_utf8(rest) {
                Ok(whole) => {
                    text.push_str(whole);
                    break 0;
                }
                Err(error) => {
                    let (whole, after) = rest.split_at(error.valid_up_to());
                    text.push_str(std::str::from_utf8(whole).unwrap_or(""));
                    let Some(bad) = error.error_len() else { break after.len() };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &after[bad..];
                }
            }
        };
        self.held.drain(..self.held.len() - keep);
        text
    }

    /// Whether the bytes of an incomplete character are held back.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// What is left at the end: U+FFFD for an unfinished character, or nothing.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}
