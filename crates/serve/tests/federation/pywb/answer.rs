//! Answers of index servers, read so that two of them can be compared.

use redis_tests::http::Answer;
use serde_json::{Map, Value};

/// What a line of an answer says.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// urlkey and timestamp before a JSON object, both empty where there is nothing but the object.
    Row(String, String, Map<String, Value>),
    /// A link of a TimeMap: its relation and its date.
    Link(String, String),
    /// Anything else.
    Text(String),
}

/// The lines of an answer. None where its status is not 200.
pub fn lines(answer: &Answer) -> Vec<Line> {
    let text = answer.text();
    match answer.media_type() {
        _ if answer.status != 200 => Vec::new(),
        "application/link-format" => links(&text),
        _ => text.lines().map(line).collect(),
    }
}

fn line(text: &str) -> Line {
    let at = if text.starts_with('{') {
        Some(0)
    } else {
        text.find(" {").map(|at| at + 1)
    };
    let object = at.and_then(|at| serde_json::from_str(&text[at..]).ok());
    let (Some(at), Some(Value::Object(object))) = (at, object) else {
        return Line::Text(text.to_owned());
    };
    let mut words = text[..at].split(' ');
    let mut word = || words.next().unwrap_or_default().to_owned();
    Line::Row(word(), word(), object)
}

/// The mementos among the links. What else there is says where the TimeMap is, which differs.
fn links(body: &str) -> Vec<Line> {
    let parameter = |link: &str, name: &str| {
        let (_, rest) = link.split_once(&format!("{name}=\""))?;
        Some(rest.split('"').next()?.to_owned())
    };
    body.split(",\n")
        .flat_map(|some| some.split(", <"))
        .filter_map(|link| {
            let relation = parameter(link, "rel")?;
            let is_memento = relation.split(' ').any(|word| word == "memento");
            is_memento.then(|| {
                Line::Link(
                    "memento".into(),
                    parameter(link, "datetime").unwrap_or_default(),
                )
            })
        })
        .collect()
}
