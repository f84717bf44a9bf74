//! The HTTP response captured in a record.

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

/// Minimum number of payload bytes to read first, enough to recognize the content coding.
const LOOK: usize = 1024;
/// Content codings that can be recognized in a payload.
const KNOWN_CODINGS: [&[u8]; 5] = [b"gzip", b"x-gzip", b"zstd", b"deflate", b"br"];
/// Further registered content codings. Other values that servers send (`none`, `UTF-8`) are not codings.
const OTHER_CODINGS: [&[u8]; 7] = [
    b"compress",
    b"x-compress",
    b"dcb",
    b"dcz",
    b"exi",
    b"aes128gcm",
    b"pack200-gzip",
];
/// Number of decoded bytes that prove that a payload is encoded.
const MAX_UNPACKED: usize = 64 * 1024;

/// A stream of bytes.
pub(crate) type Pieces = BoxStream<'static, Result<Bytes, LoadError>>;

/// The parsed block of a record.
pub(crate) struct Captured {
    /// Status line and header fields; `None` if the record has no HTTP response.
    pub head: Option<Bytes>,
    /// Media type of the block, from the record's header.
    pub media: Vec<u8>,
    /// Size of the payload, in bytes.
    pub length: u64,
    /// First bytes of the payload.
    pub begin: Bytes,
    /// The whole payload.
    pub payload: Pieces,
}

impl Captured {
    /// Parses a record.
    ///
    /// # Errors
    /// Fails if the record is invalid in a part that has to be read.
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
        // Reads enough of the payload to recognize its coding, and to see whether another header
        // follows.
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
            // Without a blank line, the whole block is the header.
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

    /// Returns a decoder of the payload's chunked coding, if the payload is chunked. Many programs remove the chunks
    /// when they write records, but keep the header field.
    pub(crate) fn chunks(&self) -> Option<Chunked> {
        let head = self.head.as_ref();
        head.filter(|head| Head::of(head).is_chunked())?;
        let is_whole = self.begin.len() as u64 == self.length;
        if begins_with_chunks(&self.begin) {
            return Some(Chunked::default());
        }
        begins_with_lenient_chunks(&self.begin, is_whole).then(Chunked::lenient)
    }

    /// Returns whether the payload has that content coding (or the last one of a list), judged by its first bytes.
    pub(crate) fn is_packed(&self, coding: &[u8]) -> bool {
        let last = coding.rsplit(|byte| *byte == b',').next();
        let coding = last.unwrap_or_default().trim_ascii().to_ascii_lowercase();
        let mut input = BytesMut::from(&self.begin[..]);
        let chunk = match self.chunks().map(|mut chunks| chunks.next(&mut input)) {
            Some(Ok(Piece::Data(chunk))) => Some(chunk),
            _ => None,
        };
        let is_whole = chunk.is_none() && self.begin.len() as u64 == self.length;
        let bytes = chunk.as_deref().unwrap_or(&self.begin);
        let is_known = |name: &[u8]| KNOWN_CODINGS.contains(&name) || OTHER_CODINGS.contains(&name);
        bytes.is_empty() && is_known(&coding)
            || match &coding[..] {
                b"gzip" | b"x-gzip" => bytes.starts_with(b"\x1f\x8b"),
                b"zstd" => bytes.starts_with(b"\x28\xb5\x2f\xfd"),
                // The standard requires zlib (RFC 9110, section 8.4.1.2), but some servers send raw deflate.
                b"deflate" => {
                    unpacks(ZlibDecoder::new(bytes), is_whole)
                        || unpacks(DeflateDecoder::new(bytes), is_whole)
                }
                b"br" => unpacks(
                    brotli_decompressor::Decompressor::new(bytes, LOOK),
                    is_whole,
                ),
                name => OTHER_CODINGS.contains(&name),
            }
    }
}

/// Returns whether bytes can be decoded. Unless they are complete, the input may end early.
fn unpacks(mut decoder: impl Read, is_whole: bool) -> bool {
    let (mut buffer, mut unpacked) = ([0; 1024], 0);
    loop {
        match decoder.read(&mut buffer) {
            Ok(0) => return true,
            // This much output proves that the payload is encoded.
            Ok(_) if unpacked > MAX_UNPACKED => return true,
            Ok(count) => unpacked += count,
            Err(error) => return error.kind() == io::ErrorKind::UnexpectedEof && !is_whole,
        }
    }
}

/// Returns the first `length` bytes of `head` and `rest`.
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

/// Returns whether bytes begin with valid chunks.
fn begins_with_chunks(bytes: &[u8]) -> bool {
    read_chunks(Chunked::default(), bytes).is_some() && memchr::memchr(b'\n', bytes).is_some()
}

/// Returns whether bytes begin with chunks whose lines may end with a bare LF. Plain text may also begin with a line
/// that is a number. Therefore, if `is_whole` is set, the last chunk must be present; otherwise, there must be more
/// than one chunk.
fn begins_with_lenient_chunks(bytes: &[u8], is_whole: bool) -> bool {
    let read = read_chunks(Chunked::lenient(), bytes);
    read.is_some_and(|(pieces, is_end)| is_end || !is_whole && pieces > 1)
}

/// Returns the number of chunks, the last of which may be truncated, and whether the last chunk is present. Returns
/// `None` if the bytes are not chunks.
fn read_chunks(mut chunks: Chunked, bytes: &[u8]) -> Option<(usize, bool)> {
    let (mut input, mut pieces) = (BytesMut::from(bytes), 0);
    loop {
        match chunks.next(&mut input).ok()? {
            Piece::Data(_) => pieces += 1,
            Piece::End => return Some((pieces, true)),
            Piece::More => return Some((pieces, false)),
        }
    }
}

/// Decodes the chunks of a payload. Invalid chunks end the stream with an error.
pub(crate) fn unchunked(payload: Pieces, chunks: Chunked) -> Pieces {
    let state = (payload, chunks, BytesMut::new());
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
                // The payload of a truncated capture ends early.
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
    fn chunked_bodies_differ_from_text_that_begins_with_a_number() {
        let long = "x".repeat(LOOK);
        for (payload, are_chunks) in [
            ("4\r\npage\r\n0\r\n\r\n", true),
            ("4\r\npa", true),
            ("0\r\n\r\n", true),
            ("4\npage\n0\n\n", true),
            (&format!("4\npage\n1000\n{long}"), true),
            (&format!("1000\r\n{long}"), true),
            (&format!("1000\n{long}"), false),
            ("4\npa", false),
            ("4\n2 is no size\n", false),
            ("4\r\n2 is no size\r\n", false),
            ("page", false),
            ("", false),
        ] {
            let mut captured = captured("gzip", payload.as_bytes());
            assert!(captured.chunks().is_none());
            captured.head = Some("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".into());
            assert_eq!(captured.chunks().is_some(), are_chunks, "{payload}");
        }
    }

    #[test]
    fn wrong_content_encoding_is_recognized() {
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
            ("dcz", b"hello".to_vec()),
        ];
        for (coding, payload) in packed {
            assert!(
                captured(coding, &payload).is_packed(coding.as_bytes()),
                "{coding}"
            );
        }
        for coding in [
            "gzip", "deflate", "br", "zstd", "gzip, br", "none", "UTF-8", "identity", "",
        ] {
            for payload in [&page[..], b"hello", b"{}", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"] {
                assert!(
                    !captured(coding, payload).is_packed(coding.as_bytes()),
                    "{coding}"
                );
            }
        }
    }
}
