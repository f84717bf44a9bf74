//! Parses the annotations of a line, and the JSON after them.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};
use serde::Deserialize;
use serde_json::value::RawValue;

use crawlspace_index::lines::fields::{is_number, is_printable, number};

/// The position of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The name of the file.
    pub file: Cow<'a, str>,
    /// The offset of the record in the file, in bytes.
    pub offset: u64,
    /// The length of the record in the file in bytes, if known.
    pub length: Option<u64>,
}

/// The storage of a payload, according to the annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stored<'a> {
    /// The capture has its own record with the payload, unless the record was lost.
    #[default]
    Own,
    /// A deduplicator skipped the payload; the annotation has the position of an earlier capture.
    Duplicate(Origin<'a>),
    /// No known record contains the payload: the crawler wrote a revisit record, wrote no record,
    /// or logged an invalid position of the earlier capture.
    Elsewhere,
}

/// The annotations of a line that are used in an index.
#[derive(Debug, Default)]
pub(crate) struct Notes<'a> {
    pub(crate) stored: Stored<'a>,
    /// The size of the stored content in bytes, including the protocol headers, as NetarchiveSuite logs it
    /// (`content-size:`). In ARC files, this is the length of the record.
    pub(crate) content_size: Option<u64>,
    etag: Option<&'a str>,
    /// The JSON object that Heritrix 3 can log after the annotations.
    object: &'a [u8],
}

impl<'a> Notes<'a> {
    pub(super) fn of(notes: &'a [u8]) -> Notes<'a> {
        let (annotations, object) = notes.split_at(object(notes).unwrap_or(notes.len()));
        let mut found = Notes {
            object,
            ..Notes::default()
        };
        for note in Annotations(annotations.trim_ascii()) {
            found.add(note.trim_ascii());
        }
        found
    }

    fn add(&mut self, note: &'a [u8]) {
        let Some((name, value)) = memchr(b':', note).and_then(|at| note.split_at_checked(at))
        else {
            if note == b"unwritten" && self.stored == Stored::Own {
                self.stored = Stored::Elsewhere;
            }
            return;
        };
        let value = value.get(1..).unwrap_or_default();
        match name {
            b"duplicate" | b"deduplicate" => match duplicate(value) {
                Some(origin) => self.stored = Stored::Duplicate(origin),
                None if self.stored == Stored::Own => self.stored = Stored::Elsewhere,
                None => {}
            },
            b"warcRevisit" | b"unwritten" if self.stored == Stored::Own => {
                self.stored = Stored::Elsewhere;
            }
            b"content-size" => self.content_size = number(value).or(self.content_size),
            _ if name.eq_ignore_ascii_case(b"etag") && self.etag.is_none() => {
                self.etag = std::str::from_utf8(value)
                    .ok()
                    .filter(|etag| !etag.is_empty());
            }
            _ => {}
        }
    }

    /// Returns the position of the record, from `warcFilename` and `warcFileOffset`. Returns `None` for
    /// revisit records, which have no payload.
    pub(crate) fn written(&self) -> Option<Origin<'a>> {
        if self.stored != Stored::Own {
            return None;
        }
        let extra = Extra::of(self.object)?;
        let file: Cow<'_, str> = text(extra.file?)?;
        (is_printable(&file) && !file.is_empty()).then_some(())?;
        Some(Origin {
            file,
            offset: number(extra.offset?.get().as_bytes())?,
            length: extra
                .length
                .and_then(|length| number(length.get().as_bytes())),
        })
    }

    /// Returns the ETag, from `etag:…` or the JSON member `etag`, in upper or lower case.
    pub(crate) fn etag(&self) -> Option<Cow<'a, str>> {
        if let Some(etag) = self.etag {
            return Some(Cow::Borrowed(etag));
        }
        // Search first: most objects have no ETag, and parsing is slower.
        memchr_iter(b'"', self.object).find(|at| {
            let name = self.object.get(at.saturating_sub(4)..*at);
            name.is_some_and(|name| name.eq_ignore_ascii_case(b"etag"))
        })?;
        text(Extra::of(self.object)?.etag?).filter(|etag| !etag.is_empty())
    }
}

/// Parses `"file,offset"` or `"file,offset,date"`. Some deduplicators write blanks after commas. A value without a
/// closing quote is truncated, and rejected.
fn duplicate(value: &[u8]) -> Option<Origin<'_>> {
    let value = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let (before, last) = parts(std::str::from_utf8(value).ok()?)?;
    let dated = parts(before).filter(|(_, offset)| {
        is_number(offset.as_bytes()) && is_number(last.as_bytes()) && matches!(last.len(), 14 | 17)
    });
    let (file, offset) = dated.unwrap_or((before, last));
    (is_printable(file) && !file.is_empty()).then_some(())?;
    Some(Origin {
        file: Cow::Borrowed(file),
        offset: number(offset.as_bytes())?,
        length: None,
    })
}

/// Splits a value at the last comma.
fn parts(value: &str) -> Option<(&str, &str)> {
    let (before, last) = value.rsplit_once(',')?;
    Some((before.trim_ascii(), last.trim_ascii()))
}

/// Appends notes in which the offset of `duplicate:"file,offset"` is replaced, and `.gz` is appended to the file name,
/// as in an archive that was compressed later. Returns false if the notes have no such position, or `find`
/// returns no new offset.
pub(crate) fn push_migrated(
    notes: &[u8],
    find: impl FnOnce(&str, u64) -> Option<u64>,
    into: &mut Vec<u8>,
) -> bool {
    let Stored::Duplicate(Origin {
        file: Cow::Borrowed(file),
        offset,
        ..
    }) = Notes::of(notes).stored
    else {
        return false;
    };
    let Some(new) = find(file, offset) else {
        return false;
    };
    // The notes contain the file name, followed by the digits of the offset.
    let Some(file_ends) = memchr::memmem::find(notes, file.as_bytes()).map(|at| at + file.len())
    else {
        return false;
    };
    let (before, rest) = notes.split_at(file_ends);
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let from = rest.iter().position(is_digit).unwrap_or(rest.len());
    let (between, rest) = rest.split_at(from);
    let to = rest
        .iter()
        .position(|byte| !is_digit(byte))
        .unwrap_or(rest.len());
    let rest = rest.get(to..).unwrap_or_default();
    for part in [before, b".gz", between, new.to_string().as_bytes(), rest] {
        into.extend_from_slice(part);
    }
    true
}

/// The JSON members that are used. Members of unexpected types count as missing.
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
    fn of(object: &'a [u8]) -> Option<Extra<'a>> {
        if object.is_empty() {
            return None;
        }
        serde_json::from_slice(object).ok()
    }
}

/// Returns the text of a JSON string.
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

/// Returns the offset of the JSON object at the end of the notes.
fn object(notes: &[u8]) -> Option<usize> {
    if !notes.ends_with(b"}") {
        return None;
    }
    if notes.starts_with(b"{") {
        return Some(0);
    }
    memchr_iter(b'{', notes).find(|at| {
        let before = at.checked_sub(1).and_then(|before| notes.get(before));
        before.is_some_and(u8::is_ascii_whitespace)
    })
}

/// Splits annotations at commas outside of quotes.
struct Annotations<'a>(&'a [u8]);

impl<'a> Iterator for Annotations<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let mut quoted = false;
        let end = self.0.iter().position(|byte| {
            quoted ^= *byte == b'"';
            *byte == b',' && !quoted
        });
        let (note, rest) = match end {
            Some(end) => (self.0.get(..end)?, self.0.get(end + 1..)?),
            None => (self.0, &b""[..]),
        };
        self.0 = rest;
        Some(note)
    }
}
