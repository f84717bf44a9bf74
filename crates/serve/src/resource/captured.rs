//! What was captured: the HTTP response that is in a record.

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt};

use super::record::{LoadError, Record};
use super::stored::header::{self, Fields};
use crawlspace_warc::chunked::{Chunked, Piece};
use crawlspace_warc::http::{Head, MAX_HEAD, end_of_head};
use crawlspace_warc::{END, end_of_header};

/// Number of bytes of a payload that are read first: enough to recognize its coding.
const LOOK: usize = 64;

/// Bytes as they come.
pub(crate) type Pieces = BoxStream<'static, Result<Bytes, LoadError>>;

/// The block of a record, taken apart.
pub(crate) struct Captured {
    /// Status line and fields; none of a record that has no HTTP response.
    pub head: Option<Bytes>,
    /// The media type that the record says its block has.
    pub media: Vec<u8>,
    /// The size of the payload in bytes.
    pub length: u64,
    /// The first bytes of the payload.
    pub begin: Bytes,
    /// The whole payload.
    pub payload: Pieces,
}

impl Captured {
    /// Takes a record apart.
    ///
    /// # Errors
    /// When it is not valid as far as it has to be read for that.
    pub(crate) async fn of(record: Record) -> Result<Captured, LoadError> {
        let wrong = |what: &str| LoadError::Record(what.to_owned());
        let end = end_of_header(&record.head).unwrap_or_default();
        let header = header::parse(&record.head[..end])?;
        let around = (end + END.len()) as u64;
        let length = record.length.checked_sub(around);
        let mut left = length.ok_or_else(|| wrong("it is shorter than its header"))?;
        let mut begin = BytesMut::new();
        let mut block = first(record.head.slice(end..), record.body, left);
        let is_http = matches!(header.kind(), b"response" | b"revisit");
        let mut at = None;
        while at.is_none() && begin.len() <= MAX_HEAD {
            let Some(piece) = block.next().await.transpose()? else {
                break;
            };
            begin.extend_from_slice(&piece);
            let may_be_http = begin.iter().zip(b"HTTP/").all(|(a, b)| a == b);
            if !is_http || !may_be_http {
                break;
            }
            at = end_of_head(&begin);
        }
        let is_http = is_http && begin.starts_with(b"HTTP/");
        while begin.len() < at.unwrap_or_default() + LOOK {
            let Some(piece) = block.next().await.transpose()? else {
                break;
            };
            begin.extend_from_slice(&piece);
        }
        let begin = begin.freeze();
        let head = match (is_http, at) {
            (false, _) => None,
            (true, Some(at)) => Some(begin.slice(..at)),
            // Without a blank line all of it is header.
            (true, None) if begin.len() as u64 == left => Some(begin.clone()),
            (true, None) => return Err(wrong("its HTTP header is incomplete")),
        };
        let begin = begin.slice(head.as_ref().map_or(0, Bytes::len)..);
        left -= head.as_ref().map_or(0, Bytes::len) as u64;
        let start = stream::iter((!begin.is_empty()).then(|| Ok(begin.clone())));
        Ok(Captured {
            head,
            media: header.get("Content-Type").unwrap_or_default().to_vec(),
            length: left,
            begin,
            payload: start.chain(block).boxed(),
        })
    }

    /// Whether the payload is in chunks. Many programs that write records undo them, and leave the header.
    pub(crate) fn is_chunked(&self) -> bool {
        let head = self.head.as_ref();
        head.is_some_and(|head| Head::of(head).is_chunked()) && begins_with_chunk(&self.begin)
    }

    /// Whether the payload is in that content coding, as far as its first bytes say so.
    pub(crate) fn is_packed(&self, coding: &[u8]) -> bool {
        let is_gzip =
            coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip");
        let line = if begins_with_chunk(&self.begin) {
            memchr::memchr(b'\n', &self.begin).map_or(0, |at| at + 1)
        } else {
            0
        };
        let bytes = &self.begin[line..];
        !is_gzip || bytes.is_empty() || bytes.starts_with(b"\x1f\x8b")
    }
}

/// The first `length` bytes of `head` and `rest`.
fn first(head: Bytes, rest: Pieces, length: u64) -> Pieces {
    let head = stream::iter((!head.is_empty()).then_some(Ok(head)));
    let pieces = stream::unfold((head.chain(rest), length), |(mut rest, left)| async move {
        if left == 0 {
            return None;
        }
        Some(match rest.next().await? {
            Ok(mut piece) => {
                piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                let left = left - piece.len() as u64;
                (Ok(piece), (rest, left))
            }
            Err(error) => (Err(error), (rest, 0)),
        })
    });
    pieces.fuse().boxed()
}

/// Whether these bytes begin with the size of a chunk.
fn begins_with_chunk(bytes: &[u8]) -> bool {
    let mut input = BytesMut::from(bytes);
    Chunked::default().next(&mut input).is_ok() && memchr::memchr(b'\n', bytes).is_some()
}

/// A payload without its chunks. What is wrong in them ends it.
pub(crate) fn unchunked(payload: Pieces) -> Pieces {
    let state = (payload, Chunked::default(), BytesMut::new());
    let plain = stream::unfold(Some(state), |state| async {
        let (mut payload, mut chunked, mut input) = state?;
        loop {
            match chunked.next(&mut input) {
                Ok(Piece::Data(data)) => return Some((Ok(data), Some((payload, chunked, input)))),
                Ok(Piece::End) => return None,
                Err(what) => {
                    let what = format!("its chunks are not valid: {what}");
                    return Some((Err(LoadError::Record(what)), None));
                }
                // A capture that was cut off is what there is of it.
                Ok(Piece::More) => match payload.next().await? {
                    Ok(piece) => input.extend_from_slice(&piece),
                    Err(error) => return Some((Err(error), None)),
                },
            }
        }
    });
    plain.boxed()
}
