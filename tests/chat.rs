//! Chat templates: those of vendors against transformers' renderings where the fixtures are, and small ones of our own
//! for what Jinja and Python do.

mod common;

use common::{shared, skip};
use rivulet::error::Code;
use rivulet::text::{ChatTemplate, DateTime, RenderOptions, Value};

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
