//! Records of ARC files (versions 1 and 2), as headers of WARC records.

use std::net::IpAddr;

use super::header::{decimal, Header};
use crate::federation::resource::record::LoadError;
use crate::federation::timestamp::Timestamp;

/// How many columns the lines of the versions have.
const FIRST: usize = 5;
const SECOND: usize = 10;

/// Whether a record can begin like that: with a URL.
pub(super) fn may_begin(bytes: &[u8]) -> bool {
    let scheme = bytes
        .iter()
        .take(32)
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    let end = scheme.count();
    end > 0 && bytes.get(end).is_none_or(|&byte| byte == b':')
}

/// The header of a WARC record for that line, which is `URL IP-address date type length`, or in version 2
/// `URL IP-address date type status checksum location offset filename length`; and the length.
///
/// # Errors
/// When it is no such line, or that of the record that an ARC file begins with.
pub(super) fn header(line: &[u8]) -> Result<(Header, u64), LoadError> {
    let wrong =
        |what: &str| LoadError::Record(format!("the line of the ARC record is not valid: {what}"));
    let line = line.trim_ascii_end();
    if line.starts_with(b"filedesc:") {
        return Err(LoadError::Record(
            "this record describes the ARC file itself".to_owned(),
        ));
    }
    if line.iter().any(|&byte| byte < b' ' || byte == 0x7f) {
        return Err(wrong("it holds a control character"));
    }
    // A URL may hold spaces, which the others may not.
    let columns = |number: usize| -> Option<Vec<&[u8]>> {
        let mut columns: Vec<&[u8]> = line.rsplitn(number, |&byte| byte == b' ').collect();
        columns.reverse();
        let is_date =
            |text: &&[u8]| (4..=14).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
        (columns.len() == number && columns.get(2).is_some_and(is_date)).then_some(columns)
    };
    let columns = columns(SECOND)
        .or_else(|| columns(FIRST))
        .ok_or_else(|| wrong("it has not its columns"))?;
    let [uri, address, date, media_type, .., length] = columns.as_slice() else {
        return Err(wrong("it has not its columns"));
    };
    let length = decimal(length).ok_or_else(|| wrong("its length is no number"))?;
    let date = Timestamp::earliest(date).ok_or_else(|| wrong("its date is none"))?;
    if uri.is_empty() || !may_begin(uri) {
        return Err(wrong("it has no URL"));
    }
    let mut header = Header::new(b"WARC/1.0");
    header.set("WARC-Type", b"response");
    // What is allowed there alone.
    let uri = uri.split(|&byte| byte == b' ').collect::<Vec<_>>();
    header.set("WARC-Target-URI", &uri.join(&b"%20"[..]));
    header.set("WARC-Date", date.iso().as_bytes());
    let address = std::str::from_utf8(address)
        .ok()
        .and_then(|text| text.parse::<IpAddr>().ok());
    if let Some(address) = address.filter(|address| !address.is_unspecified()) {
        header.set("WARC-IP-Address", address.to_string().as_bytes());
    }
    let is_type = media_type.contains(&b'/') && !media_type.contains(&b':');
    let media_type: &[u8] = if is_type {
        media_type
    } else {
        b"application/octet-stream"
    };
    header.set("Content-Type", media_type);
    header.set("Content-Length", length.to_string().as_bytes());
    Ok((header, length))
}

/// Says in the header what the block turned out to be.
pub(super) fn settle(header: &mut Header, is_http_message: bool) {
    let uri = header.target_uri().unwrap_or_default();
    if is_http_message {
        header.set("Content-Type", b"application/http; msgtype=response");
    } else if uri.starts_with("http:") || uri.starts_with("https:") {
        // What came without the header of HTTP is a file (ISO 28500, chapter 6.4).
        header.set("WARC-Type", b"resource");
    }
}
