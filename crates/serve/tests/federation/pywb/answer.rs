//! Parses answers of index servers for comparison.

use redis_tests::http::Answer;
use serde_json::{Map, Value};

/// Content of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// Urlkey and timestamp, both empty if the line has only a JSON object, and the object.
    Row(String, String, Map<String, Value>),
    /// A link of a TimeMap: relation and date.
    Link(String, String),
    /// Any other line.
    Text(String),
}

/// Parses the lines of an answer. Returns no lines unless the status is 200.
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

/// Returns the mementos among the links. The other links contain the location of the TimeMap, which
/// differs.
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
