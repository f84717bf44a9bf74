//! Edits one value of a JSON document, and preserves everything else, including the order of keys and the
//! format of numbers.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Serializer;
use serde_json::ser::PrettyFormatter;
use serde_json::value::RawValue;

use crate::Problem;

/// An object, with its text.
pub(super) struct Object<'t> {
    text: &'t str,
    members: Vec<Member<'t>>,
}

struct Member<'t> {
    key: Cow<'t, str>,
    /// Range of the value in the text.
    value: Range<usize>,
}

impl<'t> Object<'t> {
    /// Parses an object whose keys must be distinct.
    pub(super) fn read(text: &'t str) -> Result<Object<'t>, Problem> {
        let pairs: Pairs<'t> =
            serde_json::from_str(text).map_err(|error| Problem::Json(error.to_string()))?;
        let mut members: Vec<Member<'t>> = Vec::new();
        for (key, value) in pairs.0 {
            if members.iter().any(|member| member.key == key) {
                return Err(Problem::Json(format!("it has the key {key:?} twice")));
            }
            // A raw value is a slice of the text that was parsed.
            let start = value.get().as_ptr() as usize - text.as_ptr() as usize;
            members.push(Member {
                key,
                value: start..start + value.get().len(),
            });
        }
        Ok(Object { text, members })
    }

    /// Returns the text of a value.
    pub(super) fn value(&self, key: &str) -> Option<&'t str> {
        let member = self.members.iter().find(|member| member.key == key)?;
        Some(&self.text[member.value.clone()])
    }

    /// Returns the text of the object with a value replaced, or appended if the key is missing. `depth` is the
    /// nesting depth of the object.
    pub(super) fn with(&self, key: &str, value: &str, style: &Style, depth: usize) -> String {
        let text = self.text;
        if let Some(member) = self.members.iter().find(|member| member.key == key) {
            return [
                &text[..member.value.start],
                value,
                &text[member.value.end..],
            ]
            .concat();
        }
        let member = format!(
            "{}{}:{}{value}",
            style.line(depth + 1),
            quoted(key),
            style.space()
        );
        match self.members.last() {
            Some(last) => [
                &text[..last.value.end],
                ",",
                &member,
                &text[last.value.end..],
            ]
            .concat(),
            None => {
                let begin = text.find('{').map_or(0, |brace| brace + 1);
                let end = text.rfind('}').unwrap_or(text.len());
                [&text[..begin], &member, &style.line(depth), &text[end..]].concat()
            }
        }
    }

    /// Returns the text of the object without the member for this key.
    pub(super) fn without(&self, key: &str) -> String {
        let text = self.text;
        let Some(at) = self.members.iter().position(|member| member.key == key) else {
            return text.to_owned();
        };
        let end = self.members[at].value.end;
        let (from, to) = match (at.checked_sub(1), self.members.get(at + 1)) {
            // Also remove the comma before the member or, for the first member, the comma and the white space after it.
            (Some(before), _) => (self.members[before].value.end, end),
            (None, None) => (self.start(), end),
            (None, Some(_)) => {
                let comma = text[end..].find(',').map_or(end, |comma| end + comma + 1);
                let space = text[comma..].len() - text[comma..].trim_start().len();
                (self.start(), comma + space)
            }
        };
        [&text[..from], &text[to..]].concat()
    }

    /// Returns the offset of the first key.
    fn start(&self) -> usize {
        self.text.find('"').unwrap_or(0)
    }
}

/// The layout of a JSON document.
pub(super) struct Style {
    /// The indentation of each level; `None` if the text is on one line.
    indent: Option<String>,
}

impl Style {
    pub(super) fn of(object: &Object<'_>) -> Style {
        let inside = object
            .text
            .trim_start()
            .strip_prefix('{')
            .unwrap_or_default();
        let space = &inside[..inside.len() - inside.trim_start().len()];
        let indent = space.rsplit_once('\n').map(|(_, indent)| indent.to_owned());
        Style {
            indent: indent.filter(|_| !object.members.is_empty()),
        }
    }

    /// Formats a value at a nesting depth.
    pub(super) fn render(&self, value: &impl Serialize, depth: usize) -> String {
        let Some(indent) = &self.indent else {
            return serde_json::to_string(value).unwrap_or_default();
        };
        let mut text = Vec::new();
        let format = PrettyFormatter::with_indent(indent.as_bytes());
        // Serializing strings and numbers cannot fail.
        let _ = value.serialize(&mut Serializer::with_formatter(&mut text, format));
        // JSON strings cannot contain line feeds.
        String::from_utf8_lossy(&text).replace('\n', &self.line(depth))
    }

    /// Returns a line feed and the indentation at a nesting depth.
    fn line(&self, depth: usize) -> String {
        match &self.indent {
            Some(indent) => format!("\n{}", indent.repeat(depth)),
            None => String::new(),
        }
    }

    fn space(&self) -> &'static str {
        match self.indent {
            Some(_) => " ",
            None => "",
        }
    }
}

fn quoted(key: &str) -> String {
    serde_json::to_string(key).unwrap_or_default()
}

/// Keys and values, in order.
struct Pairs<'t>(Vec<(Cow<'t, str>, &'t RawValue)>);

impl<'t> Deserialize<'t> for Pairs<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Pairs<'t>, D::Error> {
        struct Map;
        impl<'t> Visitor<'t> for Map {
            type Value = Pairs<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Pairs<'t>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Map)
    }
}
