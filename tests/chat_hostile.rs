//! Chat templates that were written to attack: what they ask for is bounded, and what bounds it changes no meaning.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::Rng;
use common::templates::{options, print, render};
use rivulet::error::Code;
use rivulet::text::{ChatTemplate, to_value};
use serde_json::json;

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
