//! Annotations, and the JSON behind them.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memchr2_iter};
use serde::Deserialize;
use serde_json::value::RawValue;

use crawlspace_archive::lines::fields::{is_number, is_printable, number};

/// Where a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The name of the file.
    pub file: Cow<'a, str>,
    /// Where in there the record begins.
    pub offset: u64,
    /// How many bytes of the file it takes, where that is known.
    pub length: Option<u64>,
}

/// That of `duplicate:"file,offset"`, or `duplicate:"file,offset,date"`. Deduplicators also write `deduplicate:`, and
/// blanks behind commas.
pub(super) fn duplicate(notes: &str) -> Option<Origin<'_>> {
    // Most lines have no quotes at all.
    memchr(b'"', notes.as_bytes())?;
    let value = Annotations::of(notes).find_map(|note| {
        let note = note.trim_ascii();
        note.strip_prefix("de")
            .unwrap_or(note)
            .strip_prefix("duplicate:\"")
    })?;
    let value = value.strip_suffix('"').unwrap_or(value);
    let (before, last) = parts(value)?;
    let dated = parts(before).filter(|(_, offset)| {
        is_number(offset) && is_number(last) && matches!(last.len(), 14 | 17)
    });
    let (file, offset) = dated.unwrap_or((before, last));
    (is_printable(file) && !file.is_empty()).then_some(())?;
    Some(Origin {
        file: Cow::Borrowed(file),
        offset: number(offset)?,
        length: None,
    })
}

/// What stands before the last comma, and behind it.
fn parts(value: &str) -> Option<(&str, &str)> {
    let (before, last) = value.rsplit_once(',')?;
    Some((before.trim_ascii(), last.trim_ascii()))
}

/// That of `warcFilename` and `warcFileOffset`.
pub(super) fn written(notes: &str) -> Option<Origin<'_>> {
    let extra = Extra::of(notes)?;
    let file: Cow<'_, str> = text(extra.file?)?;
    (is_printable(&file) && !file.is_empty()).then_some(())?;
    Some(Origin {
        file,
        offset: extra.offset.and_then(|offset| number(offset.get()))?,
        length: extra.length.and_then(|length| number(length.get())),
    })
}

/// That of `etag:…` or of the member `etag`, in any of the ways to write its capitals.
pub(super) fn etag(notes: &str) -> Option<Cow<'_, str>> {
    let bytes = notes.as_bytes();
    memchr2_iter(b'g', b'G', bytes)
        .find(|at| is_etag(at.checked_sub(3).and_then(|from| bytes.get(from..=*at))))?;
    let annotated = Annotations::of(notes).find_map(|note| {
        let (name, value) = note.split_once(':')?;
        is_etag(Some(name.as_bytes())).then_some(value)
    });
    if let Some(value) = annotated.filter(|value| !value.is_empty()) {
        return Some(Cow::Borrowed(value));
    }
    text(Extra::of(notes)?.etag?).filter(|etag| !etag.is_empty())
}

fn is_etag(name: Option<&[u8]>) -> bool {
    name.is_some_and(|name| name.eq_ignore_ascii_case(b"etag"))
}

/// What Heritrix 3 logs as JSON, as far as it counts here. What is not as expected counts as not there.
#[derive(Deserialize)]
struct Extra<'a> {
    #[serde(borrow, rename = "warcFilename")]
    file: Option<&'a RawValue>,
    #[serde(borrow, rename = "warcFileOffset")]
    offset: Option<&'a RawValue>,
    #[serde(borrow, rename = "warcFileRecordLength")]
    length: Option<&'a RawValue>,
    #[serde(borrow, alias = "eTag", alias = "ETag", alias = "Etag")]
    etag: Option<&'a RawValue>,
}

impl<'a> Extra<'a> {
    fn of(notes: &'a str) -> Option<Extra<'a>> {
        serde_json::from_str(notes.get(object(notes)?..)?).ok()
    }
}

/// The text of a string of JSON.
fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let raw = value.get();
    let inside = raw
        .strip_prefix('"')
        .and_then(|raw| raw.strip_suffix('"'))?;
    match memchr(b'\\', inside.as_bytes()) {
        None => Some(Cow::Borrowed(inside)),
        Some(_) => serde_json::from_str(raw).ok().map(Cow::Owned),
    }
}

/// Where the object begins that notes end with.
fn object(notes: &str) -> Option<usize> {
    if !notes.ends_with('}') {
        return None;
    }
    if notes.starts_with('{') {
        return Some(0);
    }
    let bytes = notes.as_bytes();
    memchr_iter(b'{', bytes).find(|at| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        before.is_some_and(u8::is_ascii_whitespace)
    })
}

/// The annotations: separated by commas, but for those in quotes.
struct Annotations<'a>(&'a str);

impl<'a> Annotations<'a> {
    fn of(notes: &'a str) -> Annotations<'a> {
        let end = object(notes).unwrap_or(notes.len());
        Annotations(notes.get(..end).unwrap_or(notes).trim_ascii())
    }
}

impl<'a> Iterator for Annotations<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let mut quoted = false;
        let end = self.0.bytes().position(|byte| {
            quoted ^= byte == b'"';
            byte == b',' && !quoted
        });
        let (note, rest) = match end {
            Some(end) => (self.0.get(..end)?, self.0.get(end + 1..)?),
            None => (self.0, ""),
        };
        self.0 = rest;
        Some(note)
    }
}
