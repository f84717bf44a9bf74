//! Records: the original of a payload, and the records that a crawl adds.

use redis::{Cmd, FromRedisValue, ParsingError, Value};
use serde::Serialize;

use crate::reply::{as_optional_text, as_text, shown};

/// The original of a payload: the first stored record of its hash.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Original {
    /// Crawl that stored the record.
    #[serde(serialize_with = "as_text")]
    pub crawl: Vec<u8>,
    /// Index of the WACZ file that contains the record, within that crawl.
    pub wacz_index: u64,
    /// Capture date in the format that the crawler sent: 14 digits, 17 digits or ISO 8601.
    #[serde(serialize_with = "as_text")]
    pub date: Vec<u8>,
    /// URL of the capture.
    #[serde(serialize_with = "as_text")]
    pub url: Vec<u8>,
    /// Size of the `response` record in bytes.
    pub size: u64,
}

debug_as_text! { Original { crawl: text, wacz_index: plain, date: text, url: text, size: plain } }

impl FromRedisValue for Original {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (crawl, wacz_index, date, url, size) = FromRedisValue::from_redis_value(value)?;
        Ok(Original {
            crawl,
            wacz_index,
            date,
            url,
            size,
        })
    }
}

/// An original, and the name of the WACZ file that contains it.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Located {
    /// The original.
    #[serde(flatten)]
    pub original: Original,
    /// Name of the WACZ file. `None` if the crawl lists no file at that index.
    #[serde(serialize_with = "as_optional_text")]
    pub filename: Option<Vec<u8>>,
}

debug_as_text! { Located { original: plain, filename: optional } }

impl FromRedisValue for Located {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let mut parts = Vec::<Value>::from_redis_value(value)?;
        let filename = parts.pop().unwrap_or(Value::Nil);
        Ok(Located {
            original: Original::from_redis_value(Value::Array(parts))?,
            filename: FromRedisValue::from_redis_value(filename)?,
        })
    }
}

/// A `response` record that was written: the arguments of `DEDUPE.ADD`.
#[derive(Clone, Copy)]
#[allow(missing_docs)] // the arguments of DEDUPE.ADD, in order
pub struct Added<'a> {
    pub hash: &'a [u8],
    pub wacz_index: u64,
    pub date: &'a [u8],
    pub url: &'a [u8],
    pub size: u64,
}

debug_as_text! { Added<'_> { hash: text, wacz_index: plain, date: text, url: text, size: plain } }

impl<'a> Added<'a> {
    /// Creates a record from the arguments of `DEDUPE.ADD`, in its order.
    pub fn new(
        hash: &'a [u8],
        wacz_index: u64,
        date: &'a [u8],
        url: &'a [u8],
        size: u64,
    ) -> Added<'a> {
        Added {
            hash,
            wacz_index,
            date,
            url,
            size,
        }
    }

    pub(super) fn write_to(&self, command: &mut Cmd) {
        command
            .arg(self.hash)
            .arg(self.wacz_index)
            .arg(self.date)
            .arg(self.url)
            .arg(self.size);
    }
}

/// A `revisit` record that was written.
#[derive(Clone, Copy)]
pub struct Revisited<'a> {
    /// Hash of the payload of the original.
    pub hash: &'a [u8],
    /// Size of the `revisit` record in bytes.
    pub size: u64,
    /// The original to which the record refers, as [`lookup`](super::Index::lookup) or
    /// [`claim`](super::Index::claim) returned it. With `None`, the server looks up the payload
    /// again, and may store a reference to a different original than the one in the WARC record.
    pub original: Option<&'a Original>,
}

debug_as_text! { Revisited<'_> { hash: text, size: plain, original: plain } }

impl Revisited<'_> {
    pub(super) fn write_to(&self, command: &mut Cmd) {
        command.arg(self.hash).arg(self.size);
        if let Some(original) = self.original {
            command
                .arg("ORIGINAL")
                .arg(&original.crawl)
                .arg(original.wacz_index)
                .arg(original.size);
        }
    }
}

/// Sequence number of a call. With it, the server counts a call once even if it arrives twice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sequence<'a> {
    /// Name of the writer, up to 1 KiB.
    pub writer: &'a [u8],
    /// Number of the call. It starts at 1 and increases with each call of the writer.
    pub number: u64,
}

debug_as_text! { Sequence<'_> { writer: text, number: plain } }

impl Sequence<'_> {
    pub(crate) fn write_to(&self, command: &mut Cmd) {
        command.arg("SEQ").arg(self.writer).arg(self.number);
    }

    /// Calls `add` with the sequence for `ADD` calls of a writer that also sends `REVISIT`s. The
    /// two kinds of calls have separate sequences. Otherwise, after a later `REVISIT` has
    /// succeeded, a refused `ADD` would look as if it was counted.
    pub(super) fn adding<T>(&self, add: impl FnOnce(&Adding<'_>) -> T) -> T {
        let writer = [self.writer, b" add"].concat();
        add(&Adding {
            sequence: Some(Sequence {
                writer: &writer,
                number: self.number,
            }),
            ..Adding::default()
        })
    }

    /// Calls `revisit` with the sequence for `REVISIT` calls of a writer that also sends `ADD`s.
    pub(super) fn revisiting<T>(&self, revisit: impl FnOnce(&Revisiting<'_>) -> T) -> T {
        let writer = [self.writer, b" revisit"].concat();
        revisit(&Revisiting {
            sequence: Some(Sequence {
                writer: &writer,
                number: self.number,
            }),
            ..Revisiting::default()
        })
    }
}

/// Options of [`Index::add`](super::Index::add).
#[derive(Clone, Copy, Default)]
pub struct Adding<'a> {
    /// Sequence number, with which the call can safely be sent twice.
    pub sequence: Option<Sequence<'a>>,
    /// Keeps the earliest record of a hash within an uncommitted crawl, regardless of the order of
    /// arrival. Otherwise, the server keeps the record that arrives first.
    pub earliest: bool,
    /// Token of a claim on one of the hashes. The call settles this claim.
    pub token: Option<&'a [u8]>,
}

debug_as_text! { Adding<'_> { sequence: plain, earliest: plain, token: optional } }

impl Adding<'_> {
    pub(super) fn write_to(&self, command: &mut Cmd) {
        if let Some(token) = self.token {
            command.arg("TOKEN").arg(token);
        }
        if let Some(sequence) = self.sequence {
            sequence.write_to(command);
        }
        if self.earliest {
            command.arg("EARLIEST");
        }
    }
}

/// The reference that the server stores for the original of a revisit. This determines how much
/// [`requires`](super::Index::requires) can report about the crawl.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Reference<'a> {
    /// The crawl of the original.
    #[default]
    Crawl,
    /// The crawl and the WACZ file of the original, as requirements of the WACZ file with this id,
    /// which contains the revisit.
    Wacz(&'a [u8]),
    /// No reference, only the number of revisits: the crawler stores the references itself.
    None,
}

impl std::fmt::Debug for Reference<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Crawl => f.write_str("Crawl"),
            Self::Wacz(bytes) => f.debug_tuple("Wacz").field(&shown::text(bytes)).finish(),
            Self::None => f.write_str("None"),
        }
    }
}

/// Options of [`Index::revisit`](super::Index::revisit).
#[derive(Clone, Copy, Debug, Default)]
pub struct Revisiting<'a> {
    /// The references that the server stores for the originals.
    pub reference: Reference<'a>,
    /// Sequence number, with which the call can safely be sent twice.
    pub sequence: Option<Sequence<'a>>,
}

impl Revisiting<'_> {
    pub(super) fn write_to(&self, command: &mut Cmd) {
        match self.reference {
            Reference::Crawl => {}
            Reference::Wacz(uuid) => {
                command.arg("REF").arg(uuid);
            }
            Reference::None => {
                command.arg("NOREF");
            }
        }
        if let Some(sequence) = self.sequence {
            sequence.write_to(command);
        }
    }
}
