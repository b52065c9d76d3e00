//! Chat templates: those of vendors against transformers' renderings where the fixtures are, and small ones of our own
//! for what Jinja and Python do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::templates::{options, print, render};
use common::{data, shared, skip};
use rivulet::engine::Words;
use rivulet::error::Code;
use rivulet::gguf::{Metadata, Parsed, parse};
use rivulet::text::{ChatTemplate, DateTime, RenderOptions, Tokenizer, Value, to_value};
use serde_json::json;

#[test]
fn vendors_templates_render_as_in_transformers() {
    let Some(folder) = shared().map(|shared| shared.join("fixtures/chat")) else {
        return skip("chat/vendors", "needs ../shared/fixtures/chat: vendors' templates may not be copied");
    };
    // Read as template values: serde_json's own would sort the keys.
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(folder.join("golden.json")).unwrap()).unwrap();
    let get = |value: &Value, key: &str| value.get_attr(key).unwrap();
    let list = |value: &Value, key: &str| get(value, key).try_iter().unwrap().collect::<Vec<_>>();
    let now = DateTime::parse(get(&golden, "strftime_now_frozen_at").as_str().unwrap()).unwrap();
    let conversations = list(&golden, "conversations");
    let (mut equal, mut wrong) = (0, Vec::new());
    for entry in list(&golden, "templates") {
        let name = get(&entry, "template");
        let template = ChatTemplate::new(&std::fs::read_to_string(folder.join(name.as_str().unwrap())).unwrap());
        for rendering in list(&entry, "renderings") {
            let which = get(&rendering, "conversation");
            let conversation = conversations.iter().find(|c| get(c, "name") == which).unwrap();
            let extra = get(conversation, "extra_variables");
            let mut variables: Vec<(String, Value)> =
                extra.try_iter().unwrap().map(|key| (key.to_string(), extra.get_item(&key).unwrap())).collect();
            variables.extend(["bos_token", "eos_token"].map(|key| (key.to_owned(), get(&entry, key))));
            let options = RenderOptions {
                tools: Some(get(conversation, "tools")),
                variables: Value::from_pairs(variables),
                add_generation_prompt: get(&rendering, "add_generation_prompt").is_true(),
                now,
            };
            let found = template.as_ref().map_err(Clone::clone).and_then(|t| t.render(&get(conversation, "messages"), &options));
            let (expected, error) = (get(&rendering, "rendered"), get(&rendering, "error"));
            let fine = match (&found, expected.as_str()) {
                (Ok(text), Some(expected)) => text == expected,
                (Err(e), None) => {
                    let message = error.as_str().unwrap().trim_start_matches("TemplateError: ");
                    e.code == Code::BadTemplate && e.message.ends_with(message)
                }
                _ => false,
            };
            if fine {
                equal += 1;
            } else {
                wrong.push(format!("{name} {which}:\n  expected {expected:?} {error}\n  found {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} equal, {} not\n{}", equal, wrong.len(), wrong.join("\n"));
    assert_eq!(equal, 216);
}

#[test]
fn a_template_sees_its_messages() {
    let template = "{{ bos_token }}{% for m in messages %}
<{{ m.role }}>{{ m['content'] | trim }}
{% endfor %}
{% if add_generation_prompt %}
<assistant>
{%- endif %}";
    let template = ChatTemplate::new(template).unwrap();
    let messages = to_value(json!([{"role": "user", "content": " Hi! "}, {"role": "assistant", "content": "日本 <&>\n"}]));
    let mut options = options(json!({"bos_token": "<s>"}));
    assert_eq!(template.render(&messages, &options).unwrap(), "<s><user>Hi!\n<assistant>日本 <&>\n");
    options.add_generation_prompt = true;
    assert_eq!(template.render(&messages, &options).unwrap(), "<s><user>Hi!\n<assistant>日本 <&>\n<assistant>");
    for bad in [json!("text"), json!({"role": "user"}), json!(null)] {
        assert_eq!(template.render(&to_value(bad), &options).unwrap_err().code, Code::BadOption);
    }
    options.tools = Some(to_value(json!("none")));
    assert_eq!(template.render(&messages, &options).unwrap_err().code, Code::BadOption);
    options.tools = None;
    options.variables = to_value(json!([1]));
    assert_eq!(template.render(&messages, &options).unwrap_err().code, Code::BadOption);
}

#[test]
fn values_print_as_in_python() {
    // Expected values are Jinja2's.
    for (expression, expected) in [
        ("true", "True"),
        ("none", "None"),
        ("missing", ""),
        ("[1, 2.0, 'a', none, true]", "[1, 2.0, 'a', None, True]"),
        ("(1, 'x')", "(1, 'x')"),
        ("(1,)", "(1,)"),
        ("{'a': {'b': [1]}, 'c': \"it's\"}", "{'a': {'b': [1]}, 'c': \"it's\"}"),
        ("['\\n\\t\\\\', 'é', 'a\"\\'b']", "['\\n\\t\\\\', 'é', 'a\"\\'b']"),
        ("[]|string + {}|string", "[]{}"),
        ("1e16", "1e+16"),
        ("0.00001", "1e-05"),
        ("[0.0001, 1e15, 123456789.125]", "[0.0001, 1000000000000000.0, 123456789.125]"),
        ("7 // 2", "3"),
        ("7 / 2", "3.5"),
        ("2 ** 10", "1024"),
        ("'ab' * 2", "abab"),
        ("1 ~ 'a' ~ none", "1aNone"),
        ("[1, [2, 'x']]|join('-')", "1-[2, 'x']"),
        ("messages", "[]"),
        ("tools", "None"),
        ("tools is none", "True"),
        ("add_generation_prompt", "False"),
        ("documents is none", "True"),
        ("missing is defined", "False"),
        ("'x' is string and {} is mapping and [] is sequence and 1 is number", "True"),
        ("[1, 2, 3][::-1]", "[3, 2, 1]"),
        ("'hello'[1:-1]", "ell"),
        ("'<a>'", "<a>"),
    ] {
        assert_eq!(print(&format!("{{{{ {expression} }}}}")), expected, "{expression}");
    }
}

#[test]
fn methods_are_pythons() {
    for (expression, expected) in [
        ("' a '.strip() ~ '|' ~ ' a '.lstrip() ~ '|' ~ ' a '.rstrip()", "a|a | a"),
        ("'xxaxx'.strip('x')", "a"),
        ("'a,b,c'.split(',')", "['a', 'b', 'c']"),
        ("' a  b '.split()", "['a', 'b']"),
        ("'a,b,c'.split(',', 1)[-1]", "b,c"),
        ("'a,b,c'.rsplit(',', 1)", "['a,b', 'c']"),
        ("' a b  c '.rsplit(none, 1)", "[' a b', 'c']"),
        ("'a-b-c'.partition('-')[2] ~ 'a-b-c'.rpartition('-')[0]", "b-ca-b"),
        ("'abc'.startswith('ab') and 'abc'.endswith(('x', 'c'))", "True"),
        ("'abc'.removeprefix('a').removesuffix('c')", "b"),
        ("'aXa'.replace('a', 'b').upper().lower().title()", "Bxb"),
        ("'abc'.find('c') ~ 'abc'.index('b')", "21"),
        ("'{}-{}'.format(1, [2])", "1-[2]"),
        ("', '.join(['a', 'b'])", "a, b"),
        ("{'a': 1, 'b': 2}.items()|list", "[('a', 1), ('b', 2)]"),
        ("{'a': 1}.get('a') ~ {'a': 1}.get('b') ~ {'a': 1}.get('b', 3)", "1None3"),
        ("{'a': 1}.keys()|list ~ {'a': 1}.values()|list", "['a'][1]"),
        ("[1, 2, 1].count(1) ~ [1, 2].index(2)", "21"),
        ("strftime_now('%d %b %Y')", "15 Jan 2025"),
        ("namespace(a=1).a", "1"),
        ("range(3)|list", "[0, 1, 2]"),
        ("[{'r': 1}, {'r': 2}]|selectattr('r', 'equalto', 2)|map(attribute='r')|list", "[2]"),
        ("{'b': 1, 'a': 2}|dictsort", "[('a', 2), ('b', 1)]"),
        ("missing|default('x') ~ ''|default('y', true)", "xy"),
    ] {
        assert_eq!(print(&format!("{{{{ {expression} }}}}")), expected, "{expression}");
    }
}

#[test]
fn tojson_is_json_dumps() {
    let variables = || json!({"x": {"z": "<é'\"\\\n\u{1}>", "a": [1, 2.5, 1e100, null, true], "e": {}, "f": []}});
    let tojson = |call: &str| render(&format!("{{{{ {call} }}}}"), variables());
    // serde_json sorts the keys of `json!`, so here they are sorted; the order of keys is kept as it comes.
    let flat = r#"{"a": [1, 2.5, 1e+100, null, true], "e": {}, "f": [], "z": "<é'\"\\\n\u0001>"}"#;
    assert_eq!(tojson("x|tojson").unwrap(), flat);
    assert_eq!(print("{{ {'z': 1, 'a': 2, 3: none}|tojson }}"), r#"{"z": 1, "a": 2, "3": null}"#);
    assert_eq!(print("{{ {'b': 1, 'a': 2}|tojson(sort_keys=true, separators=(',', ':')) }}"), r#"{"a":2,"b":1}"#);
    assert_eq!(print("{{ 'é🚀'|tojson(ensure_ascii=true) }}"), r#""\u00e9\ud83d\ude80""#);
    assert_eq!(print("{{ [1, {'a': []}, []]|tojson(indent=2) }}"), "[\n  1,\n  {\n    \"a\": []\n  },\n  []\n]");
    assert_eq!(print("{{ ((1, 2),)|tojson(indent=none) }}"), "[[1, 2]]");
    assert_eq!(tojson("missing|tojson").unwrap_err().code, Code::BadTemplate);
    assert_eq!(tojson("x|tojson(colour=1)").unwrap_err().code, Code::BadTemplate);
}

#[test]
fn statements_are_jinjas() {
    assert_eq!(
        print(
            "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}"
        ),
        "013"
    );
    assert_eq!(print("{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}"), "3");
    assert_eq!(print("{% macro f(a, b='y') %}[{{ a }}{{ b }}]{% endmacro %}{{ f('x') }}{{ f(a=1, b=2) }}"), "[xy][12]");
    assert_eq!(
        print("{% for a, b in [(1, 2)] %}{{ loop.index0 }}{{ a }}{{ b }}{{ loop.last }}{% else %}none{% endfor %}"),
        "012True"
    );
    assert_eq!(print("{% for x in 'abc' %}{{ loop.previtem }}{{ loop.nextitem }},{% endfor %}"), "b,ac,b,");
    assert_eq!(print("{% set x %}a{{ 1 }}{% endset %}{{ x }}{%- raw %} {{ x }}{% endraw %}"), "a1 {{ x }}");
    assert_eq!(print("a\n  {% if true %}\nb\n  {% endif %}\nc\n"), "a\nb\nc");
    assert_eq!(print("a  {%- generation -%}  b  {%+ endgeneration %}c {%generation%}\nd{%- endgeneration %}"), "ab  c d");
    assert_eq!(print("{# {% generation %} #}{% filter upper %}x{% endfilter %}"), "X");
    assert_eq!(print("{% macro m() %}<{{ caller(1) }}>{% endmacro %}{% call(x) m() %}{{ x }}{% endcall %}"), "<1>");
}

#[test]
fn failures_say_where_and_why() {
    let fails = |template: &str, part: &str| {
        let error = render(template, json!({})).unwrap_err();
        assert_eq!(error.code, Code::BadTemplate, "{template}");
        assert!(error.message.contains(part), "{template}: {error}");
    };
    fails("a\n{{ raise_exception('no system role') }}", "line 2: no system role");
    fails("{% if %}", "line 1");
    fails("\n\n{% for x in %}{% endfor %}", "line 3");
    fails("{{ missing.attribute }}", "undefined");
    fails("{{ 'x'|nonsense }}", "nonsense");
    fails("{{ 'x'.nonsense() }}", "string has no method nonsense");
    fails("{{ nonsense() }}", "nonsense");
    fails("{% include 'other' %}", "");
    fails("{{ 1 + 'a' }}", "line 1");
    fails(&"x".repeat(300_000), "at most");
}

/// A tokenizer, and metadata of these strings.
fn file(keys: &[(&str, &str)]) -> (Tokenizer, Metadata) {
    let bytes = std::fs::read(data("text/tiny-qwen2.gguf-header")).unwrap();
    let Parsed::Header(mut header) = parse(&bytes, 1 << 40).unwrap() else { panic!("the header is whole") };
    let tokenizer = Tokenizer::from_metadata(&mut header.metadata).unwrap();
    let entries = keys.iter().map(|(key, text)| ((*key).to_owned(), rivulet::gguf::Value::String((*text).to_owned())));
    (tokenizer, Metadata::from_entries(entries.collect()))
}

#[test]
fn vendors_templates_take_long_conversations() {
    let Some(folder) = shared().map(|shared| shared.join("fixtures/chat/templates")) else {
        return skip("chat/vendors-long", "needs ../shared/fixtures/chat: vendors' templates may not be copied");
    };
    let conversation = |n: usize, text: &str| {
        let role = |i: usize| if i.is_multiple_of(2) { "user" } else { "assistant" };
        to_value((0..n).map(|i| json!({"role": role(i), "content": format!("{i} {text}")})).collect::<Vec<_>>())
    };
    let long = "the zebra ".repeat(500);
    let conversations =
        [conversation(401, &long), conversation(401, &("<think>".to_owned() + &long + "</think>x")), conversation(601, "Hi!")];
    let properties: serde_json::Value = (0..30)
        .map(|i| (format!("p{i}"), json!({"type": "string", "description": "x".repeat(80)})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let tool = |i: usize| json!({"type": "function", "function": {"name": format!("f{i}"), "description": "does", "parameters": {"type": "object", "properties": properties, "required": ["p1"]}}});
    let tools = to_value((0..40).map(tool).collect::<Vec<_>>());
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let template = ChatTemplate::new(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for (i, messages) in conversations.iter().enumerate() {
            for tools in [None, Some(tools.clone())] {
                let mut options = options(json!({"bos_token": "<s>", "eos_token": "</s>"}));
                options.tools = tools;
                let start = std::time::Instant::now();
                // Some take no tools, or no such messages, and say so.
                let result = template.render(messages, &options);
                println!("{:>5} ms {} {i} {:?}", start.elapsed().as_millis(), path.display(), result.as_ref().map(String::len));
                assert!(!result.is_err_and(|e| e.message.contains("expected less work")), "{} {i}", path.display());
            }
        }
    }
}

#[test]
fn a_file_brings_its_template() {
    let with = |keys: &[(&str, &str)]| -> Option<String> {
        let (tokenizer, meta) = file(keys);
        let template = ChatTemplate::from_metadata(&meta).unwrap()?.with_tokens_of(&tokenizer);
        let mut options = options(json!({}));
        let plain = template.render(&to_value(json!([])), &options).unwrap();
        options.tools = Some(to_value(json!([{"name": "f"}])));
        Some(plain + "/" + &template.render(&to_value(json!([])), &options).unwrap())
    };
    let main = ("tokenizer.chat_template", "main {{ eos_token }}");
    let tools = ("tokenizer.chat_template.tool_use", "tools {{ tools|length }}");
    assert_eq!(with(&[]), None);
    assert_eq!(with(&[("tokenizer.chat_template.rag", "x")]), None);
    assert_eq!(with(&[main]).unwrap(), "main <|im_end|>/main <|im_end|>");
    assert_eq!(with(&[("tokenizer.chat_template.default", "d")]).unwrap(), "d/d");
    assert_eq!(with(&[tools, main]).unwrap(), "main <|im_end|>/tools 1");
}

#[test]
fn a_load_can_bring_its_own_template() {
    const KEY: &str = "tokenizer.chat_template";
    let render = |words: &Words| words.render(&to_value(json!([])), &options(json!({})));
    let words = |keys: &[(&str, &str)], option: Option<&str>| {
        let (tokenizer, meta) = file(keys);
        Words::new(tokenizer, &meta, option)
    };
    assert_eq!(render(&words(&[(KEY, "file")], Some("option {{ eos_token }}")).unwrap()).unwrap(), "option <|im_end|>");
    assert_eq!(render(&words(&[], Some("option")).unwrap()).unwrap(), "option");
    assert_eq!(words(&[(KEY, "file")], Some("{% if %}")).err().unwrap().code, Code::BadTemplate);
    // What is wrong with the file's is told where it is used, and the tokenizer is there all the same.
    for keys in [&[][..], &[(KEY, "{% if %}")], &[(KEY, "x"), ("tokenizer.chat_template.tool_use", "{{")]] {
        let words = words(keys, None).unwrap();
        let error = render(&words).unwrap_err();
        assert!(error.code == Code::BadTemplate && error.message.contains("the option `template`"), "{error}");
        assert!(words.tokenizer.vocab_len() > 0);
    }
    assert_eq!(render(&words(&[(KEY, "{% if %}")], Some("option")).unwrap()).unwrap(), "option");
}
