//! HTTP headers of live records, as close as possible to what servers sent.

use crawlspace_warc::http::{Head, Status};

/// Prefix that archives, including pywb, add to the names of captured fields that no longer apply or must not take
/// effect.
pub(super) const ORIGINAL: &str = "X-Archive-Orig-";
/// Prefix of the names of trailer fields.
const TRAILER: &str = "X-Archive-Trailer-";

/// Returns the header of a response from the live web, as it was received.
///
/// The header is changed only if the chunked coding was decoded: it then states the `length` of the
/// body, and the original transfer coding gets the prefix that archives use. Trailer fields get a
/// prefix of their own, since they are not part of the header (RFC 9110, section 6.5.1).
pub(super) fn live(head: &Head<Status>, length: Option<u64>, trailer: &[u8]) -> Vec<u8> {
    let Some(length) = length else {
        return if lines(head.raw()).rev().skip(1).any(is_blank) {
            ended(without_blank_lines(head.raw()))
        } else {
            head.raw().to_vec()
        };
    };
    let mut into = head.first_line().to_vec();
    for field in head.fields() {
        if field.is("Transfer-Encoding") || field.is("Content-Length") {
            into.extend_from_slice(ORIGINAL.as_bytes());
        }
        into.extend_from_slice(field.line);
    }
    into.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
    for line in lines(trailer) {
        // A continuation line belongs to the previous line.
        if !matches!(line.first(), Some(b' ' | b'\t')) {
            into.extend_from_slice(TRAILER.as_bytes());
        }
        into.extend_from_slice(line);
    }
    ended(without_blank_lines(&into))
}

/// Appends the empty line that ends a header.
pub(super) fn ended(mut lines: Vec<u8>) -> Vec<u8> {
    lines.extend_from_slice(b"\r\n");
    lines
}

/// Removes blank lines, at which programs that read WARC files would end the header.
pub(super) fn without_blank_lines(text: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(text.len() + 2);
    for line in lines(text).filter(|line| !is_blank(line)) {
        kept.extend_from_slice(line);
    }
    kept
}

/// Splits bytes into lines, including their line breaks.
fn lines(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n')
}

/// Returns whether some program would treat a line as blank. The line is read as UTF-8, or else as ISO-8859-1, and may
/// have any Unicode white space.
fn is_blank(line: &[u8]) -> bool {
    let is_white = |char: char| char.is_whitespace() || matches!(char, '\u{1c}'..='\u{1f}');
    match std::str::from_utf8(line) {
        Ok(text) => text.chars().all(is_white),
        Err(_) => line.iter().all(|&byte| is_white(char::from(byte))),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn head(text: &[u8]) -> Head<Status> {
        Head::new(Bytes::copy_from_slice(text), Status::read).unwrap()
    }

    #[test]
    fn header_is_kept_as_received() {
        for text in [
            &b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"[..],
            b"HTTP/1.0 200\nA:b\n no field\nsecond\xff\x00\n\n",
            b"HTTP/1.1 204 \r\n\n",
            b"HTTP/1.1 200 OK\r\nA : b\r\n\tc\r\nno field\r\n\r\n",
        ] {
            assert_eq!(
                live(&head(text), None, b""),
                text,
                "{:?}",
                String::from_utf8_lossy(text)
            );
        }
    }

    #[test]
    fn lines_that_could_split_the_header_are_removed() {
        for blank in [
            &b" "[..],
            b"\t \x0b\x0c",
            b"\xa0",
            b"\xc2\xa0",
            b" \x1c\x1f",
            b"\x85",
            b" \r",
        ] {
            let text = [b"HTTP/1.1 200 OK\r\nA: b\r\n", blank, b"\r\nC: d\r\n\r\n"].concat();
            let without = live(&head(&text), None, b"");
            assert_eq!(
                without, b"HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\n\r\n",
                "{blank:?}"
            );
        }
    }

    #[test]
    fn removed_chunked_coding_is_noted() {
        let text = b"HTTP/1.1 200 OK\r\ntransfer-encoding : chunked\r\nA: b\r\nContent-Length: 3\r\nTE: x\r\n\r\n";
        assert_eq!(
            String::from_utf8(live(
                &head(text),
                Some(5),
                b"Digest: x\r\n y\r\n \r\nB: c\r\n"
            ))
            .unwrap(),
            "HTTP/1.1 200 OK\r\nX-Archive-Orig-transfer-encoding : chunked\r\nA: b\r\n\
             X-Archive-Orig-Content-Length: 3\r\nTE: x\r\nContent-Length: 5\r\nX-Archive-Trailer-Digest: x\r\n y\r\n\
             X-Archive-Trailer-B: c\r\n\r\n"
        );
    }
}
