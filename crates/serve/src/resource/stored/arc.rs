//! Records of ARC files (versions 1 and 2), as headers of WARC records.

use std::net::IpAddr;

use super::header::Header;
use crate::resource::record::LoadError;
use crawlspace_archive::timestamp::Timestamp;
use crawlspace_warc::arc::Line;
pub(super) use crawlspace_warc::arc::may_begin;

/// The header of a WARC record for that line, and the length.
///
/// # Errors
/// When it is no such line, or that of the record that an ARC file begins with.
pub(super) fn header(line: &[u8]) -> Result<(Header, u64), LoadError> {
    let wrong =
        |what: &str| LoadError::Record(format!("the line of the ARC record is not valid: {what}"));
    if line.starts_with(b"filedesc:") {
        return Err(LoadError::Record(
            "this record describes the ARC file itself".to_owned(),
        ));
    }
    let line = Line::parse(line).map_err(wrong)?;
    let date = Timestamp::earliest(line.date).ok_or_else(|| wrong("invalid date"))?;
    let mut header = Header::new(b"WARC/1.0");
    header.set("WARC-Type", b"response");
    header.set("WARC-Target-URI", &line.uri);
    header.set("WARC-Date", date.iso().as_bytes());
    let address = std::str::from_utf8(line.address)
        .ok()
        .and_then(|text| text.parse::<IpAddr>().ok());
    if let Some(address) = address.filter(|address| !address.is_unspecified()) {
        header.set("WARC-IP-Address", address.to_string().as_bytes());
    }
    let media_type = line.media_type;
    let is_type = media_type.contains(&b'/') && !media_type.contains(&b':');
    let media_type: &[u8] = if is_type {
        media_type
    } else {
        b"application/octet-stream"
    };
    header.set("Content-Type", media_type);
    header.set("Content-Length", line.length.to_string().as_bytes());
    Ok((header, line.length))
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
