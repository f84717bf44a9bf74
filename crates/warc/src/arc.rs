//! Header lines of ARC records (versions 1 and 2 of the format).

use std::borrow::Cow;
use std::net::IpAddr;

use super::Header;
use super::header::decimal;
use super::http;

/// Number of columns of a header line in versions 1 and 2.
const FIRST: usize = 5;
const SECOND: usize = 10;
/// URL prefix of the first record of a file, which describes the file.
pub(super) const BEGIN: &[u8] = b"filedesc:";

/// A header line: `URL IP-address date type length`, or in version 2
/// `URL IP-address date type status checksum location offset filename length`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// URL of the record. Spaces, which only ARC files allow, are replaced by `%20`.
    pub uri: Cow<'a, [u8]>,
    /// IP address of the server.
    pub address: &'a [u8],
    /// Capture date, 4 to 14 digits.
    pub date: &'a [u8],
    /// Media type that the server sent.
    pub media_type: &'a [u8],
    /// Size of the block in bytes.
    pub length: u64,
}

/// Number of bytes that suffice to detect the start of a record: the longest accepted URL scheme and its
/// colon.
pub(crate) const LOOK: usize = 33;

/// Returns true if these bytes can be the start of a record, which begins with the scheme of a URL.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    let scheme = bytes
        .iter()
        .take(32)
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    let end = scheme.count();
    end > 0 && bytes.get(end).is_none_or(|&byte| byte == b':')
}

impl Line<'_> {
    /// Parses a header line, with or without its line end.
    ///
    /// # Errors
    /// Fails with a description of what is invalid in the line.
    pub fn parse(line: &[u8]) -> Result<Line<'_>, &'static str> {
        let line = line.trim_ascii_end();
        if line.iter().any(|&byte| byte < b' ' || byte == 0x7f) {
            return Err("it contains a control character");
        }
        let columns = columns(line, SECOND)
            .or_else(|| columns(line, FIRST))
            .or_else(|| spaced_columns(line))
            .ok_or("its columns are invalid: version 1 has 5, version 2 has 10")?;
        let [uri, address, date, media_type, .., length] = columns.as_slice() else {
            return Err("its columns are invalid: version 1 has 5, version 2 has 10");
        };
        let length = decimal(length).ok_or("its length is not a number")?;
        if uri.is_empty() || !may_begin(uri) {
            return Err("it has no URL");
        }
        let uri = if uri.contains(&b' ') {
            Cow::Owned(
                uri.split(|&byte| byte == b' ')
                    .collect::<Vec<_>>()
                    .join(&b"%20"[..]),
            )
        } else {
            Cow::Borrowed(*uri)
        };
        Ok(Line {
            uri,
            address,
            date,
            media_type,
            length,
        })
    }

    /// Returns the header of the equivalent WARC record of this type. An invalid media type becomes
    /// `application/octet-stream`.
    pub(super) fn header(&self, record_type: &str, media_type: &[u8]) -> Header {
        let mut header = Header::new("WARC/1.0");
        header.set("WARC-Type", record_type.as_bytes());
        header.set("WARC-Target-URI", &self.uri);
        header.set("WARC-Date", &iso(self.date));
        let address = std::str::from_utf8(self.address).ok();
        let address = address.and_then(|text| text.parse::<IpAddr>().ok());
        if let Some(address) = address.filter(|address| !address.is_unspecified()) {
            header.set("WARC-IP-Address", address.to_string().as_bytes());
        }
        let is_type = media_type.contains(&b'/') && !media_type.contains(&b':');
        let media_type = if is_type {
            media_type
        } else {
            b"application/octet-stream"
        };
        header.set("Content-Type", media_type);
        header.set_content_length(self.length);
        header
    }

    /// Returns the most likely WARC header, judging by the header line only. HTTP captures become `response`
    /// records, because crawlers include the HTTP header in the block; the record that describes the file
    /// becomes `warcinfo`; all others become `resource`.
    pub(super) fn likely_header(&self) -> Header {
        if http::is_web(&self.uri) {
            self.header("response", b"application/http; msgtype=response")
        } else if self.uri.starts_with(BEGIN) {
            self.header("warcinfo", self.media_type)
        } else {
            self.header("resource", self.media_type)
        }
    }
}

/// Splits a line into columns. A URL may contain spaces. In version 1, the media type may contain
/// spaces, too.
fn columns(line: &[u8], number: usize) -> Option<Vec<&[u8]>> {
    let mut columns: Vec<&[u8]> = line.rsplitn(number, |&byte| byte == b' ').collect();
    columns.reverse();
    let is_date =
        |text: &&[u8]| (4..=14).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    (columns.len() == number && columns.get(2).is_some_and(is_date)).then_some(columns)
}

/// Splits a line of version 1 whose media type contains spaces, as some servers send it. The position of
/// the IP address determines the columns.
fn spaced_columns(line: &[u8]) -> Option<Vec<&[u8]>> {
    let (rest, length) = line.split_at(memchr::memrchr(b' ', line)?);
    let mut ends = memchr::memrchr_iter(b' ', rest);
    ends.find_map(|end| {
        let media_type = rest.get(end + 1..)?;
        let mut columns = columns(rest.get(..end)?, 3)?;
        let is_address = |text: &[u8]| {
            std::str::from_utf8(text).is_ok_and(|text| text.parse::<IpAddr>().is_ok())
        };
        is_address(columns.get(1)?).then(|| {
            columns.extend([media_type, &length[1..]]);
            columns
        })
    })
}

/// Converts `20130522091849` to `2013-05-22T09:18:49Z`; a date with fewer digits becomes the earliest time that it can
/// denote.
fn iso(date: &[u8]) -> Vec<u8> {
    let mut digits = *b"00000101000000";
    for (digit, given) in digits.iter_mut().zip(date) {
        *digit = *given;
    }
    let mut iso = Vec::with_capacity(20);
    for (at, digit) in digits.into_iter().enumerate() {
        match at {
            4 | 6 => iso.push(b'-'),
            8 => iso.push(b'T'),
            10 | 12 => iso.push(b':'),
            _ => {}
        }
        iso.push(digit);
    }
    iso.push(b'Z');
    iso
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_versions_have_the_same_content() {
        let first = b"metadata://a.example/crawl/logs/crawl.log?jobid=4 172.16.13.127 20130522091850 text/plain 1157\n";
        let second = b"metadata://a.example/crawl/logs/crawl.log?jobid=4 172.16.13.127 20130522091850 text/plain 200 - - 77 4-metadata-1.arc 1157";
        let line = Line::parse(first).unwrap();
        assert_eq!(line, Line::parse(second).unwrap());
        let header = line.likely_header();
        assert_eq!(header.content_length(), 1157);
        assert_eq!(header.get("content-type"), Some(&b"text/plain"[..]));
        assert_eq!(header.timestamp().as_deref(), Some(&b"20130522091850"[..]));
    }

    #[test]
    fn schemes_are_case_insensitive() {
        let line = Line::parse(b"HTTP://a.example/ 1.2.3.4 199701 text/html 3").unwrap();
        let kind = line.likely_header().record_type();
        assert_eq!(kind, crate::RecordType::Response);
    }

    #[test]
    fn spaces_in_a_url_are_escaped() {
        let line = Line::parse(b"http://a.example/b c 1.2.3.4 199701 text/html 3").unwrap();
        assert_eq!(line.uri, &b"http://a.example/b%20c"[..]);
        assert_eq!(
            line.likely_header().date(),
            Some(&b"1997-01-01T00:00:00Z"[..])
        );
    }

    #[test]
    fn spaces_in_a_media_type_are_part_of_it() {
        for (media_type, uri) in [
            ("text/html, application/x-javascript", "http://a.example/"),
            ("text/html; charset=UTF-8", "http://a.example/b c"),
        ] {
            let line = format!("{uri} 2001:db8::1 20120516020333 {media_type} 721\n");
            let line = Line::parse(line.as_bytes()).unwrap();
            assert_eq!(line.media_type, media_type.as_bytes());
            assert_eq!(line.uri, uri.replace(' ', "%20").as_bytes());
            assert_eq!((line.date, line.length), (&b"20120516020333"[..], 721));
        }
    }

    #[test]
    fn invalid_line_is_refused() {
        for wrong in [
            &b""[..],
            b"http://a.example/",
            b"http://a.example/ 1.2.3.4 20130522091850 text/html",
            b"http://a.example/ 1.2.3.4 2013-05-22 text/html 3",
            b"http://a.example/ 1.2.3.4 20130522091850 text/html -3",
            b"/a 1.2.3.4 20130522091850 text/html 3",
            b"http://a.example/\t 1.2.3.4 20130522091850 text/html 3",
            b" 1.2.3.4 20130522091850 text/html 3",
            b"http://a.example/ 1.2.3.4 20130522091850 text/html 99999999999999999999",
        ] {
            assert!(Line::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
