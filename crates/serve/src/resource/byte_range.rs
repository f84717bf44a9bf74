//! Byte ranges requested by clients, and partial content of captures (RFC 9110, section 14).

use super::record::Record;
/// The part of a resource contained in a capture.
pub(crate) use crawlspace_fetch::range::Part as Piece;
use crawlspace_warc::http::{Head, end_of_head, interim_heads};
use crawlspace_warc::{END, decimal, end_of_header};

/// A byte range requested by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteRange {
    /// From a first byte to a last byte (inclusive), or to the end.
    From(u64, Option<u64>),
    /// The last bytes of the resource.
    Last(u64),
}

impl ByteRange {
    /// Parses the header `Range`. Returns `None` if it requests several ranges or another unit, or is invalid: servers
    /// then send the whole resource.
    pub(crate) fn parse(text: &[u8]) -> Option<ByteRange> {
        let (unit, range) = text.split_at_checked(b"bytes=".len())?;
        if !unit.eq_ignore_ascii_case(b"bytes=") {
            return None;
        }
        let range = range.trim_ascii();
        let dash = memchr::memchr(b'-', range)?;
        match (&range[..dash], &range[dash + 1..]) {
            (b"", last) => Some(ByteRange::Last(decimal(last)?)),
            (first, b"") => Some(ByteRange::From(decimal(first)?, None)),
            (first, last) => {
                let (first, last) = (decimal(first)?, decimal(last)?);
                (first <= last).then_some(ByteRange::From(first, Some(last)))
            }
        }
    }

    /// Returns the first and last byte of the range in a resource of that size, or `None` if the range is outside the
    /// resource.
    pub(crate) fn within(self, total: u64) -> Option<(u64, u64)> {
        let end = total.checked_sub(1)?;
        match self {
            ByteRange::From(first, last) if first <= end => {
                Some((first, last.unwrap_or(end).min(end)))
            }
            ByteRange::Last(count @ 1..) => Some((total.saturating_sub(count), end)),
            _ => None,
        }
    }

    /// Returns the first and last byte of the range within a piece, if the range starts in it.
    pub(crate) fn of_piece(self, piece: Piece) -> Option<(u64, u64)> {
        let (first, last) = match (self, piece.total) {
            (_, Some(total)) => self.within(total)?,
            (ByteRange::From(first, last), None) => (first, last.unwrap_or(u64::MAX)),
            (ByteRange::Last(_), None) => return None,
        };
        (piece.from..=piece.last)
            .contains(&first)
            .then(|| (first, last.min(piece.last)))
    }

    /// Returns whether a record contains the first byte of the range. A chunked body has an unknown size until it is
    /// read, so its header is trusted.
    pub(super) fn is_begun_by(self, record: &Record) -> bool {
        let block = end_of_header(&record.head).and_then(|end| record.head.get(end..));
        let block = block.unwrap_or_default();
        let at = interim_heads(block);
        let head = Head::of(&block[at..]);
        let Some(piece) = piece_of(&head) else {
            return true;
        };
        let body = at + end_of_head(&block[at..]).unwrap_or_default();
        let around = record.head.len() - block.len() + body + END.len();
        let there = if head.is_chunked() {
            Some(piece)
        } else {
            piece.cut(record.length.saturating_sub(around as u64))
        };
        there.is_some_and(|piece| self.of_piece(piece).is_some())
    }
}

/// Returns the piece contained in a partial HTTP response; `None` if the response is complete.
pub(crate) fn piece_of(head: &Head<(), &[u8]>) -> Option<Piece> {
    if head.status() != Some(206) {
        return None;
    }
    Piece::parse(std::str::from_utf8(head.get("Content-Range")?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_rfc_9110() {
        for (text, expected) in [
            ("bytes=0-499", Some((0, 499))),
            ("Bytes=500-", Some((500, 999))),
            ("bytes=-300", Some((700, 999))),
            ("bytes=-5000", Some((0, 999))),
            ("bytes=900-5000", Some((900, 999))),
            ("bytes=1000-", None),
            ("bytes=-0", None),
        ] {
            let range = ByteRange::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(range.within(1000), expected, "{text}");
            assert_eq!(range.within(0), None, "{text}");
        }
        for none in [
            "",
            "bytes=",
            "bytes=5",
            "bytes=5-4",
            "bytes=0-1,3-4",
            "items=0-1",
            "bytes=a-b",
        ] {
            assert_eq!(ByteRange::parse(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn part_equals_its_content_range() {
        let piece = |range: &str| {
            let head = format!("HTTP/1.1 206 Partial Content\r\nContent-Range: {range}\r\n\r\n");
            piece_of(&Head::of(head.as_bytes()))
        };
        let half = piece("bytes 500-999/2000").unwrap();
        assert!(!half.is_whole() && piece("bytes 0-9/10").unwrap().is_whole());
        for (range, expected) in [
            ("bytes=500-", Some((500, 999))),
            ("bytes=600-700", Some((600, 700))),
            ("bytes=0-", None),
            ("bytes=1000-", None),
            ("bytes=-1500", Some((500, 999))),
        ] {
            let parsed = ByteRange::parse(range.as_bytes()).unwrap();
            assert_eq!(parsed.of_piece(half), expected, "{range}");
        }
        let cut = half.cut(100).unwrap();
        assert_eq!((cut.from, cut.last, cut.total), (500, 599, Some(2000)));
        assert_eq!((half.cut(501), half.cut(0)), (Some(half), None));
        let open = piece("bytes 500-999/*").unwrap();
        assert_eq!(ByteRange::From(700, None).of_piece(open), Some((700, 999)));
        for wrong in [
            "",
            "bytes */10",
            "bytes 5-4/10",
            "bytes 5-10/10",
            "items 0-9/10",
        ] {
            assert_eq!(piece(wrong), None, "{wrong}");
        }
    }
}
