//! The line that a record of an ARC file begins with (versions 1 and 2 of the format).

use std::borrow::Cow;

use super::{Header, Problem};

/// Number of columns of a line in versions 1 and 2.
const FIRST: usize = 5;
const SECOND: usize = 10;
/// What the first record of a file begins with, which describes the file.
pub(super) const BEGIN: &[u8] = b"filedesc:";

/// `URL IP-address date type length`, or in version 2
/// `URL IP-address date type status checksum location offset filename length`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The URL, with `%20` in place of the spaces that are allowed there alone.
    pub uri: Cow<'a, [u8]>,
    /// The address of the server.
    pub address: &'a [u8],
    /// 4 to 14 digits.
    pub date: &'a [u8],
    /// What the server said that it was.
    pub media_type: &'a [u8],
    /// The size of the block in bytes.
    pub length: u64,
}

/// Whether a record can begin like that: with a URL.
pub fn may_begin(bytes: &[u8]) -> bool {
    let scheme = bytes
        .iter()
        .take(32)
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    let end = scheme.count();
    end > 0 && bytes.get(end).is_none_or(|&byte| byte == b':')
}

impl Line<'_> {
    /// Reads a line, with or without its end.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Line<'_>, &'static str> {
        let line = line.trim_ascii_end();
        if line.iter().any(|&byte| byte < b' ' || byte == 0x7f) {
            return Err("it holds a control character");
        }
        let columns = columns(line, SECOND)
            .or_else(|| columns(line, FIRST))
            .ok_or("its columns are invalid: version 1 has 5, version 2 has 10")?;
        let [uri, address, date, media_type, .., length] = columns.as_slice() else {
            return Err("its columns are invalid: version 1 has 5, version 2 has 10");
        };
        let length = super::record::decimal(length).ok_or("its length is not a number")?;
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

    /// What a WARC record of the same would say. What a web server sent is a `response`, which other programs write
    /// with the header of HTTP; the record that describes the file is a `warcinfo`; all else is a `resource`.
    pub(super) fn header(&self) -> Result<Header, Problem> {
        let is_web = [&b"http:"[..], b"https:"]
            .iter()
            .any(|scheme| self.uri.starts_with(scheme));
        let (kind, media_type) = if is_web {
            ("response", &b"application/http; msgtype=response"[..])
        } else if self.uri.starts_with(BEGIN) {
            ("warcinfo", self.media_type)
        } else {
            ("resource", self.media_type)
        };
        let date = iso(self.date);
        let length = self.length.to_string();
        let fields: [(&str, &[u8]); 6] = [
            ("WARC-Type", kind.as_bytes()),
            ("WARC-Target-URI", &self.uri),
            ("WARC-Date", &date),
            ("WARC-IP-Address", self.address),
            ("Content-Type", media_type),
            ("Content-Length", length.as_bytes()),
        ];
        let owned = fields.map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec()));
        Header::new(owned.to_vec())
    }
}

/// A URL may hold spaces, which the others may not.
fn columns(line: &[u8], number: usize) -> Option<Vec<&[u8]>> {
    let mut columns: Vec<&[u8]> = line.rsplitn(number, |&byte| byte == b' ').collect();
    columns.reverse();
    let is_date =
        |text: &&[u8]| (4..=14).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    (columns.len() == number && columns.get(2).is_some_and(is_date)).then_some(columns)
}

/// `20130522091849` as `2013-05-22T09:18:49Z`, and the earliest moment of a date with fewer digits.
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
