//! Captures as lines of an index.

use super::super::crawl_log::{Line, Notes, Origin};

/// A capture. The two lines of a capture, one for each order, differ only in the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    /// The urlkey.
    pub urlkey: &'a str,
    /// The capture date: 14 digits.
    pub date: &'a str,
    /// The digest without the name of its algorithm, if one was logged.
    pub digest: Option<&'a str>,
    /// The URL as logged.
    pub url: &'a str,
    /// The position of the content.
    pub origin: Option<Origin<'a>>,
    pub(super) json: &'a [u8],
}

impl Row<'_> {
    /// Appends `<urlkey> <date> {json}`, without a line end.
    pub(crate) fn push_by_url(&self, into: &mut Vec<u8>) {
        self.push_by(self.urlkey, into);
    }

    /// Appends `<digest> <date> {json}`, without a line end; nothing if there is no digest.
    pub(crate) fn push_by_digest(&self, into: &mut Vec<u8>) {
        if let Some(digest) = self.digest {
            self.push_by(digest, into);
        }
    }

    fn push_by(&self, key: &str, into: &mut Vec<u8>) {
        into.reserve(key.len() + self.date.len() + self.json.len() + 2);
        for part in [key.as_bytes(), b" ", self.date.as_bytes(), b" ", self.json] {
            into.extend_from_slice(part);
        }
    }
}

pub(super) fn push_json(
    line: &Line<'_>,
    notes: &Notes<'_>,
    origin: Option<&Origin<'_>>,
    job: &str,
    into: &mut Vec<u8>,
) {
    let mut object = Object::begin(into);
    object.text(b"\"url\":", line.url);
    if line.mime != "-" {
        object.text(b"\"mime\":", line.mime);
    }
    object.number(b"\"status\":", u64::from(line.status.unsigned_abs()));
    if let Some(digest) = line.digest {
        object.text(b"\"digest\":", digest);
    }
    if let Some(size) = line.size {
        object.number(b"\"size\":", size);
    }
    if let Some(origin) = origin {
        if let Some(length) = origin.length {
            object.number(b"\"length\":", length);
        }
        object.number(b"\"offset\":", origin.offset);
        object.text(b"\"filename\":", &origin.file);
    }
    if let Some(etag) = notes.etag() {
        object.text(b"\"etag\":", &etag);
    }
    object.text(b"\"job\":", job);
    object.end();
}

/// Writes a JSON object whose values are strings.
struct Object<'a> {
    into: &'a mut Vec<u8>,
    between: u8,
}

impl Object<'_> {
    fn begin(into: &mut Vec<u8>) -> Object<'_> {
        Object {
            into,
            between: b'{',
        }
    }

    /// Adds a member. `name` includes the quotes and the colon.
    fn text(&mut self, name: &[u8], value: &str) {
        self.name(name);
        // Almost no value needs escapes. The check has no early exit, so that the compiler can
        // vectorise it.
        let escaped = value.bytes().fold(false, |any, byte| {
            any | (byte < b' ') | (byte == b'"') | (byte == b'\\')
        });
        if !escaped {
            self.into.push(b'"');
            self.into.extend_from_slice(value.as_bytes());
            self.into.push(b'"');
        } else if let Ok(text) = serde_json::to_string(value) {
            self.into.extend_from_slice(text.as_bytes());
        }
    }

    /// Adds a number as a string.
    fn number(&mut self, name: &[u8], value: u64) {
        self.name(name);
        self.into.push(b'"');
        let mut digits = itoa::Buffer::new();
        self.into.extend_from_slice(digits.format(value).as_bytes());
        self.into.push(b'"');
    }

    fn end(self) {
        if self.between == b'{' {
            self.into.push(b'{');
        }
        self.into.push(b'}');
    }

    fn name(&mut self, name: &[u8]) {
        self.into.push(std::mem::replace(&mut self.between, b','));
        self.into.extend_from_slice(name);
    }
}
