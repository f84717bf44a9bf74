//! What was captured: the HTTP response that is in a record.

use std::io::{self, Read};

use bytes::{Buf, Bytes, BytesMut};
use flate2::bufread::{DeflateDecoder, ZlibDecoder};
use futures_util::stream::{self, BoxStream, StreamExt};

use super::record::{LoadError, Record};
use super::stored::header::{self, Fields};
use crawlspace_warc::chunked::{Chunked, Piece};
use crawlspace_warc::http::{
    Head, MAX_HEAD, end_of_head, interim_heads, is_response, may_be_response,
};
use crawlspace_warc::{END, end_of_header};

/// Number of bytes of a payload that are read first: enough to recognize its coding.
const LOOK: usize = 1024;
/// Number of unpacked bytes that show that a payload is packed.
const MAX_UNPACKED: usize = 64 * 1024;

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
        // As much after the header as shows how the payload is coded, and whether another header follows.
        while begin.len() <= MAX_HEAD && at.is_none_or(|at| begin.len() < at + LOOK) {
            let Some(piece) = block.next().await.transpose()? else {
                break;
            };
            begin.extend_from_slice(&piece);
            if !is_http || !may_be_response(&begin) {
                if begin.len() >= LOOK {
                    break;
                }
                continue;
            }
            let interim = interim_heads(&begin);
            begin.advance(interim);
            left -= interim as u64;
            at = end_of_head(&begin);
        }
        let is_http = is_http && is_response(&begin);
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

    /// Returns whether the payload is in that content coding, or in the last one of a list, as far as its first bytes say so.
    pub(crate) fn is_packed(&self, coding: &[u8]) -> bool {
        let last = coding.rsplit(|byte| *byte == b',').next();
        let coding = last.unwrap_or_default().trim_ascii().to_ascii_lowercase();
        let mut input = BytesMut::from(&self.begin[..]);
        let chunk = match Chunked::default().next(&mut input) {
            Ok(Piece::Data(chunk)) if self.is_chunked() => Some(chunk),
            _ => None,
        };
        let is_whole = chunk.is_none() && self.begin.len() as u64 == self.length;
        let bytes = chunk.as_deref().unwrap_or(&self.begin);
        bytes.is_empty()
            || match &coding[..] {
                b"gzip" | b"x-gzip" => bytes.starts_with(b"\x1f\x8b"),
                b"zstd" => bytes.starts_with(b"\x28\xb5\x2f\xfd"),
                // It is zlib (RFC 9110, section 8.4.1.2), and some servers send it bare.
                b"deflate" => {
                    unpacks(ZlibDecoder::new(bytes), is_whole)
                        || unpacks(DeflateDecoder::new(bytes), is_whole)
                }
                b"br" => unpacks(
                    brotli_decompressor::Decompressor::new(bytes, LOOK),
                    is_whole,
                ),
                _ => true,
            }
    }
}

/// Returns whether bytes can be unpacked. If they are not all, they may break off.
fn unpacks(mut decoder: impl Read, is_whole: bool) -> bool {
    let (mut buffer, mut unpacked) = ([0; 1024], 0);
    loop {
        match decoder.read(&mut buffer) {
            Ok(0) => return true,
            // More than enough to tell.
            Ok(_) if unpacked > MAX_UNPACKED => return true,
            Ok(count) => unpacked += count,
            Err(error) => return error.kind() == io::ErrorKind::UnexpectedEof && !is_whole,
        }
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn captured(coding: &str, payload: &[u8]) -> Captured {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\n\r\n");
        Captured {
            head: Some(head.into()),
            media: Vec::new(),
            length: payload.len() as u64,
            begin: Bytes::copy_from_slice(&payload[..payload.len().min(LOOK)]),
            payload: stream::empty().boxed(),
        }
    }

    #[test]
    fn a_coding_that_the_payload_does_not_have_is_recognized() {
        let page = b"<!DOCTYPE html><title>a page</title><p>hello, hello, hello".repeat(100);
        let level = flate2::Compression::default();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), level);
        let mut bare = flate2::write::DeflateEncoder::new(Vec::new(), level);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
        zlib.write_all(&page).unwrap();
        bare.write_all(&page).unwrap();
        gzip.write_all(&page).unwrap();
        let packed = [
            ("deflate", zlib.finish().unwrap()),
            ("deflate", bare.finish().unwrap()),
            ("gzip", gzip.finish().unwrap()),
            ("br, gzip", b"\x1f\x8b\x08".to_vec()),
            ("zstd", b"\x28\xb5\x2f\xfd\x04".to_vec()),
            // "hello" in one uncompressed block (RFC 7932, section 9.2).
            ("br", b"\x0b\x02\x80hello\x03".to_vec()),
            ("unknown", b"hello".to_vec()),
        ];
        for (coding, payload) in packed {
            assert!(
                captured(coding, &payload).is_packed(coding.as_bytes()),
                "{coding}"
            );
        }
        for coding in ["gzip", "deflate", "br", "zstd", "gzip, br"] {
            for payload in [&page[..], b"hello", b"{}", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"] {
                assert!(
                    !captured(coding, payload).is_packed(coding.as_bytes()),
                    "{coding}"
                );
            }
        }
    }
}
