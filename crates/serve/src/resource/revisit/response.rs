//! The answer for a revisit: a record that has its original's payload.

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

/// What says how a payload is written, and comes with it.
const FRAMING: [&str; 3] = ["Content-Length", "Transfer-Encoding", "Content-Encoding"];

/// Names the fields of a record that lead to its original.
const REFERENCES: [&str; 3] = [
    "WARC-Refers-To",
    "WARC-Refers-To-Target-URI",
    "WARC-Refers-To-Date",
];
/// Names the fields of an answer that show its payload, and tell neither its URL nor its date. Servers have names of their
/// own for fields that do, so that no list of those would be complete.
const PLAIN: [&str; 7] = [
    "Content-Type",
    "Content-Language",
    "Content-Range",
    "Content-Length",
    "Transfer-Encoding",
    "Content-Encoding",
    "X-Content-Type-Options",
];
/// Names the fields of a record that are about itself and its payload alone.
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

/// Removes from a record of another server, which has the payload of an original, all that may lead to that. The HTTP
/// header may be that of the original, too; only that of a redirect is surely its own.
///
/// # Errors
/// When it is not a valid record as far as it has to be read for that.
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

/// Copies an HTTP header with nothing but what shows the payload.
fn plain(head: &Head<(), &[u8]>) -> Vec<u8> {
    let first = [head.first_line(), b"\r\n"].concat();
    Head::of(&first).with_fields_of(head, &PLAIN)
}

/// Returns the version that a record made of another one has.
fn version(header: &Header) -> &'static str {
    match header.version() {
        b"WARC/1.1" => "WARC/1.1",
        _ => "WARC/1.0",
    }
}

/// The answer without a payload. The original is named if it may be.
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

/// The answer with the payload of the original.
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
            // That nothing has changed is not what the payload came with.
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
        // Its digest is checked while it is sent.
        theirs.get("WARC-Payload-Digest").and_then(Digest::parse)
    };
    let algorithm = digest
        .as_ref()
        .map_or(Algorithm::Sha1, |digest| digest.algorithm);
    let known = original.payload_digest(algorithm).or(known);
    let (_, payload) = original.into_parts();
    finish(&mut header, revisit, &http_head, payload, &known)
}

/// The header of the answer, as far as the revisit says what is in it.
fn response(revisit: &Stored) -> Result<Header, LoadError> {
    let theirs = revisit.header();
    let missing = |what: &str| LoadError::Record(format!("the revisit has no valid {what}"));
    let date = theirs.moment().ok_or_else(|| missing("WARC-Date"))?;
    let uri = theirs.uri().ok_or_else(|| missing("WARC-Target-URI"))?;
    let version = version(theirs);
    let mut header = Header::new(version);
    header.set("WARC-Type", b"response");
    // It is neither of the two records that it is made of.
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
