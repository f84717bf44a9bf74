//! Records of another server of this kind, checked and passed on.

use std::io::{self, Read};

use bytes::Bytes;
use crawlspace_cdx::surt::urlkey;
use crawlspace_cdx::Field;
use futures_util::stream::{self, StreamExt};
use http::Method;
use url::Url;

use super::unsent;
use crate::federation::net::exchange::{Body, Exchange, Head, Outgoing, Status, Version};
use crate::federation::net::{circle, Net};
use crate::federation::resource::client_request::ClientRequest;
use crate::federation::resource::digest::{Digest, Digester};
use crate::federation::resource::http_head;
use crate::federation::resource::record::{LoadError, Record};
use crate::federation::resource::spool::{blocking, Spool, Spooled};
use crate::federation::row::Row;
use crate::federation::source::{Limits, SourceError};
use crate::federation::timestamp::Timestamp;
use crate::warc::{Header, RecordType};

/// Asks a collection of another server of this kind for the record that a row is about. `collection` is its URL,
/// without `/resource`.
///
/// # Errors
/// [`LoadError::Missing`] when it has none; [`LoadError::Record`] when its answer is not one whole valid record, or
/// one of another URL; else when there is no answer within the limits.
pub async fn load(
    net: &Net,
    limits: &Limits,
    collection: &Url,
    row: &Row,
    request: &ClientRequest,
) -> Result<Record, LoadError> {
    let url = row.capture().and_then(|capture| {
        let url = capture.field(&Field::Url)?;
        Some(String::from_utf8_lossy(&url).into_owned())
    });
    let url = url.filter(|url| !url.is_empty());
    let url = url.ok_or_else(|| LoadError::Unfit("the row has no url".to_owned()))?;
    let mut outgoing = outgoing(
        collection,
        &url,
        &String::from_utf8_lossy(row.timestamp()),
        request,
    )?;
    if let Some(via) = circle::via() {
        let name = Bytes::from_static(b"Via");
        outgoing
            .fields
            .retain(|(one, _)| !one.eq_ignore_ascii_case(&name));
        outgoing
            .fields
            .push((name, Bytes::copy_from_slice(via.as_bytes())));
    }
    let exchange = net.exchange(outgoing, limits).await.map_err(unsent)?;
    let Exchange { head, mut body, .. } = exchange;
    match head.first.code {
        200 => {}
        404 => {
            return Err(LoadError::Missing(
                "the upstream has no record of it".to_owned(),
            ))
        }
        code => return Err(LoadError::Net(SourceError::Status(code))),
    }
    let mut spool = Spool::new(limits.bytes);
    while let Some(bytes) = body.next().await? {
        spool.push(&bytes).await?;
    }
    drop(body);
    let spooled = spool.finish().await?;
    let copy = spooled.clone();
    // A record may be large, and all of it is read.
    let checked = blocking(move || Ok(checked(&copy))).await??;
    record(spooled, checked, &url, source(&head))
}

/// What a request for a record looks like: plain where nothing of it would get lost that way.
fn outgoing(
    collection: &Url,
    url: &str,
    moment: &str,
    request: &ClientRequest,
) -> Result<Outgoing, LoadError> {
    let is_plain = request.method == Method::GET && request.body.is_none() && !request.as_given;
    let mut api = collection.clone();
    let resource = if is_plain {
        "resource"
    } else {
        "resource-post"
    };
    api.path_segments_mut()
        .map_err(|()| LoadError::Request(format!("{collection} names no host")))?
        .pop_if_empty()
        .push(resource);
    api.query_pairs_mut()
        .append_pair("url", url)
        .append_pair("closest", moment);
    if is_plain {
        return Ok(request.live(api));
    }
    let target =
        Url::parse(url).map_err(|_| LoadError::Unfit("its url is no URL of the web".to_owned()))?;
    let head = Bytes::from(request.message_head(&target));
    let body = match &request.body {
        None => Body::Bytes(head),
        Some(body) => {
            let length = head.len() as u64 + body.length();
            let rest = body
                .stream(0)
                .map(|bytes| bytes.map_err(|error| error.to_string()));
            Body::Stream(length, stream::iter([Ok(head)]).chain(rest).boxed())
        }
    };
    let field = |name: &'static str, value: &'static str| {
        (
            Bytes::from_static(name.as_bytes()),
            Bytes::from_static(value.as_bytes()),
        )
    };
    Ok(Outgoing {
        method: Method::POST,
        url: api,
        version: Version::Http11,
        fields: vec![
            field("Content-Type", "application/http; msgtype=request"),
            field("Accept-Encoding", "identity"),
        ],
        body,
    })
}

/// The source that it names.
fn source(head: &Head<Status>) -> Option<String> {
    ["Archive-Source-Coll", "Warcserver-Source-Coll"]
        .into_iter()
        .find_map(|name| head.text(name))
        .filter(|source| {
            !source.is_empty()
                && source.len() <= 200
                && source.bytes().all(|byte| byte.is_ascii_graphic())
        })
}

fn record(
    spooled: Spooled,
    (header, head): (Header, Vec<u8>),
    url: &str,
    source: Option<String>,
) -> Result<Record, LoadError> {
    let wrong = |what: &str| LoadError::Record(what.to_owned());
    let target = header
        .target_uri()
        .ok_or_else(|| wrong("it has no WARC-Target-URI"))?;
    let target = std::str::from_utf8(target)
        .ok()
        .filter(|target| {
            !target
                .chars()
                .any(|char| char.is_whitespace() || char.is_control())
        })
        .ok_or_else(|| wrong("its WARC-Target-URI is no URL"))?;
    match (urlkey(target), urlkey(url)) {
        (Ok(theirs), Ok(ours)) if theirs == ours => {}
        _ => return Err(LoadError::Record(format!("it is about {target}"))),
    }
    let date = header
        .timestamp()
        .and_then(|digits| Timestamp::earliest(&digits));
    Ok(Record {
        length: spooled.length(),
        body: spooled.stream(head.len() as u64),
        head: Bytes::from(head),
        target_uri: target.to_owned(),
        date: date.ok_or_else(|| wrong("its WARC-Date is none"))?,
        source,
    })
}

/// Reads all of what must be one record, as it stands in a file without compression. Returns its header, also as
/// it is written.
fn checked(spooled: &Spooled) -> Result<(Header, Vec<u8>), LoadError> {
    let wrong = |what: String| LoadError::Record(what);
    let bad = |error: crate::warc::Error| LoadError::Record(error.problem.to_string());
    let mut first = [0];
    let begin = spooled.reader().read(&mut first);
    if begin.map_err(|error| LoadError::Io(error.to_string()))? == 0 {
        return Err(wrong("the answer is empty".to_owned()));
    }
    if first != *b"W" {
        return Err(wrong("the answer is no WARC record".to_owned()));
    }
    let mut warc = crate::warc::Reader::new("the answer", spooled.reader());
    let mut record = warc
        .next()
        .map_err(bad)?
        .ok_or_else(|| wrong("the answer is empty".to_owned()))?;
    let header = record.header().clone();
    verify(&header, &mut record).map_err(|error| wrong(error.to_string()))?;
    let extent = record.finish().map_err(bad)?;
    if extent.size != spooled.length() {
        return Err(wrong("there is more than one record".to_owned()));
    }
    let head = extent
        .size
        .saturating_sub(header.content_length())
        .saturating_sub(4);
    let mut text = Vec::new();
    spooled
        .reader()
        .take(head)
        .read_to_end(&mut text)
        .map_err(|error| LoadError::Io(error.to_string()))?;
    Ok((header, text))
}

/// Reads a block, and holds it against the digests that the header has. Those of a `revisit` are about another
/// record.
fn verify(header: &Header, block: &mut impl Read) -> io::Result<()> {
    let digest = |name: &str| -> Option<(Digest, Digester)> {
        let digest = Digest::parse(header.get(name)?)
            .filter(|_| header.record_type() != RecordType::Revisit)?;
        let digester = Digester::new(digest.algorithm);
        Some((digest, digester))
    };
    let mut of_block = digest("WARC-Block-Digest");
    let mut of_payload = digest("WARC-Payload-Digest");
    let is_http = matches!(
        header.record_type(),
        RecordType::Response | RecordType::Request
    ) && header
        .target_uri()
        .is_some_and(|uri| uri.starts_with(b"http:") || uri.starts_with(b"https:"));
    // What was read of the HTTP header, until its end is found.
    let mut head = is_http.then(Vec::new);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = block.read(&mut buffer)?;
        let Some(bytes) = buffer.get(..n).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        if let Some((_, digester)) = &mut of_block {
            digester.update(bytes);
        }
        let Some((_, digester)) = &mut of_payload else {
            continue;
        };
        match &mut head {
            None => digester.update(bytes),
            Some(begin) => {
                begin.extend_from_slice(bytes);
                if let Some(end) = http_head::end_of(begin) {
                    digester.update(begin.get(end..).unwrap_or_default());
                    head = None;
                } else if begin.len() > http_head::MAX_HEAD {
                    return Err(io::Error::other("its HTTP header has no end"));
                }
            }
        }
    }
    for (what, digest) in [
        ("WARC-Block-Digest", of_block),
        ("WARC-Payload-Digest", of_payload),
    ] {
        if digest.is_some_and(|(digest, digester)| digester.finish() != digest) {
            return Err(io::Error::other(format!(
                "its {what} is not that of what came"
            )));
        }
    }
    Ok(())
}
