//! Chat templates: those of vendors against transformers' renderings where the fixtures are, and small ones of our own
//! for what Jinja and Python do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Rng, data, shared, skip};
use rivulet::engine::Words;
use rivulet::error::{Code, Result};
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

fn options(variables: serde_json::Value) -> RenderOptions {
    let now = DateTime::parse("2025-01-15T12:30:45").unwrap();
    RenderOptions { tools: None, variables: to_value(variables), add_generation_prompt: false, now }
}

/// Renders a template with variables and no messages.
fn render(template: &str, variables: serde_json::Value) -> Result<String> {
    ChatTemplate::new(template)?.render(&to_value(json!([])), &options(variables))
}

fn print(template: &str) -> String {
    render(template, json!({})).unwrap_or_else(|e| panic!("{template}: {e}"))
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

#[test]
fn hostile_templates_end_soon() {
    // Two values of 2^60 elements each, from a page of template, and what looks at all of them.
    let nested = |open: &str, close: &str, n: usize, inner: &str| open.repeat(n) + inner + &close.repeat(n);
    let doubling = |print: &str| {
        "{% set x, y = 1, 1 %}".to_owned() + &nested("{% with x = [x, x], y = [y, y] %}", "{% endwith %}", 60, print)
    };
    let mut bombs = vec![
        "{{ 'a' * 10**9 }}".to_owned(),
        // What looks like a string in a comment or a raw block hides no tag from the bounds.
        format!("{{# {{{{ ' #}}{{{{ x{} }}}}{{# ' }}}} #}}", ".a".repeat(40_000)),
        format!("{{% raw %}}{{{{ '{{%- endraw %}}{{{{ x{} }}}}{{# ' }}}} #}}", ".a".repeat(40_000)),
        "{{ 'a' * 2**62 }}".to_owned(),
        "{{ [1] * 10**9 }}".to_owned(),
        "{{ [0] * 10**15 }}".to_owned(),
        "{{ ([1] * 10**12)|tojson }}".to_owned(),
        "{{ ([1] * 10**12)|join(',') }}".to_owned(),
        "{% for i in range(10**9) %}x{% endfor %}".to_owned(),
        "{{ range(10**12)|list }}".to_owned(),
        "{{ range(10**15)|sum }}".to_owned(),
        "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}"
            .to_owned(),
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".to_owned(),
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}".to_owned(),
        "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}".to_owned(),
        format!("{{% set x = 'abcdefgh' %}}{}{{{{ x }}}}", "{% set x = x ~ x %}".repeat(60)),
        format!("{{% set x = 'abcdefgh' %}}{}{{{{ x }}}}", "{% set x = x.replace('a', x) %}".repeat(60)),
        format!("{{% set x = 'abcdefgh' %}}{}{{{{ x }}}}", "{% set x = x.join([x, x]) %}".repeat(60)),
        format!("{{% set x = 'ab' %}}{}{{{{ x }}}}", "{% set x = '{0}{0}'.format(x) %}".repeat(60)),
        "{{ '%1000000000d' | format(1) }}".to_owned(),
        "{{ '{:1000000000}'.format(1) }}".to_owned(),
        "{{ 'x'|indent(10**9, true) }}".to_owned(),
        "{{ 1|tojson(indent=10**9) }}".to_owned(),
        "{{ 2 ** 10 ** 9 }}".to_owned(),
        doubling("{{ x }}"),
        doubling("{{ x|tojson }}"),
        doubling("{{ x|string }}"),
        doubling("{{ x|join }}"),
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}".to_owned(),
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns|tojson }}".to_owned(),
        format!("{{{{ (1{}", "+(1".repeat(5000)),
        format!("{{{{ {}{} }}}}", "[".repeat(5000), "]".repeat(5000)),
        "{% if 1 %}".repeat(5000),
        format!("{{{{ x{} }}}}", ".a".repeat(20000)),
        format!("{{{{ x{} }}}}", ".a".repeat(900)),
        format!("{{{{ 1{} }}}}", "+1".repeat(900)),
        format!("{{{{ 1{} }}}}", " ~ 1".repeat(900)),
        format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(900)),
        format!("{{{{ 1{} }}}}", " and 1".repeat(900)),
        format!("{{{{ x{} }}}}", "()".repeat(600)),
        format!("{{{{ x{} }}}}", "[1]".repeat(600)),
        format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(20_000)),
        format!("{{% set ns = namespace(x=1) %}}{{% for i in range(10**6) %}}{}{{% endfor %}}", "{% set ns.x = [ns.x] %}"),
        "{% set x = [x] %}".repeat(15_000),
        "{% set x = [x] %}".repeat(15_000) + "{{ x == x }}",
        format!("{{{{ 1{} }}}}", "|abs".repeat(20000)),
        format!("{{{{ {}1 }}}}", "not ".repeat(20000)),
        format!("{{{{ {}1 }}}}", "-".repeat(20000)),
    ];
    bombs.extend(
        [
            "{{ x ~ '' }}",
            "{{ '' ~ x }}",
            "{{ x == y }}",
            "{{ x != y }}",
            "{{ x < y }}",
            "{{ 1 == 1 == x == y }}",
            "{{ x in [y] }}",
            "{{ x not in [y] }}",
            "{{ [x, y] | sort }}",
            "{{ [x, y]|unique }}",
            "{{ [x, y]|min }}",
            "{{ {x: 1} }}",
            "{{ {'a': {x: 1}} }}",
            "{{ {}[x] }}",
            "{{ {}.get(x) }}",
            "{{ x.index(y) }}",
            "{{ [x].count(y) }}",
            "{{ x|upper }}",
            "{{ [x]|map('upper')|list }}",
            "{{ ['%s']|map('format', x)|list }}",
            "{{ '%s'|format(x) }}",
            "{{ '%(a)s'|format(a=x) }}",
            "{{ '{}'.format(x) }}",
            "{{ x|e }}",
            "{{ x|pprint }}",
            "{{ x|replace('a', 'b') }}",
            "{{ 'a'|replace('a', x) }}",
            "{{ raise_exception(x) }}",
            "{% for z in [x, y] %}{{ loop.changed(z) }}{% endfor %}",
            "{{ debug() }}",
            "{{ x is eq y }}",
            "{{ x is eq(y) }}",
            "{{ x is in [y] }}",
            "{{ x is not in [y] }}",
            "{{ x is startingwith y }}",
            "{{ [x]|select('eq', y)|list }}",
            "{{ [x]|select('==', y)|list }}",
            "{{ [{'a': x}]|selectattr('a', 'in', [y])|list }}",
            "{{ [{'a': x}, {'a': y}]|groupby('a') }}",
            "{% filter format(x) %}%s{% endfilter %}",
            "{% set z | format(x) %}%s{% endset %}{{ z }}",
            "{{ x|indent }}",
            "{{ x|title }}",
            "{{ x|capitalize }}",
            "{{ x|lower }}",
            "{{ x|split(',') }}",
            "{{ 'a'|split(x) }}",
            "{{ x|float }}",
            "{{ x|round }}",
            "{{ [x, y]|sum }}",
            "{{ {'a': x}|dictsort(by='value') }}",
            "{{ x|lines }}",
            "{{ x|tojson ~ x }}",
            "{% if x == y %}{% elif x ~ y %}{% endif %}",
            "{% for z in [1] if x == y %}{% endfor %}",
            "{% macro f(z, w=x == y) %}{{ w }}{% endmacro %}{{ f(1) }}",
            "{{ -1 if x == y else 2 }}",
            "{{ x[:] == y[:] }}",
            "{{ (x) == (y) }}",
            "{{ (x if 1 else 0) ~ '' }}",
            "{{ [x][0] ~ '' }}",
            "{{ x|first|last ~ '' }}",
            "{{ not x == y }}",
            "{% do f(x ~ y) %}",
            "{% with z = x ~ y %}{% endwith %}",
            "{{ 'a' is endingwith x }}",
            "{{ x|int }}",
            "{{ x|abs }}",
            "{{ x|bool }}",
            "{{ x|trim }}",
            "{{ x|safe }}",
            "{{ x|length }}",
            "{{ x|default(y) }}",
            "{{ strftime_now(x) }}",
            "{{ namespace(a=x) }}",
            "{{ dict(a=x) ~ '' }}",
            "{{ range(x) }}",
            "{{ x.split() }}",
            "{{ ','.join(x) }}",
            "{{ x|reverse|list }}",
            "{{ x|items }}",
            "{{ x|list }}",
        ]
        .map(doubling),
    );
    bombs.extend([
        nested("{% with x = [x, x] %}", "{% endwith %}", 60, "{{ x ~ '' }}"),
        nested("{% with x = x + x %}", "{% endwith %}", 60, "{{ x == x[:] }}{{ x ~ '' }}"),
        nested("{% for x in [[x, x]] %}", "{% endfor %}", 60, "{{ x ~ '' }}"),
        nested("{% with x = x|zip(x)|list %}", "{% endwith %}", 60, "{{ x ~ '' }}"),
        "{% macro f(x, n) %}{% if n %}{{ f([x, x], n - 1) }}{% else %}{{ x ~ '' }}{% endif %}{% endmacro %}{{ f(1, 28) }}".to_owned(),
        format!("{{% set x = [1] %}}{}", "{% set x = [x, x] %}".repeat(60)),
        format!("{{% set x = [1] %}}{}{{{{ x ~ '' }}}}", "{% set x = x + x %}".repeat(60)),
        format!("{{% set x = [1] %}}{}{{{{ x|length }}}}", "{% set x = x * 10 %}".repeat(60)),
        format!("{{% set x = {{'a': 1}} %}}{}{{{{ x.b }}}}", "{% set x = x|chain(x) %}".repeat(60)),
        format!("{{% set x = [1] %}}{}{{{{ x }}}}", "{% set x = x[:] %}".repeat(14_000)),
        format!("{{% set x = [1] %}}{}{{{{ x }}}}", "{% set x = x|batch(1)|list %}".repeat(8000)),
        format!("{{% set x = 1 %}}{}", "{% set x = [x], 1 %}".repeat(10_000)),
        "{% set ns = namespace(x=1) %}{% for i in range(9999) %}{% set ns.x = [ns.x]|batch(1)|list %}{% endfor %}".to_owned(),
        "{% set ns = namespace(x=1) %}{% for i in range(9999) %}{% set ns.x = {'a': ns.x} %}{% endfor %}".to_owned(),
        "{% set a = namespace() %}{% set b = namespace() %}{% set a.x = b %}{% set b.x = a %}{{ a == b }}{{ a ~ b }}".to_owned(),
        "{% set a = namespace() %}{% set a.x = [{'y': a}] %}{{ a ~ a }}".to_owned(),
        "{{ ([0] * 10**8) ~ '' }}".to_owned(),
        "{{ [[0] * 10**8] * 10**8 == [[0] * 10**8] * 10**8 }}".to_owned(),
        "{{ [1]|slice(10**9)|list }}".to_owned(),
        "{{ [1]|batch(10**9, 0)|list }}".to_owned(),
        "{% set s = 'ab' * 10**6 %}{% set t = 'ab' * 10**6 %}{% for i in range(9999) %}{{ s == t }}{% endfor %}".to_owned(),
        "{% set s = '\u{e9}' * 10**6 %}{% for i in range(9999) %}{% for j in range(9999) %}{% set x = s[-1:] %}{% endfor %}{% endfor %}".to_owned(),
        "{% for i in range(9999) %}{% set x = messages == messages|list %}{% set y = messages[0] ~ '' %}{% endfor %}".to_owned(),
        "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = ns.l + [messages] %}{% endfor %}".to_owned(),
        "{% set ns = namespace(l='x') %}{% for i in range(9999) %}{% set ns.l = ns.l + ns.l %}{% endfor %}".to_owned(),
        "{% set ns = namespace(l='x') %}{% for i in range(9999) %}{% for j in range(9999) %}{% set ns.l = ns.l ~ 'x' %}{% endfor %}{% endfor %}".to_owned(),
        "{% set ns = namespace(x=[1]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}".to_owned(),
        "{{ '%s' * 10**5 % 1 }}{{ 'x'.replace('', 'y' * 10**5) }}".to_owned(),
    ]);
    let first_long = bombs.len() - 27;
    bombs.extend([
        "{% set s='a'*4000000 %}{{ ('{0}'*2000).format(s)|length }}".to_owned(),
        "{% set s='a'*4000000 %}{{ ('{a}'*2000).format(a=s)|length }}".to_owned(),
        "{% set s='a'*4000000 %}{{ ('{a[0]}'*2000).format(a=[s])|length }}".to_owned(),
        "{% set s='a'*4000000 %}{{ ('%s'*2000)|format(s)|length }}".to_owned(),
        "{% set s='a'*4000000 %}{{ ('%(a)s'*2000)|format(a=s)|length }}".to_owned(),
        "{{ ('{0:9999}'*85000).format('x')|length }}".to_owned(),
        "{{ ('{0:.9999f}'*85000).format(1)|length }}".to_owned(),
        "{{ ('%9999s'*85000)|format(*(['x']*85000))|length }}".to_owned(),
        "{% set s='a'*4000000 %}{% set t='b'*4000000 %}{{ s.lstrip(t~'a') }}{{ s.rstrip(t~'a') }}{{ s.strip(t~'a') }}".to_owned(),
        "{% set s='a'*1000000 %}{% set t='b'*1000000 %}{{ s|trim(t~'a') }}".to_owned(),
        "{%".repeat(120_000) + "%}",
        "{%-".repeat(80_000) + "%}",
        "{% ".to_owned() + &"{%".repeat(120_000) + "\"%}\"",
    ]);
    bombs.extend(
        [
            "s[-1]", "s[999999]", "s[n]", "s.999999", "s is lower", "s is upper", "[s]|select('lower')|list", "l.index(1)",
            "l.count(1)", "s.strip()", "s.isdigit()", "s.count('b')", "s|length", "1 is eq s[-1]", "s|trim('b')", "s is sameas t",
        ]
        .map(|what| {
            format!(
                "{{% set s, t, n = 'a' * 999999 ~ 'a', 'a' * 999999 ~ 'a', 999999 %}}{{% set l = [0] * 99999 + [1] %}}{{% for i in range(9999) %}}\
                 {{% for j in range(9999) %}}{{% set x = {what} %}}{{% endfor %}}{{% endfor %}}"
            )
        }),
    );
    // With a long conversation a template may do more, and so may a bomb.
    let message = json!({"role": "user", "content": "the zebra ".repeat(500)});
    let long = to_value(vec![message; 400]);
    let mut slowest = (std::time::Duration::ZERO, String::new());
    let mut rendered = 0;
    for (i, bomb) in bombs.iter().enumerate() {
        for messages in [&to_value(json!([])), &long]
            .into_iter()
            .take(1 + usize::from(i % 8 == 0 || (first_long..first_long + 27).contains(&i)))
        {
            let start = std::time::Instant::now();
            let result = ChatTemplate::new(bomb).and_then(|template| template.render(messages, &options(json!({}))));
            let took = start.elapsed();
            let inner = bomb.trim_end_matches("{% endwith %}");
            let name = &inner[inner.char_indices().rev().nth(90).map_or(0, |(at, _)| at)..];
            match &result {
                Ok(text) => assert!(text.len() < 20_000_000, "{name}: {} bytes", text.len()),
                Err(error) => assert!(matches!(error.code, Code::BadTemplate), "{name}: {error}"),
            }
            rendered += usize::from(result.is_ok());
            println!(
                "{:>5} ms {name} {:?}",
                took.as_millis(),
                result.map_or_else(|e| e.message, |text| format!("{} bytes", text.len()))
            );
            slowest = slowest.max((took, name.to_owned()));
        }
    }
    println!("{} bombs, {rendered} of the renderings end well; the slowest: {slowest:?}", bombs.len());
    // A second on an idle machine.
    assert!(slowest.0.as_secs() < 4, "{slowest:?}");
}

#[test]
fn random_templates_never_panic() {
    let parts = [
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        "{% raw %}",
        "{% endraw %}",
        "{% set x =",
        "{% set ns.x =",
        "{% for x in",
        "{% endfor %}",
        "{% if",
        "{% endif %}",
        "-",
        "+",
        "*",
        "**",
        "~",
        "==",
        "<",
        " in ",
        " not ",
        " is ",
        " and ",
        " if ",
        " else ",
        "x",
        "ns",
        "messages",
        "namespace(x=1)",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        ":",
        ",",
        ".",
        "|",
        "upper",
        "list",
        "eq",
        "'a'",
        "\"b\"",
        "'",
        "\\",
        "1",
        "2.5",
        "1e",
        "10**9",
        "\n",
        " ",
        "\u{e9}",
        "\u{1f680}",
        "=",
        "%",
        "range(9)",
        "loop",
        "tojson",
        "none",
        "{% generation %}",
        "{% endgeneration %}",
    ];
    let mut rng = Rng(17);
    let mut fine = 0;
    for round in 0..20_000 {
        let mut template: String = (0..1 + rng.below(14)).map(|_| parts[rng.below(parts.len())]).collect();
        if round % 2 == 0 {
            template = format!("{{% set x = [1, 'b'] %}}{{% set ns = namespace() %}}{{{{ x {template} }}}}");
        }
        match render(&template, json!({})) {
            Ok(_) => fine += 1,
            Err(error) => assert_eq!(error.code, Code::BadTemplate, "{template}"),
        }
    }
    assert!(fine > 200, "{fine}");
}

#[test]
fn guards_change_no_meaning() {
    let head = "{%- set x, y = 3, 4 -%}{%- set m = {'ab': {'c': [7]}} -%}
        {%- macro f(a, b=1, c=2 ~ 2) -%}{{ a ~ '-' ~ b }}-{{ c }}{%- endmacro -%}";
    for (expression, expected) in [
        ("1 if 'a' ~ 'b' == 'ab' and 'c' not in ['d'] else 2", "1"),
        ("x is defined and x is not none and x is not in [1, 2]", "True"),
        ("x is eq 3 or x is not divisibleby 2", "True"),
        ("(x is in [3]) ~ (x|string) ~ x|string|length", "True31"),
        ("x == 3 is string", "False"),
        ("-x ~ -1 ~ (not x)", "-3-1False"),
        ("not x == 3", "False"),
        ("[x, x] + [x]", "[3, 3, 3]"),
        ("[x] * 2 ~ (1 + 2 * x)", "[3, 3]7"),
        ("{'a' ~ x: x ~ 'b', x: {'c': [x ~ 1]}}", "{'a3': '3b', 3: {'c': ['31']}}"),
        ("{'a': {'b': x}}", "{'a': {'b': 3}}"),
        ("{x: 1}[x] ~ m['a' ~ 'b'].c[x - 3]", "17"),
        (
            "'abcdef'[x:] ~ 'abcdef'[:x] ~ 'abcdef'[:] ~ 'abcdef'[1:x:2] ~ 'abcdef'[::-1] ~ 'abcdef'[:-1]",
            "defabcabcdefbfedcbaabcde",
        ),
        ("'abcdef'[x - 2 : x] ~ [1, 2, x, y][1:][1:] ~ ('a' ~ 'bc')[1:]", "bc[3, 4]bc"),
        (
            "[m.ab['c'], [x]][-1:][0] ~ m.ab.c[:1] ~ 'a b c'.split()[1:]|join('-') ~ {'a': 'xyz'}.a[:2] ~ f('x')[2:]",
            "[3][7]b-cxy1-22",
        ),
        ("-[x, 1][1:][0] ~ (not 'x'[1:]) ~ 'x'['a'[1:]|length:]", "-1Truex"),
        (
            "'abc'[-1] ~ [1, x][x - 2] ~ m['ab'].c[-1] ~ f('x')[-1] ~ [[1]][-1][-1] ~ 'xyz'[x - 3] ~ [[1, 2]].0[-1] ~ [[5]].0[:1]",
            "c3721x2[5]",
        ),
        ("(x is in [[1], [x]][x - 2]) ~ (x is not in [x][-1:]) ~ (1 if x is eq [x][-1] and y else 2)", "TrueFalse1"),
        ("'xaby'.strip('yx') ~ 'xaby'.lstrip('yx') ~ 'xaby'.rstrip('yx') ~ 'xaby'|trim('xy') ~ ('A' is upper)", "ababyxababTrue"),
        ("'{:>5}{:05.1f}'.format('a', 2.5)", "    a002.5"),
        ("dict(a=x, b=x ~ 1).b ~ namespace(c=x == 3).c", "31True"),
        ("'%s-%s'|format(x, x ~ 1) ~ '{}{}'.format(x, x + 1)", "3-3134"),
        ("1 < x <= 3 != 4", "True"),
        ("[1, 2, x]|select('gt', 1)|map('string')|join('+') ~ [x]|map(attribute='y')|list|length", "2+31"),
        ("[{'a': x}]|selectattr('a', 'equalto', x)|map(attribute='a')|first + 1", "4"),
        ("x * x ** 2 // 2 % 4 - 1.5e1 + 2.5", "-11.5"),
        ("m.ab.c.0 ~ m['ab']['c'][0]", "77"),
        ("'a' 'b' ~ \"c'd\" ~ 'e\\'f'", "abc'de'f"),
        ("f(*[x, 2], **{'c': x ~ 4})", "3-2-34"),
        ("(x, x ~ 1) ~ (x,) ~ ()", "(3, '31')(3,)()"),
        ("[1, 2]|chain([x])|list ~ {'a': 1}|chain({'a': 2, 'b': x})", "[1, 2, 3]{'a': 2, 'b': 3}"),
    ] {
        assert_eq!(print(&format!("{head}{{{{ {expression} }}}}")), expected, "{expression}");
    }
    for (template, expected) in [
        ("{% for (a, b) in [(1, 2)] + [(3, 4)] if a ~ b != '12' %}{{ a + b }}{% endfor %}", "7"),
        (
            "{% set ns = namespace(l=[]) %}{% for i in range(3) %}{% set ns.l = ns.l + [i ~ 'x'] %}{% endfor %}{{ ns.l }}",
            "['0x', '1x', '2x']",
        ),
        ("{% set a = 1, 2 %}{% set b = 'x' if a|length == 2 else 'y' %}{% set c = (1,) %}{{ a }}{{ b }}{{ c }}", "(1, 2)x(1,)"),
        ("{% set x = [1, 2, 3][1:] %}{{ x }}{{ x[0] }}{% set y %}{{ x ~ 1 }}{% endset %}{{ y }}", "[2, 3]2[2, 3]1"),
        ("{% set x | upper | trim %} a{% endset %}{{ x }}{% filter upper|replace('B', 'c') %}ab{% endfilter %}", "AAc"),
        ("{% macro f() %}{{ caller(2) ~ 3 }}{% endmacro %}{% call(a) f() %}{{ a ~ 1 }}{% endcall %}", "213"),
        (
            "{{- 'a' ~ 'b' -}} {%- if 1 + 1 == 2 -%} c {%+ endif %}\n{% raw %}{{ a ~ b }}{% endraw %}{# a ~ b #}",
            "abc {{ a ~ b }}",
        ),
    ] {
        assert_eq!(print(template), expected, "{template}");
    }
    let error = render("a\n{% set x = 'a' ~ 1 %}\n{{ x ~ y.z.w }}", json!({})).unwrap_err();
    assert!(error.message.contains("line 3"), "{error}");
}

#[test]
fn long_conversations_are_no_bombs() {
    // 400 messages of 5 kB: two megabytes, copied several times by what templates do.
    let template = "{% for m in messages %}{% set c = m.content.strip() %}{% set c = '<' ~ m.role ~ '>' ~ c ~ '\n' %}
{% if loop.index is divisibleby(2) and m.role == 'user' %}{{ c.split('@')[0]|trim }}{% else %}{{ c.replace('zebra', 'horse') }}{% endif %}{% endfor %}";
    let message =
        |i: usize| json!({"role": if i.is_multiple_of(2) { "user" } else { "assistant" }, "content": "the zebra ".repeat(500)});
    let messages: Vec<_> = (0..400).map(message).collect();
    let text = ChatTemplate::new(template).unwrap().render(&to_value(messages), &options(json!({}))).unwrap();
    assert!(text.len() > 1_900_000);
    // And many short ones.
    let messages: Vec<_> = (0..20_000).map(|_| json!({"role": "user", "content": "x"})).collect();
    ChatTemplate::new(template).unwrap().render(&to_value(messages), &options(json!({}))).unwrap();
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
