//! Makes a template pay for what minijinja does not charge for. Its fuel pays for instructions and for what they make, but a
//! comparison, a concatenation or a conversion to text visits all of a value, which may hold others many times over: sixty
//! times `{% set x = [x, x] %}` is a page of template and 2^60 elements.
//!
//! So filters are written into the source before it is compiled, behind operands: `a ~ b` becomes `a|__read ~ b|__read`. They hand
//! their value on and charge for it, in the order of what the operation costs; values that nest too deep, for a stack or for sense,
//! end there. What is assigned is checked too, so that nothing grows from one statement to the next unseen.
//!
//! Only tokens are looked at, in the way of minijinja's lexer, and each insertion is a filter behind a whole operand: what a
//! template means stays the same, whatever it says.

use minijinja::value::{Rest, StringInput, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::python::{charge_format, one_of, to_str};

/// The deepest nesting of values: that of real ones is a tenth of it.
const MAX_DEPTH: usize = 64;

/// Shares of a unit of fuel: one for each byte that is read, as in minijinja, and these for each value.
const SHARES: u64 = 64;
const VALUE_SHARES: u64 = 32;

/// Filters that do not look into the elements of what they are given. All others read it.
const SHALLOW: [&str; 23] = [
    "length",
    "count",
    "default",
    "d",
    "list",
    "first",
    "last",
    "select",
    "reject",
    "selectattr",
    "rejectattr",
    "map",
    "items",
    "reverse",
    "batch",
    "slice",
    "zip",
    "chain",
    "attr",
    "tojson",
    "string",
    "join",
    "bool",
];

/// Statements in Jinja's sense and operators that are words.
const KEYWORDS: [&str; 8] = ["in", "not", "and", "or", "if", "else", "is", "recursive"];
const CONSTANTS: [&str; 6] = ["true", "True", "false", "False", "none", "None"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Literal,
    Sign,
}

#[derive(Clone, Copy)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    end: usize,
}

impl Token<'_> {
    fn is(&self, text: &str) -> bool {
        self.kind != Kind::Literal && self.text == text
    }
}

/// A tag of a template: its tokens, and where it ends.
pub(super) struct Tag<'a> {
    tokens: Vec<Token<'a>>,
    /// How long it is, without its opening.
    pub length: usize,
    /// How many line breaks are in it.
    pub lines: usize,
}

impl<'a> Tag<'a> {
    /// Reads a tag from behind its opening up to `end`, which counts outside of brackets only. `offset`: where `text` is in the
    /// source.
    pub fn read(text: &'a str, end: &str, offset: usize) -> Self {
        let mut tokens = Vec::new();
        // White space control is no operator.
        let (mut at, mut depth) = (usize::from(text.starts_with(['-', '+'])), 0isize);
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            let closes = |s: &str| s.starts_with(end);
            if depth == 0 && (closes(rest) || (matches!(c, '-' | '+') && closes(&rest[1..]))) {
                break;
            }
            let (kind, length) = match c {
                c if c.is_whitespace() => {
                    at += c.len_utf8();
                    continue;
                }
                '"' | '\'' => (Kind::Literal, string(rest, c)),
                '0'..='9' => (Kind::Literal, number(rest)),
                c if c.is_alphanumeric() || c == '_' => {
                    (Kind::Word, rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len()))
                }
                _ => {
                    let two = ["//", "**", "==", "!=", ">=", "<="].iter().any(|sign| rest.starts_with(sign));
                    depth += match c {
                        '(' | '[' | '{' => 1,
                        ')' | ']' | '}' => -1,
                        _ => 0,
                    };
                    (Kind::Sign, if two { 2 } else { c.len_utf8() })
                }
            };
            at += length;
            tokens.push(Token { kind, text: &rest[..length], end: offset + at });
        }
        Self { tokens, length: at, lines: text[..at].matches('\n').count() }
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Appends what is to be inserted into the source: places and texts, those of one place in order.
    pub fn guard(&self, is_block: bool, insertions: &mut Vec<(usize, &'static str)>) {
        let tokens = self.tokens.as_slice();
        let Some(first) = tokens.first().filter(|_| is_block) else { return guard(tokens, false, insertions) };
        let depths = tokens.iter().scan(0, |depth: &mut isize, token| {
            *depth += bracket(token);
            Some(*depth)
        });
        let outside = |text: &str| depths.clone().zip(tokens).position(|(depth, token)| depth == 0 && token.is(text));
        match first.text {
            "set" => {
                // `{% set x | filter %}` … `{% endset %}` makes a string.
                let Some(at) = outside("=") else { return guard(&tokens[1..], false, insertions) };
                let (target, value) = tokens.split_at(at + 1);
                let [.., last] = value else { return };
                insertions.push((target[at].end, "("));
                guard(value, false, insertions);
                let of_namespace = target.iter().any(|token| token.is("."));
                insertions.push((last.end, if of_namespace { ")|__store" } else { ")|__keep" }));
            }
            "for" => guard(&tokens[outside("in").map_or(0, |at| at + 1)..], false, insertions),
            name => guard(&tokens[1..], name == "filter", insertions),
        }
    }
}

fn bracket(token: &Token) -> isize {
    match token.text {
        _ if token.kind != Kind::Sign => 0,
        "(" | "[" | "{" => 1,
        ")" | "]" | "}" => -1,
        _ => 0,
    }
}

/// The length of a string literal with its quotes.
fn string(text: &str, quote: char) -> usize {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

/// The length of a number: digits, and a fraction or exponent with digits of its own.
fn number(text: &str) -> usize {
    let digits = |s: &str| s.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(s.len());
    let whole = digits(text);
    let fraction = text[whole..].strip_prefix('.').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let mut length = whole + fraction.map_or(0, |rest| 1 + digits(rest));
    if text[..length].ends_with(['e', 'E']) && !text.starts_with("0x") {
        let signed = text[length..].strip_prefix(['-', '+']).filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        length += signed.map_or(0, |rest| 1 + digits(rest));
    }
    length
}

/// What an operation does with an operand, the cheaper first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// It goes over its elements.
    Sized,
    /// It reads all of it.
    Read,
}

/// Brackets around a place.
struct Open {
    /// What stood before, which is for the whole that these brackets end.
    pending: Option<Need>,
    /// Whether each argument is read.
    reads: bool,
    /// Whether it is `x[…]`.
    subscript: bool,
    /// Where the operand before these brackets starts, if there is one, and where they do.
    starts: (Term, usize),
    /// Which token opens them.
    at: usize,
    /// Whether it was found to be `x[…:…]`.
    slice: bool,
    /// Whether it is `{…}`, whose keys are read.
    map: bool,
}

/// The start of an operand.
#[derive(Clone, Copy)]
struct Term {
    start: usize,
    /// Whether it is a test's argument that has no brackets, and must not get any.
    argument: bool,
}

impl Term {
    /// Charges for a text of which a part is taken; `end` is where the operand ends.
    fn guard(self, end: usize, insertions: &mut Vec<(usize, &'static str)>) {
        let (before, behind) = if self.argument { ("[", "|__text][0]") } else { ("(", "|__text)") };
        insertions.extend([(self.start, before), (end, behind)]);
    }
}

/// Whether a subscript is that of an attribute, or so small that finding its place in a text costs nothing.
fn cheap(subscript: &[Token]) -> bool {
    matches!(subscript, [key] if key.kind == Kind::Literal && (key.text.starts_with(['"', '\'']) || key.text.len() <= 2))
}

/// Guards an expression. `filters`: it begins with the name of a filter.
fn guard(tokens: &[Token], filters: bool, insertions: &mut Vec<(usize, &'static str)>) {
    let mut open: Vec<Open> = Vec::new();
    // The need of the operator before an operand, until the operand ends.
    let mut pending = None;
    let mut after_term = false;
    let mut term = Term { start: 0, argument: false };
    let mut argument = false;
    for (i, token) in tokens.iter().enumerate() {
        let before = |n: usize| i.checked_sub(n).map(|at| &tokens[at]);
        let previous = |text: &str| before(1).is_some_and(|token| token.is(text));
        let next = tokens.get(i + 1);
        // A name whatever it is: of an attribute, a filter or a test.
        let negated = previous("not") && before(2).is_some_and(|token| token.is("is"));
        let test = token.kind == Kind::Word && ((previous("is") && !token.is("not")) || negated);
        let named = token.kind == Kind::Word && (previous(".") || previous("|") || test);
        let start = token.end - token.text.len();
        // Not in `x.y`, `x.0`, `x[y]` and `x(y)`, which go on with an operand.
        if !after_term && !named && !token.is(".") && !previous(".") {
            term = Term { start, argument };
        }
        argument = false;
        if previous(".") && token.kind == Kind::Literal && !cheap(&tokens[i..=i]) {
            term.guard(before(1).map_or(start, |dot| dot.end - 1), insertions);
        }
        if test && next.is_some_and(begins_argument) {
            after_term = false;
            argument = true;
            continue;
        }
        match token.text {
            _ if token.kind == Kind::Literal || named => after_term = true,
            "(" | "[" | "{" => {
                // `x.method(…)` and filters that read what they are given.
                let called = after_term && token.is("(");
                let name = before(1).filter(|name| name.kind == Kind::Word);
                let reads = called
                    && match before(2) {
                        Some(sign) if sign.is("|") => name.is_some_and(|name| !SHALLOW.contains(&name.text)),
                        Some(sign) => sign.is(".") || name.is_none(),
                        None => name.is_none_or(|name| filters && !SHALLOW.contains(&name.text)),
                    };
                let subscript = after_term && token.is("[");
                open.push(Open {
                    pending: pending.take(),
                    reads,
                    subscript,
                    starts: (term, start),
                    at: i,
                    slice: false,
                    map: token.is("{"),
                });
                after_term = false;
                continue;
            }
            ")" | "]" | "}" => {
                if let Some(open) = open.pop() {
                    pending = open.pending;
                    term = open.starts.0;
                    if open.subscript && !open.slice && !cheap(&tokens[open.at + 1..i]) {
                        term.guard(open.starts.1, insertions);
                    }
                }
                after_term = true;
            }
            text if token.kind == Kind::Word && !KEYWORDS.contains(&text) => after_term = true,
            // These go on with an operand.
            "." | "|" | "is" => {
                after_term = false;
                continue;
            }
            _ => {
                if let Some(around) = open.last_mut().filter(|open| token.is(":") && open.subscript && !open.slice) {
                    around.slice = true;
                    around.starts.0.guard(around.starts.1, insertions);
                }
                // An operator: of its operands the one before has ended; the one behind is to come.
                if after_term || token.is("in") {
                    pending = need(token, next);
                }
                after_term = false;
                continue;
            }
        }
        let goes_on = next.is_some_and(|next| next.is(".") || next.is("[") || next.is("("));
        if goes_on {
            continue;
        }
        let around = open.last();
        let followed = |text: &str| next.is_some_and(|next| next.is(text));
        let filtered = followed("|");
        let mut wants = next.and_then(|next| need(next, tokens.get(i + 2)));
        if filtered && tokens.get(i + 2).is_some_and(|name| !SHALLOW.contains(&name.text)) {
            wants = Some(Need::Read);
        }
        if let Some(around) = around {
            let argument = around.reads && (followed(",") || followed(")"));
            let key = (around.subscript && followed("]")) || (around.map && followed(":"));
            wants = if argument || key { Some(Need::Read) } else { wants };
        }
        // A filter or a test goes with its operand, so that what stands before waits for its result.
        if !filtered && !followed("is") {
            wants = wants.max(pending.take());
        }
        let constant = token.kind == Kind::Literal || (!named && CONSTANTS.contains(&token.text));
        match wants.filter(|_| !constant) {
            Some(Need::Read) => insertions.push((token.end, "|__read")),
            Some(Need::Sized) => insertions.push((token.end, "|__sized")),
            None => {}
        }
    }
}

/// Whether a test's only argument begins here, which needs no brackets.
fn begins_argument(token: &Token) -> bool {
    match token.kind {
        Kind::Literal => true,
        Kind::Word => !["and", "or", "else", "is"].contains(&token.text),
        Kind::Sign => ["+", "-", "[", "{"].contains(&token.text),
    }
}

/// What an operator does with its operands.
fn need(token: &Token, next: Option<&Token>) -> Option<Need> {
    match token.text {
        _ if token.kind == Kind::Literal => None,
        "==" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "in" => Some(Need::Read),
        "not" if next.is_some_and(|next| next.is("in")) => Some(Need::Read),
        "+" | "*" => Some(Need::Sized),
        _ => None,
    }
}

/// Adds what [`Tag::guard`] inserts, and tests, filters and functions that charge for what minijinja's do not.
pub(super) fn add(environment: &mut Environment) {
    environment.add_filter("__read", |state: &State, value: Value| read(state, &value).map(|()| value));
    environment.add_filter("__sized", |state: &State, value: Value| {
        let items = value.as_object().and_then(|_| value.len()).unwrap_or(0) as u64;
        state.consume_fuel(items / 16)?;
        Ok::<_, Error>(value)
    });
    // What is cut: the characters of a text are counted.
    environment.add_filter("__text", |state: &State, value: Value| {
        state.consume_fuel(value.as_str().map_or(0, str::len) as u64 / SHARES)?;
        Ok::<_, Error>(value)
    });
    environment.add_filter("__keep", |state: &State, value: Value| keep(state, value, false));
    environment.add_filter("__store", |state: &State, value: Value| keep(state, value, true));
    environment.add_filter("map", |state: &mut State, value: Value, args: Rest<ValueOrKwargs>| {
        // By an attribute it looks at no more than that; by a filter, at whatever that looks at.
        if !args.0.first().is_some_and(|first| first.is_kwargs()) {
            read(state, &value)?;
            args.0.iter().try_for_each(|arg| read(state, arg))?;
        }
        minijinja::filters::map(state, value, args)
    });
    environment.add_filter("chain", chain);
    for (names, compare) in COMPARISONS {
        for name in names {
            environment.add_test(*name, move |state: &State, a: &Value, b: &Value| {
                read(state, a)?;
                read(state, b)?;
                Ok::<_, Error>(compare(a, b))
            });
        }
    }
    environment.add_test("in", |state: &State, value: &Value, container: &Value| {
        read(state, value)?;
        read(state, container)?;
        Ok::<_, Error>(match container.as_str() {
            Some(text) => value.as_str().is_some_and(|value| text.contains(value)),
            None if container.kind() == ValueKind::Map => container.get_item(value).is_ok_and(|found| !found.is_undefined()),
            None => container.try_iter().is_ok_and(|mut items| items.any(|item| item == *value)),
        })
    });
    let text = |test: fn(&str, &str) -> bool| {
        move |state: &State, a: &Value, b: &Value| Ok::<_, Error>(test(&to_str(state, a)?, &to_str(state, b)?))
    };
    // These go over a text's characters.
    let cased = |test: fn(&Value) -> bool| {
        move |state: &State, value: &Value| {
            state.consume_fuel(value.as_str().map_or(0, str::len) as u64 / 16)?;
            Ok::<_, Error>(test(value))
        }
    };
    environment.add_filter("format", |state: &mut State, format: &Value, args: Rest<ValueOrKwargs>| {
        charge_format(state, format.as_str().unwrap_or_default(), '%', args.0.iter().map(|arg| &**arg))?;
        minijinja::filters::format(state, format, args)
    });
    environment.add_test("sameas", |state: &State, a: &Value, b: &Value| {
        state.consume_fuel(a.as_str().map_or(0, str::len) as u64 / SHARES)?;
        Ok::<_, Error>(minijinja::tests::is_sameas(a, b))
    });
    environment.add_test("lower", cased(minijinja::tests::is_lower));
    environment.add_test("upper", cased(minijinja::tests::is_upper));
    environment.add_filter("trim", |state: &State, value: Value, chars: Option<String>| {
        let text = StringInput::new(state, &value)?;
        let Some(chars) = chars else { return Ok::<_, Error>(minijinja::filters::trim(text, None)) };
        let matches = one_of(state, text.as_str(), &chars)?;
        let trimmed = text.as_str().trim_matches(matches).to_owned();
        Ok(if value.is_safe() { Value::from_safe_string(trimmed) } else { Value::from(trimmed) })
    });
    environment.add_test("startingwith", text(|a, b| a.starts_with(b)));
    environment.add_test("endingwith", text(|a, b| a.ends_with(b)));
    environment.add_function("raise_exception", |state: &State, message: Value| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, to_str(state, &message)?))
    });
    // It prints all there is.
    environment.add_function("debug", |_: Rest<ValueOrKwargs>| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, "debug: not for chat templates"))
    });
}

type Compare = fn(&Value, &Value) -> bool;
const COMPARISONS: [(&[&str], Compare); 6] = [
    (&["eq", "equalto", "=="], |a, b| a == b),
    (&["ne", "!="], |a, b| a != b),
    (&["lt", "lessthan", "<"], |a, b| a < b),
    (&["le", "<="], |a, b| a <= b),
    (&["gt", "greaterthan", ">"], |a, b| a > b),
    (&["ge", ">="], |a, b| a >= b),
];

/// The filter `chain`: all elements, or all entries of maps with the last of each key. minijinja's looks into its operands at
/// every access, and into those of theirs.
fn chain(state: &State, value: Value, others: Rest<Value>) -> Result<Value, Error> {
    let all = || std::iter::once(&value).chain(&others.0);
    if all().all(|value| value.kind() == ValueKind::Map) {
        let mut pairs = Vec::new();
        for map in all() {
            for key in map.try_iter()? {
                state.consume_fuel(1)?;
                let value = map.get_item(&key)?;
                pairs.push((key, value));
            }
        }
        return Ok(Value::from_pairs(pairs));
    }
    let mut items = Vec::new();
    for list in all() {
        for item in list.try_iter()? {
            state.consume_fuel(1)?;
            items.push(item);
        }
    }
    Ok(Value::from(items))
}

/// Charges for visiting all of a value, as often as it is held.
pub(super) fn read(state: &State, value: &Value) -> Result<(), Error> {
    let mut walk = Walk { state, owed: 0, bytes: true, namespaces: true };
    walk.visit(value, 0)?;
    walk.pay(1)
}

/// What is assigned: charges for its values, but not for their texts. A sequence that is only a view of another becomes a
/// list, since views of views cost more than they look. `in_namespace`: it must hold no namespace, or one could hold itself.
fn keep(state: &State, value: Value, in_namespace: bool) -> Result<Value, Error> {
    let value = match value.kind() {
        ValueKind::Iterable => {
            let mut items = Vec::new();
            for item in value.try_iter()? {
                items.push(item);
                if items.len() % 16 == 0 {
                    state.consume_fuel(1)?;
                }
            }
            Value::from(items)
        }
        ValueKind::Seq | ValueKind::Map | ValueKind::Plain => value,
        _ => return Ok(value),
    };
    let mut walk = Walk { state, owed: 0, bytes: false, namespaces: !in_namespace };
    walk.visit(&value, 0)?;
    walk.pay(1)?;
    Ok(value)
}

/// A walk through a value.
struct Walk<'a, 'b, 'c> {
    state: &'a State<'b, 'c>,
    owed: u64,
    bytes: bool,
    namespaces: bool,
}

impl Walk<'_, '_, '_> {
    fn visit(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.owed += VALUE_SHARES;
        if self.bytes {
            self.owed += value.as_str().map_or(0, str::len) as u64;
        }
        self.pay(SHARES * 16)?;
        let Some(object) = value.as_object() else { return Ok(()) };
        if depth == MAX_DEPTH {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("expected values nested at most {MAX_DEPTH} deep, found more"),
            ));
        }
        if !self.namespaces && object.type_name().ends_with("::Namespace") {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "expected a value to assign, found a namespace, which cannot be in another",
            ));
        }
        match value.kind() {
            ValueKind::Map => {
                for key in value.try_iter()? {
                    self.visit(&key, depth + 1)?;
                    self.visit(&value.get_item(&key)?, depth + 1)?;
                }
            }
            ValueKind::Seq | ValueKind::Iterable => {
                for item in value.try_iter()? {
                    self.visit(&item, depth + 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Pays what is owed once that is `least` shares.
    fn pay(&mut self, least: u64) -> Result<(), Error> {
        if self.owed >= least {
            self.state.consume_fuel(self.owed / SHARES)?;
            self.owed %= SHARES;
        }
        Ok(())
    }
}
