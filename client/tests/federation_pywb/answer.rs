//! Answers of index servers, read so that two of them can be compared.

use serde_json::{Map, Value};

/// An answer over HTTP.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// `Content-Type`, without parameters.
    pub content_type: String,
    /// The body.
    pub body: String,
}

/// Asks with GET.
pub fn get(url: &str) -> Answer {
    let client = reqwest::blocking::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let answer = client
        .get(url)
        .send()
        .unwrap_or_else(|why| panic!("{url}: {why}"));
    let content_type = answer.headers().get("content-type");
    let content_type = content_type.map_or("", |value| value.to_str().unwrap());
    Answer {
        status: answer.status().as_u16(),
        content_type: content_type.split(';').next().unwrap().trim().to_owned(),
        body: answer.text().unwrap_or_else(|why| panic!("{url}: {why}")),
    }
}

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

impl Answer {
    /// Its lines. Empty for an answer that is not 200.
    pub fn lines(&self) -> Vec<Line> {
        if self.status != 200 {
            return Vec::new();
        }
        match &self.content_type[..] {
            "application/link-format" => links(&self.body),
            _ => self.body.lines().map(line).collect(),
        }
    }
}

fn line(text: &str) -> Line {
    let at = match text.starts_with('{') {
        true => Some(0),
        false => text.find(" {").map(|at| at + 1),
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
