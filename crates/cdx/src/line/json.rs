//! The JSON object of a CDXJ line. The object is validated completely when the line is read. Values
//! are only decoded when they are requested. Values are scanned without recursion, so that deep
//! nesting cannot overflow the stack.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Reason;
use crate::Field;

/// Members in the order written, with values as written.
#[derive(Clone, Debug)]
pub(super) struct Object<'a> {
    pub(super) members: Vec<(Cow<'a, str>, &'a str)>,
}

impl<'a> Object<'a> {
    /// Parses the rest of a line that begins with `{`.
    pub(super) fn read(line: &'a [u8], at: usize) -> Result<Self, Reason> {
        let text =
            std::str::from_utf8(&line[at..]).map_err(|e| Reason::Utf8(at + e.valid_up_to()))?;
        serde_json::from_str(text).map_err(|e| {
            let what = e.to_string();
            let (what, _) = what.rsplit_once(" at line ").unwrap_or((&what, ""));
            // Columns count from 1, and restart after a line feed, which is white space in JSON.
            let place = (e.line() == 1).then(|| at + e.column().saturating_sub(1));
            Reason::Json(what.into(), place)
        })
    }

    /// Returns the value of the last member with the field's name or alias.
    pub(super) fn text(&self, field: &Field) -> Option<Cow<'a, [u8]>> {
        let named = |(name, _): &&(Cow<'a, str>, &str)| field.is_named(name.as_bytes());
        let (_, value) = self.members.iter().rev().find(named)?;
        Some(text_of(value))
    }
}

/// Returns the decoded text of a string, an empty string for `null`, and other values as written.
fn text_of(value: &str) -> Cow<'_, [u8]> {
    match value.as_bytes() {
        b"null" => Cow::Borrowed(b""),
        [b'"', text @ .., b'"'] if memchr::memchr(b'\\', text).is_none() => Cow::Borrowed(text),
        [b'"', ..] => match serde_json::from_str::<String>(value) {
            Ok(text) => Cow::Owned(text.into_bytes()),
            Err(_) => Cow::Borrowed(value.as_bytes()), // not reached: Object::read has decoded it
        },
        written => Cow::Borrowed(written),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(16);
                while let Some(Text(name)) = map.next_key()? {
                    let value: &'de RawValue = map.next_value()?;
                    let value = value.get();
                    // The scan of a value accepts any four hexadecimal digits after `\u`, but half
                    // a surrogate pair cannot be decoded to text.
                    if value.starts_with('"') && value.contains('\\') {
                        serde_json::from_str::<Text<'_>>(value)
                            .map_err(|_| serde::de::Error::custom("a string cannot be decoded"))?;
                    }
                    members.push((name, value));
                }
                Ok(Object { members })
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// A string that borrows from the input if it contains no escapes. Deserializing to `Cow` directly
/// would always allocate.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrowing;

        impl<'de> Visitor<'de> for Borrowing {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Borrowing)
    }
}
