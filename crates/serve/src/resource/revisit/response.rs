//! Responses for revisits: records that have the original's payload.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};

use super::Original;
use crate::resource::captured::Captured;
use crate::resource::digest::{self, Algorithm, Digest};
use crate::resource::record::{LoadError, Record};
use crate::resource::stored::header::{self, Fields};
use crate::resource::stored::{Payload, Stored, compose, made_id};
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::http::Head;
use crawlspace_warc::{END, Header, end_of_header};

/// Header fields that describe the encoding of a payload, and must match it.
const FRAMING: [&str; 3] = ["Content-Length", "Transfer-Encoding", "Content-Encoding"];

/// Record header fields that identify the original.
const REFERENCES: [&str; 3] = [
    "WARC-Refers-To",
    "WARC-Refers-To-Target-URI",
    "WARC-Refers-To-Date",
];
/// HTTP header fields that are needed to show a payload and reveal neither its URL nor its date.
/// This is an allowlist, because servers send many custom fields that may reveal them.
const PLAIN: [&str; 7] = [
    "Content-Type",
    "Content-Language",
    "Content-Range",
    "Content-Length",
    "Transfer-Encoding",
    "Content-Encoding",
    "X-Content-Type-Options",
];
/// Record header fields that are about the record and its payload only.
const OWN: [&str; 8] = [
    "WARC-Type",
    "WARC-Record-ID",
    "WARC-Target-URI",
    "WARC-Date",
    "WARC-IP-Address",
    "WARC-Payload-Digest",
    "WARC-Truncated",
    "Content-Type",
];

/// Removes from a record of another server all fields that may identify the original of the payload. The HTTP header
/// may belong to the original, too; only the header of a redirect certainly belongs to the revisit.
///
/// # Errors
/// Fails if the record is invalid in a part that has to be read.
pub(crate) async fn unnamed(record: Record) -> Result<Record, LoadError> {
    let end = end_of_header(&record.head).unwrap_or_default();
    let theirs = header::parse(record.head.get(..end).unwrap_or_default())?;
    let (target_uri, date, source) = (
        record.target_uri.clone(),
        record.date,
        record.source.clone(),
    );
    let captured = Captured::of(record).await?;
    let mut own = Header::new(version(&theirs));
    for name in OWN {
        if let Some(value) = theirs.get(name) {
            own.set(name, value);
        }
    }
    let http_head = captured.head.as_deref().map(|head| {
        let parsed = Head::of(head);
        match parsed.status() {
            Some(300..=303 | 305..=399) => head.to_vec(),
            _ => plain(&parsed),
        }
    });
    let http_head = http_head.unwrap_or_default();
    own.set_content_length(http_head.len() as u64 + captured.length);
    let head = [own.raw(), &http_head[..]].concat();
    let closing = stream::iter([Ok(Bytes::from_static(END))]);
    Ok(Record {
        length: (head.len() + END.len()) as u64 + captured.length,
        head: head.into(),
        body: captured.payload.chain(closing).boxed(),
        target_uri,
        date,
        source,
    })
}

/// Copies an HTTP header with only the fields that are needed to show the payload.
fn plain(head: &Head<(), &[u8]>) -> Vec<u8> {
    let first = [head.first_line(), b"\r\n"].concat();
    Head::of(&first).with_fields_of(head, &PLAIN)
}

/// Returns the WARC version for a record derived from another one.
fn version(header: &Header) -> &'static str {
    match header.version() {
        b"WARC/1.1" => "WARC/1.1",
        _ => "WARC/1.0",
    }
}

/// Returns the response without a payload, and with a reference to the original if `may_name` is set.
pub(super) fn of_nothing(revisit: &Stored, may_name: bool) -> Result<Record, LoadError> {
    let head = Head::of(revisit.http_head());
    if head.status().is_none() {
        let what = "the revisit has neither an HTTP header nor a payload".to_owned();
        return Err(LoadError::Record(what));
    }
    let none = Head::of(b"-\r\nContent-Length: 0\r\n\r\n");
    let has_none =
        head.get("Content-Length") == Some(b"0") && head.get("Transfer-Encoding").is_none();
    let http_head = if has_none {
        revisit.http_head().to_vec()
    } else {
        head.with_fields_of(&none, &FRAMING)
    };
    let payload = Payload {
        length: 0,
        first: Bytes::new(),
        rest: None,
    };
    let mut header = response(revisit)?;
    if !may_name {
        REFERENCES.iter().for_each(|name| header.remove(name));
    }
    finish(&mut header, revisit, &http_head, payload, &None)
}

/// Returns the response with the payload of the original.
pub(super) fn with_payload(
    revisit: &Stored,
    original: Original,
    digest: &Option<Digest>,
) -> Result<Record, LoadError> {
    let Original {
        stored: original,
        may_be_named,
    } = original;
    let mut header = response(revisit)?;
    let theirs = original.header();
    let values = [
        theirs.get("WARC-Record-ID"),
        theirs.target_uri(),
        theirs.get("WARC-Date"),
    ];
    for (name, value) in REFERENCES.iter().zip(values) {
        match value {
            Some(value) if may_be_named => header.set(name, value),
            None if may_be_named => header.set(name, b""),
            _ => header.remove(name),
        }
    }
    let http_head = {
        let (own, other) = (
            Head::of(revisit.http_head()),
            Head::of(original.http_head()),
        );
        let is_same = FRAMING.iter().all(|name| own.get(name) == other.get(name));
        match own.status() {
            // The header of a 304 response does not describe the payload.
            None | Some(304) if may_be_named => original.http_head().to_vec(),
            None | Some(304) if original.http_head().is_empty() => Vec::new(),
            None | Some(304) => plain(&other),
            Some(_) if original.http_head().is_empty() => {
                let length = format!("-\r\nContent-Length: {}\r\n\r\n", original.content_length());
                own.with_fields_of(&Head::of(length.as_bytes()), &FRAMING)
            }
            Some(_) if is_same => revisit.http_head().to_vec(),
            Some(_) => own.with_fields_of(&other, &FRAMING),
        }
    };
    if http_head.is_empty() {
        header.set("WARC-Type", b"resource");
        header.set(
            "Content-Type",
            theirs
                .get("Content-Type")
                .unwrap_or(b"application/octet-stream"),
        );
    }
    let known = if original.is_checked() {
        None
    } else {
        // The digest is verified while the payload is sent.
        theirs.get("WARC-Payload-Digest").and_then(Digest::parse)
    };
    let algorithm = digest
        .as_ref()
        .map_or(Algorithm::Sha1, |digest| digest.algorithm);
    let known = original.payload_digest(algorithm).or(known);
    let (_, payload) = original.into_parts();
    finish(&mut header, revisit, &http_head, payload, &known)
}

/// Creates the record header of the response from the revisit's metadata.
fn response(revisit: &Stored) -> Result<Header, LoadError> {
    let theirs = revisit.header();
    let missing = |what: &str| LoadError::Record(format!("the revisit has no valid {what}"));
    let date = theirs.moment().ok_or_else(|| missing("WARC-Date"))?;
    let uri = theirs.uri().ok_or_else(|| missing("WARC-Target-URI"))?;
    let version = version(theirs);
    let mut header = Header::new(version);
    header.set("WARC-Type", b"response");
    // The new record is neither the revisit nor the original, so it gets its own id.
    let id = theirs.get("WARC-Record-ID").unwrap_or_default();
    header.set("WARC-Record-ID", made_id(&[b"resolved", id]).as_bytes());
    header.set("WARC-Target-URI", uri.as_bytes());
    let stated = theirs.get("WARC-Date").filter(|_| version == "WARC/1.1");
    header.set("WARC-Date", stated.unwrap_or(date.iso().as_bytes()));
    for name in [
        "WARC-IP-Address",
        "WARC-Refers-To-Target-URI",
        "WARC-Refers-To-Date",
    ] {
        if let Some(value) = theirs.get(name) {
            header.set(name, value);
        }
    }
    header.set("Content-Type", b"application/http; msgtype=response");
    Ok(header)
}

fn finish(
    header: &mut Header,
    revisit: &Stored,
    http_head: &[u8],
    payload: Payload,
    payload_digest: &Option<Digest>,
) -> Result<Record, LoadError> {
    if payload.rest.is_none() {
        let mut digester = digest::Digester::new(Algorithm::Sha1);
        digester.update(http_head);
        digester.update(&payload.first);
        header.set("WARC-Block-Digest", digester.finish().text().as_bytes());
    }
    let of_payload = || digest::of(Algorithm::Sha1, &payload.first);
    let known = payload_digest
        .clone()
        .or_else(|| payload.rest.is_none().then(of_payload));
    if let Some(digest) = known {
        header.set("WARC-Payload-Digest", digest.text().as_bytes());
    }
    let uri = revisit.header().uri().unwrap_or_default();
    let date = revisit.header().moment().unwrap_or_else(Timestamp::now);
    Ok(compose(header, http_head, payload, uri, date))
}
