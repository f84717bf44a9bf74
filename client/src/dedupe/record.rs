//! Records: those that were stored first, and those that are written.

use redis::{Cmd, FromRedisValue, ParsingError, Value};
use serde::Serialize;

use crate::reply::{as_optional_text, as_text, shown};

/// The record that a hash was first stored with.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Original {
    /// The crawl that stored it.
    #[serde(serialize_with = "as_text")]
    pub crawl: Vec<u8>,
    /// Which of that crawl's WACZ files it is in.
    pub wacz_index: u64,
    /// When it was captured, in the form that the crawler gave: 14 digits, 17 digits or ISO.
    #[serde(serialize_with = "as_text")]
    pub date: Vec<u8>,
    /// What was captured.
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

/// An original, and the WACZ file that holds it.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Located {
    /// The record.
    #[serde(flatten)]
    pub original: Original,
    /// Name of the file. `None` when the crawl's list has none at that index.
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

/// A `response` record that was written.
#[derive(Clone, Copy)]
#[allow(missing_docs)] // the arguments of DEDUPE.ADD, in its order
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
    /// Hash of the payload that it stands for.
    pub hash: &'a [u8],
    /// Size of the `revisit` record in bytes.
    pub size: u64,
    /// The record that it refers to: what [`lookup`](super::Index::lookup) or
    /// [`claim`](super::Index::claim) gave. Without it the payload is looked up again, and another
    /// record may be noted than this one refers to.
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

/// Which call of a writer this is, so that it counts once though it may arrive twice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sequence<'a> {
    /// A name, up to 1 KiB.
    pub writer: &'a [u8],
    /// From 1 on; grows with each call of the writer.
    pub number: u64,
}

debug_as_text! { Sequence<'_> { writer: text, number: plain } }

impl Sequence<'_> {
    pub(crate) fn write_to(&self, command: &mut Cmd) {
        command.arg("SEQ").arg(self.writer).arg(self.number);
    }

    /// The sequence of the `ADD`s of a writer that also sends `REVISIT`s. There are two, so that an `ADD`
    /// that was refused is not taken for one that was counted because the `REVISIT` after it was.
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

    /// The sequence of the `REVISIT`s of a writer that also sends `ADD`s.
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

/// What else there is to say about records that are added.
#[derive(Clone, Copy, Default)]
pub struct Adding<'a> {
    /// Makes the call safe to send twice.
    pub sequence: Option<Sequence<'a>>,
    /// Of several records of one hash in a crawl that is not committed, the earliest is kept, in whatever
    /// order they come. Otherwise it is the first that comes.
    pub earliest: bool,
    /// The token of a claim on one of the hashes, which is settled with this.
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

/// What of a revisit's original is noted, so that it can be told later what a crawl needs for replay.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Reference<'a> {
    /// The crawl of the original.
    #[default]
    Crawl,
    /// The crawl of the original, and its WACZ file for the WACZ of this id that is being written.
    Wacz(&'a [u8]),
    /// The number of revisits for each crawl alone: the crawler notes the originals elsewhere.
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

/// What else there is to say about revisits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Revisiting<'a> {
    /// What is noted of the originals.
    pub reference: Reference<'a>,
    /// Makes the call safe to send twice.
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
