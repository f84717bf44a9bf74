//! Parses captures in all formats of index servers.

use std::borrow::Cow;
use std::fmt;

use crawlspace_cdx::{Field, Format, Line, Read};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::words::words;

/// Unverified values of a capture; missing ones are empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Claim<'a> {
    pub urlkey: Cow<'a, str>,
    pub timestamp: Cow<'a, str>,
    pub url: Cow<'a, str>,
    pub mime: Cow<'a, str>,
    pub status: Cow<'a, str>,
    pub digest: Cow<'a, str>,
    pub redirect: Cow<'a, str>,
    pub robotflags: Cow<'a, str>,
    pub length: Cow<'a, str>,
    pub offset: Cow<'a, str>,
    pub filename: Cow<'a, str>,
    pub orig_length: Cow<'a, str>,
    pub orig_offset: Cow<'a, str>,
    pub orig_filename: Cow<'a, str>,
    pub source: Cow<'a, str>,
    pub live_url: Cow<'a, str>,
    /// Error message of an object that is not a capture.
    pub message: Cow<'a, str>,
}

impl<'a> Claim<'a> {
    /// Parses a line: CDXJ, CDX with 7 to 14 columns, or a JSON object. Returns `None` for other formats.
    pub(crate) fn of_line(line: &'a [u8]) -> Option<Claim<'a>> {
        let line = line.trim_ascii_end();
        if let [b'{', ..] = line {
            return Claim::of_object(line);
        }
        let key = memchr::memchr(b' ', line)?;
        let rest = line.get(key + 1..)?;
        let second = memchr::memchr(b' ', rest)?;
        let json = rest.get(second + 1..)?;
        if let [b'{', ..] = json {
            let mut claim = Claim::of_object(json)?;
            claim.urlkey = text(line.get(..key)?)?;
            claim.timestamp = text(rest.get(..second)?)?;
            return Some(claim);
        }
        let Ok(Read::Capture(read)) = Line::read(line, Format::Cdx) else {
            return None;
        };
        let mut claim = Claim::default();
        for (place, field) in claim.places() {
            if let Some(Cow::Borrowed(value)) = read.field(&field).filter(|value| **value != *b"-")
            {
                *place = text(value)?;
            }
        }
        Some(claim)
    }

    /// Parses a JSON object, or an array of values in the order of these columns.
    pub(crate) fn of_element(element: &'a [u8], columns: &[String]) -> Option<Claim<'a>> {
        if let [b'{', ..] = element {
            return Claim::of_object(element);
        }
        let values = values(element)?;
        if columns.is_empty() {
            let mut claim = Claim::default();
            for (name, value) in usual_columns(values.len())?.iter().zip(values) {
                claim.set(name, value);
            }
            return Some(claim);
        }
        let mut claim = Claim::default();
        for (name, value) in columns.iter().zip(values) {
            claim.set(name, value);
        }
        Some(claim)
    }

    fn of_object(json: &'a [u8]) -> Option<Claim<'a>> {
        serde_json::from_slice(json).ok()
    }

    /// Sets a value. If a member is repeated, the last value is used, as in JSON parsers.
    fn set(&mut self, name: &str, value: Cow<'a, str>) {
        let place = match name {
            "urlkey" => &mut self.urlkey,
            "timestamp" => &mut self.timestamp,
            "url" | "original" => &mut self.url,
            "mime" | "mimetype" => &mut self.mime,
            "status" | "statuscode" => &mut self.status,
            "digest" => &mut self.digest,
            "redirect" | "redirecturl" => &mut self.redirect,
            "robotflags" => &mut self.robotflags,
            "length" => &mut self.length,
            "offset" => &mut self.offset,
            "filename" => &mut self.filename,
            "orig.length" | "originalLength" => &mut self.orig_length,
            "orig.offset" | "originalOffset" => &mut self.orig_offset,
            "orig.filename" | "originalFilename" => &mut self.orig_filename,
            "source" => &mut self.source,
            "live_url" => &mut self.live_url,
            "load_url" if self.live_url.is_empty() => &mut self.live_url,
            "message" | "error" => &mut self.message,
            _ => return,
        };
        *place = match &*value {
            "-" => Cow::Borrowed(""),
            _ => value,
        };
    }

    fn places(&mut self) -> [(&mut Cow<'a, str>, Field); 14] {
        [
            (&mut self.urlkey, Field::Urlkey),
            (&mut self.timestamp, Field::Timestamp),
            (&mut self.url, Field::Url),
            (&mut self.mime, Field::Mime),
            (&mut self.status, Field::Status),
            (&mut self.digest, Field::Digest),
            (&mut self.redirect, Field::Redirect),
            (&mut self.robotflags, Field::Robotflags),
            (&mut self.length, Field::Length),
            (&mut self.offset, Field::Offset),
            (&mut self.filename, Field::Filename),
            (&mut self.orig_length, Field::OrigLength),
            (&mut self.orig_offset, Field::OrigOffset),
            (&mut self.orig_filename, Field::OrigFilename),
        ]
    }
}

/// Returns the column names, if the element is the array of names with which some answers begin.
pub(super) fn header(element: &[u8]) -> Option<Vec<String>> {
    let names = values(element)?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let is_header = has("timestamp") && (has("original") || has("url") || has("urlkey"));
    is_header.then(|| names.into_iter().map(Cow::into_owned).collect())
}

/// Returns the values of an array.
pub(super) fn values(element: &[u8]) -> Option<Vec<Cow<'_, str>>> {
    let values: Vec<Plain<'_>> = serde_json::from_slice(element).ok()?;
    Some(values.into_iter().map(|Plain(value)| value).collect())
}

/// Returns the default columns of an array without column names.
fn usual_columns(count: usize) -> Option<&'static [&'static str]> {
    static FOURTEEN: [&str; 14] = words(
        "urlkey timestamp url mime status digest redirect robotflags length offset filename orig.length \
         orig.offset orig.filename",
    );
    static NINE: [&str; 9] =
        words("urlkey timestamp url mime status digest length offset filename");
    match count {
        7 | 9 => NINE.get(..count),
        11 | 14 => FOURTEEN.get(..count),
        _ => None,
    }
}

fn text(bytes: &[u8]) -> Option<Cow<'_, str>> {
    std::str::from_utf8(bytes).ok().map(Cow::Borrowed)
}

impl<'de: 'a, 'a> Deserialize<'de> for Claim<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Claim<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut claim = Claim::default();
                while let Some(Plain(name)) = map.next_key()? {
                    let Plain(value) = map.next_value()?;
                    claim.set(&name, value);
                }
                Ok(claim)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// A value as a string. Values other than strings and integers become empty.
struct Plain<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Plain<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Plain<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
                Ok(Plain(Cow::Borrowed(value)))
            }

            fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
                Ok(Plain(Cow::Owned(value.to_owned())))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
                Ok(Plain(Cow::Owned(value.to_string())))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Plain(Cow::Borrowed("")))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Plain(Cow::Borrowed("")))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Plain(Cow::Borrowed("")))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Plain(Cow::Borrowed("")))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Plain(Cow::Borrowed("")))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Plain(Cow::Borrowed("")))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
