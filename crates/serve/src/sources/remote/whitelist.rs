//! Creates rows from the unverified answers of other servers.
//!
//! A row is built from validated fields only. Its urlkey is computed from its URL; invalid and
//! unknown fields are dropped. File names must be relative and must not contain `..`.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use crawlspace_cdx::surt::{self, KeyRange};

use super::claim::Claim;
use super::template::{Template, Values};
use crate::query::Query;
use crawlspace_index::row::Row;
use crawlspace_index::source::Batch;
use crawlspace_index::timestamp::Timestamp;

/// Maximum length of a URL, in bytes.
const MAX_URL: usize = 64 << 10;
/// Maximum length of a file name, in bytes.
const MAX_FILENAME: usize = 4 << 10;
/// Maximum length of any other value, in bytes.
const MAX_VALUE: usize = 512;
/// Marks the urlkey of a request with a body.
const METHOD: &str = "__wb_method=";

/// Result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A row was created.
    Row,
    /// A valid capture that the query does not match.
    Other,
    /// An invalid line.
    Invalid,
}

/// Validation rules for the rows of a query.
pub(super) struct Whitelist {
    /// JSON members of every row.
    members: Arc<str>,
    keys: KeyRange,
    /// Time range, as 14 digits, inclusive.
    from: Option<String>,
    to: Option<String>,
    location: RecordLocation,
    collection: Arc<str>,
}

/// Location of a row's record.
pub(super) enum RecordLocation {
    /// The record is at a URL that is created from this template.
    Replay(Template),
    /// The record is in the file named by the row.
    File,
    /// The record is at the URL or in the file named by the row.
    Given,
}

impl Whitelist {
    pub(crate) fn new(
        query: &Query,
        members: Arc<str>,
        location: RecordLocation,
        collection: &Arc<str>,
    ) -> Whitelist {
        Whitelist {
            members,
            keys: query.keys.clone(),
            from: query.from.map(|moment| moment.to_string()),
            to: query.to.map(|moment| moment.to_string()),
            location,
            collection: collection.clone(),
        }
    }

    /// Creates a row from a claim, if the query matches it.
    pub(crate) fn push(&self, claim: &Claim<'_>, into: &mut Made) -> Verdict {
        let Some(timestamp) = timestamp(&claim.timestamp) else {
            return Verdict::Invalid;
        };
        if claim.url.is_empty() {
            return Verdict::Invalid;
        }
        let Some(urlkey) = into.urlkey(&claim.url).filter(|_| is_web(&claim.url)) else {
            return Verdict::Other;
        };
        let urlkey = key_with_method(urlkey, &claim.urlkey).unwrap_or_else(|| urlkey.to_owned());
        let early = self.from.as_ref().is_some_and(|from| *timestamp < **from);
        let late = self.to.as_ref().is_some_and(|to| *timestamp > **to);
        let begin = into.text.len();
        for part in [&*urlkey, " ", &*timestamp] {
            into.text.push_str(part);
        }
        let line = &into.text.as_bytes()[begin..];
        // The bounds of a key range are compared with whole lines, in which a space follows the key.
        let matches =
            line >= &*self.keys.from && (self.keys.to.is_empty() || line < &*self.keys.to);
        if !matches || early || late {
            into.text.truncate(begin);
            return Verdict::Other;
        }
        into.text.push_str(" {");
        self.members(claim, &timestamp, into);
        into.text.push('}');
        let second = urlkey.len() + 1 + timestamp.len();
        into.places.push((begin, urlkey.len(), second));
        Verdict::Row
    }

    fn members(&self, claim: &Claim<'_>, timestamp: &str, into: &mut Made) {
        let text = &mut into.text;
        member("url", &claim.url, text);
        let word = |value: &str| is_plain(value, MAX_VALUE) && !value.contains(' ');
        let checked = [
            ("mime", &claim.mime, is_plain(&claim.mime, MAX_VALUE)),
            ("status", &claim.status, is_number(&claim.status, 3)),
            ("digest", &claim.digest, word(&claim.digest)),
            (
                "redirect",
                &claim.redirect,
                is_plain(&claim.redirect, MAX_URL),
            ),
            ("robotflags", &claim.robotflags, word(&claim.robotflags)),
        ];
        for (name, value, is_right) in checked {
            if is_right && !value.is_empty() {
                member(name, value, text);
            }
        }
        let replayed = match &self.location {
            RecordLocation::Replay(template) => {
                let values = Values {
                    url: &claim.url,
                    timestamp,
                    collection: &self.collection,
                };
                template.fill(values).map(Cow::Owned)
            }
            RecordLocation::Given if is_web(&claim.live_url) => Some(claim.live_url.clone()),
            _ => None,
        };
        let in_file =
            !matches!(self.location, RecordLocation::Replay(_)) && is_below(&claim.filename);
        if in_file {
            file(
                ["length", "offset", "filename"],
                [&claim.length, &claim.offset, &claim.filename],
                text,
            );
        }
        if in_file && is_below(&claim.orig_filename) {
            file(
                ["orig.length", "orig.offset", "orig.filename"],
                [&claim.orig_length, &claim.orig_offset, &claim.orig_filename],
                text,
            );
        }
        if let Some(url) = replayed {
            // Some clients read only `live_url`, others only `load_url`.
            member("live_url", &url, text);
            member("load_url", &url, text);
        }
        text.push_str(", ");
        match &self.location {
            // If a row of source `ours` names the source `theirs`, the new name is `ours:theirs`.
            RecordLocation::Given
                if !claim.source.is_empty() && is_plain(&claim.source, MAX_VALUE) =>
            {
                let inner = Cow::Owned(serde_json::Value::from(&*claim.source).to_string());
                text.push_str(&nested(&self.members, inner));
            }
            _ => text.push_str(&self.members),
        }
    }
}

/// Appends `:theirs` to the name in `"source": "ours", …`. `theirs` is a JSON string.
fn nested(members: &str, theirs: Cow<'_, str>) -> String {
    let theirs = theirs.get(1..).unwrap_or("\"");
    let mut escaped = false;
    let value = "\"source\": \"".len();
    let end = members.char_indices().skip(value).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    match end.and_then(|(at, _)| Some((members.get(..at)?, members.get(at + 1..)?))) {
        Some((before, after)) => [before, ":", theirs, after].concat(),
        None => members.to_owned(),
    }
}

/// Rows of one batch, in shared memory.
#[derive(Default)]
pub(super) struct Made {
    text: String,
    /// Start of each row, and ends of its urlkey and timestamp.
    places: Vec<(usize, usize, usize)>,
    /// Last URL and its urlkey, since successive rows often have the same URL.
    last: (String, String),
}

impl Made {
    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the size of the rows, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Returns all rows and clears the batch.
    pub(crate) fn take(&mut self) -> Batch {
        let text = Bytes::from(std::mem::take(&mut self.text));
        let mut ends = self
            .places
            .iter()
            .skip(1)
            .map(|place| place.0)
            .collect::<Vec<_>>();
        ends.push(text.len());
        let rows = self
            .places
            .drain(..)
            .zip(ends)
            .filter_map(|((begin, key, second), end)| {
                let (key, second) = (u32::try_from(key).ok()?, u32::try_from(second).ok()?);
                Some(Row::in_parts(text.slice(begin..end), key, second))
            });
        rows.collect()
    }

    fn urlkey(&mut self, url: &str) -> Option<&str> {
        if self.last.0 != url {
            let key = surt::urlkey(url).ok()?;
            if key.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
                return None;
            }
            self.last = (url.to_owned(), key);
        }
        Some(&self.last.1)
    }
}

/// Returns the 14 digits of a timestamp that may be shortened, or have a `Z` after 12 or more digits.
fn timestamp(given: &str) -> Option<Cow<'_, str>> {
    let plain = given.strip_suffix('Z').filter(|digits| digits.len() >= 12);
    let given = plain.unwrap_or(given);
    let moment = Timestamp::earliest(given.as_bytes())?;
    Some(match given.len() {
        14 => Cow::Borrowed(given),
        _ => Cow::Owned(moment.to_string()),
    })
}

/// Returns the urlkey of a request with a body. Only the other server knows the body, so the part of the claimed key
/// that encodes the body is trusted; the rest is checked against the URL.
fn key_with_method(urlkey: &str, claimed: &str) -> Option<String> {
    if !claimed.contains(METHOD) || claimed.len() > MAX_URL {
        return None;
    }
    let place = |key: &str| {
        key.split_once('?')
            .map_or(key.len(), |(place, _)| place.len())
    };
    let same = urlkey.get(..place(urlkey)) == claimed.get(..place(claimed));
    let printable = claimed.bytes().all(|byte| byte > b' ' && byte != 0x7f);
    (same && printable).then(|| claimed.to_owned())
}

/// Returns whether a value is an `http` or `https` URL without blanks.
fn is_web(url: &str) -> bool {
    let begins = |scheme: &str| {
        url.get(..scheme.len())
            .is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
    };
    (begins("http://") || begins("https://")) && is_plain(url, MAX_URL) && !url.contains(' ')
}

/// Returns whether a value is free of control characters and not too long.
fn is_plain(value: &str, most: usize) -> bool {
    value.len() <= most && !value.chars().any(char::is_control)
}

/// Returns whether a value is a number of up to `digits` digits.
fn is_number(value: &str, digits: usize) -> bool {
    (1..=digits).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a value is a valid file name below a folder.
pub(crate) fn is_below(name: &str) -> bool {
    let is_step = |step: &str| step == ".." || step == ".";
    !name.is_empty()
        && is_plain(name, MAX_FILENAME)
        && !name.starts_with(['/', '~'])
        && !name.contains('\\')
        && !has_scheme(name)
        && !name.split('/').any(is_step)
}

/// Returns whether a value starts with a URL scheme or a drive letter. Names may contain colons elsewhere, as in times.
fn has_scheme(name: &str) -> bool {
    let scheme = name.split_once(':').map(|(scheme, _)| scheme);
    let is_one = |scheme: &str| {
        scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'+')
    };
    scheme.is_some_and(is_one) || name.contains("://")
}

/// Adds length, offset and name of a record in a file.
fn file(names: [&str; 3], values: [&str; 3], text: &mut String) {
    let [length, offset, filename] = values;
    for (name, value) in names.into_iter().zip([length, offset]) {
        if is_number(value, 19) {
            member(name, value, text);
        }
    }
    let [_, _, name] = names;
    member(name, filename, text);
}

fn member(name: &str, value: &str, text: &mut String) {
    if !text.ends_with('{') {
        text.push_str(", ");
    }
    text.push('"');
    text.push_str(name);
    text.push_str("\": ");
    if value
        .bytes()
        .any(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f))
    {
        text.push_str(&serde_json::Value::from(value).to_string());
    } else {
        text.push('"');
        text.push_str(value);
        text.push('"');
    }
}

#[cfg(test)]
mod tests;
