//! The original that a revisit names.

use crate::resource::capture::Extent;
use crate::resource::record::Record;
use crate::resource::stored::header::{self, Fields};
use crawlspace_cdx::surt;
use crawlspace_index::row::{self, Row};
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::{Header, end_of_header};

/// Returns the URL of the original that a revisit refers to, without angle brackets, and a row for the access decision
/// about it, if there is enough information. Returns `None` if the revisit refers to no URL.
pub(super) fn referred(header: &Header) -> Option<(String, Option<Row>)> {
    let uri = header.text("WARC-Refers-To-Target-URI")?;
    let uri = uri.trim_matches(['<', '>']).to_owned();
    let date = header
        .get("WARC-Refers-To-Date")
        .and_then(Timestamp::from_iso);
    let row = row_of(&uri, date.or(header.moment()), None);
    Some((uri, row))
}

/// Returns the original that a record of another server refers to, as [`referred`] does for a header.
pub(crate) fn referred_by(record: &Record) -> Option<(String, Option<Row>)> {
    let end = end_of_header(&record.head)?;
    referred(&header::parse(record.head.get(..end)?).ok()?)
}

/// Creates the row of a capture that was found without a row. Returns `None` if it lacks a valid URL or date.
pub(super) fn row_of(uri: &str, date: Option<Timestamp>, extent: Option<&Extent>) -> Option<Row> {
    let mut members = String::new();
    row::member("url", uri, &mut members);
    if let Some(extent) = extent {
        row::member("filename", &extent.filename, &mut members);
        row::member("offset", &extent.offset.to_string(), &mut members);
    }
    row::build(&surt::urlkey(uri).ok()?, &date?.to_string(), &members)
}
