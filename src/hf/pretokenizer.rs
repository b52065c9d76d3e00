//! Which of GGUF's pre-tokenizers a `tokenizer.json` has: it spells out the steps, GGUF has names for them.

use serde_json::Value;

use crate::err;
use crate::error::Result;

/// The steps, one a line, as [`steps`] writes them, and the names: as it is, with normalization to NFC before it, and with whole
/// pieces that are tokens left unmerged (`ignore_merges`). Empty where there is no such name. gpt-4o and tekken were made of
/// lists in which merging reaches every token, so that it is the same with and without.
const KNOWN: &[(&str, [&str; 3])] = &[
    ("gpt2", ["gpt-2", "olmo", ""]),
    ("digits\ngpt2", ["smollm", "command-r", ""]),
    (
        r"split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ["dbrx", "", "llama-bpe"],
    ),
    (
        r"split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ["bailingmoe", "qwen2", ""],
    ),
    (
        r"split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ["", "qwen35", ""],
    ),
    (
        r"split [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ["gpt-4o", "", "gpt-4o"],
    ),
    (
        r"split [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ["tekken", "", "tekken"],
    ),
    (
        "split \\p{N}{1,3}\nsplit [\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+\nsplit [!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        ["deepseek-v3", "", ""],
    ),
];

/// GGUF's name of a byte-level tokenizer's steps.
///
/// # Errors
/// `unsupported-tokenizer` with the steps, where they are none that has a name.
pub(super) fn name(normalizer: &Value, pre_tokenizer: &Value, ignore_merges: bool) -> Result<&'static str> {
    let composed = match normalizer.get("type").and_then(Value::as_str) {
        None => false,
        Some("NFC") => true,
        // None of several is none.
        Some("Sequence") if normalizer["normalizers"].as_array().is_some_and(Vec::is_empty) => false,
        Some(other) => {
            return Err(err!(
                UnsupportedTokenizer,
                "tokenizer.json: expected no normalizer, or NFC, before bytes, found {other:.50}"
            ));
        }
    };
    let mut lines = Vec::new();
    steps(pre_tokenizer, &mut lines)?;
    let steps = lines.join("\n");
    let column = if ignore_merges { 2 } else { usize::from(composed) };
    let found = KNOWN.iter().find(|(known, _)| *known == steps).map(|(_, names)| names[column]);
    found.filter(|name| !(name.is_empty() || composed && ignore_merges)).ok_or_else(|| {
        err!(
            UnsupportedTokenizer,
            "tokenizer.json: its pre-tokenizer is none of those that have a name in GGUF: {steps:.300?}{}{}",
            if composed { ", after NFC" } else { "" },
            if ignore_merges { ", with ignore_merges" } else { "" }
        )
    })
}

/// What is done to a text before merging, one line a step.
fn steps(value: &Value, lines: &mut Vec<String>) -> Result<()> {
    let of = |key: &str| value.get(key);
    let is = |key: &str| of(key) == Some(&Value::Bool(true));
    let unknown = || err!(UnsupportedTokenizer, "tokenizer.json: the pre-tokenizer {:.200} is not supported", value.to_string());
    match of("type").and_then(Value::as_str) {
        Some("Sequence") => {
            for step in of("pretokenizers").and_then(Value::as_array).ok_or_else(unknown)? {
                steps(step, lines)?;
            }
        }
        Some("ByteLevel") if !is("add_prefix_space") => {
            if of("use_regex") != Some(&Value::Bool(false)) {
                lines.push("gpt2".into());
            }
        }
        Some("Digits") if is("individual_digits") => lines.push("digits".into()),
        Some("Split") => {
            let regex = value["pattern"]["Regex"].as_str().ok_or_else(unknown)?;
            // Both keep what matches as pieces, and the whole text matches.
            match (of("behavior").and_then(Value::as_str), is("invert")) {
                (Some("Isolated"), false) | (Some("Removed"), true) => {
                    // Some write line breaks as they are, others their escapes.
                    lines.push(format!("split {}", regex.replace('\r', "\\r").replace('\n', "\\n")));
                }
                _ => return Err(unknown()),
            }
        }
        _ => return Err(unknown()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{KNOWN, name};
    use crate::error::Code;

    /// A pre-tokenizer of these steps, as files have it.
    fn of(steps: &str) -> Value {
        let step = |step: &str| match step.strip_prefix("split ") {
            Some(regex) => json!({ "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated", "invert": false }),
            None if step == "digits" => json!({ "type": "Digits", "individual_digits": true }),
            None => json!({ "type": "ByteLevel", "add_prefix_space": false, "use_regex": true }),
        };
        let bytes = json!({ "type": "ByteLevel", "add_prefix_space": false, "use_regex": false });
        json!({ "type": "Sequence", "pretokenizers": steps.lines().map(step).chain([bytes]).collect::<Vec<_>>() })
    }

    #[test]
    fn every_known_one_is_found_by_its_steps() {
        let nfc = json!({ "type": "NFC" });
        for (steps, names) in KNOWN {
            let found =
                [(&Value::Null, false), (&nfc, false), (&Value::Null, true)].map(|(nfc, whole)| name(nfc, &of(steps), whole));
            for (found, expected) in found.into_iter().zip(names) {
                match found {
                    Ok(found) => assert_eq!(found, *expected),
                    Err(e) => assert!(expected.is_empty() && e.code == Code::UnsupportedTokenizer, "{steps}: {e}"),
                }
            }
        }
        let breaks = of(KNOWN[2].0.replace("\\r", "\r").replace("\\n", "\u{1}").as_str());
        let breaks: Value = serde_json::from_str(&breaks.to_string().replace("\\u0001", "\\n")).unwrap();
        assert_eq!(name(&Value::Null, &breaks, true).unwrap(), "llama-bpe");
    }

    #[test]
    fn others_are_refused() {
        for other in ["split a+", "gpt2\ngpt2", "digits", ""] {
            assert_eq!(name(&Value::Null, &of(other), false).unwrap_err().code, Code::UnsupportedTokenizer, "{other}");
        }
        let prefixed = json!({ "type": "ByteLevel", "add_prefix_space": true, "use_regex": true });
        for other in [prefixed, json!({ "type": "BertPreTokenizer" }), Value::Null, json!([1])] {
            assert_eq!(name(&Value::Null, &other, false).unwrap_err().code, Code::UnsupportedTokenizer, "{other}");
        }
    }
}
