//! Records of upstream servers (Crawlspace or pywb's warcserver), validated and passed on.

use bytes::Bytes;
use crawlspace_cdx::surt::urlkey;
use futures_util::stream::{self, StreamExt};
use http::Method;
use url::Url;

use crate::resource::capture::Capture;
use crate::resource::client_request::ClientRequest;
use crate::resource::input::Input;
use crate::resource::record::{LoadError, Record};
use crate::resource::spool::{Spool, Spooled};
use crate::resource::stored::Stored;
use crate::resource::stored::header::{self, Fields};
use crawlspace_fetch::exchange::{Body, Exchange, Incoming, Outgoing, Version};
use crawlspace_fetch::{Net, via};
use crawlspace_index::source::{Limits, SourceError};
use crawlspace_warc::http::{Head, Status};
use crawlspace_warc::{END, Header, MAX_HEADER, end_of_header};

/// Requests the record of a row from a collection of an upstream server. `collection` is its URL, without
/// `/resource`.
///
/// # Errors
/// [`LoadError::Missing`] if the server has no record; [`LoadError::Record`] if its response is not a single complete
/// valid record, or a record of another URL; other errors if there is no response within the limits.
pub(super) async fn load(
    net: &Net,
    limits: &Limits,
    collection: &Url,
    capture: &Capture,
    request: &ClientRequest,
) -> Result<Record, LoadError> {
    let url = &capture.url;
    if url.is_empty() {
        return Err(LoadError::Unfit("the row has no url".to_owned()));
    }
    let mut outgoing = outgoing(collection, url, &capture.timestamp, request)?;
    let fields = &mut outgoing.fields;
    fields.retain(|(name, _)| !name.eq_ignore_ascii_case(b"Via"));
    via::mark(fields);
    let exchange = net.exchange(outgoing, limits).await?;
    let Exchange { head, body, .. } = exchange;
    match head.first.code {
        200 => {}
        404 => {
            return Err(LoadError::Missing(
                "the upstream has no record of it".to_owned(),
            ));
        }
        code => return Err(LoadError::Net(SourceError::Status(code))),
    }
    received(&head, body, limits, url).await
}

/// Returns whether a response is a WARC record rather than the recorded content.
pub(super) fn is_record(head: &Head<Status>) -> bool {
    let media = head.text("Content-Type").unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim_ascii();
    let is_ours = head.text("Warcserver-Type").as_deref() == Some("warc");
    // A captured response comes with its captured headers, which may look like headers of the upstream
    // server.
    let is_capture = head.values("X-Archive-Src").next().is_some();
    (is_ours || media.eq_ignore_ascii_case("application/warc-record")) && !is_capture
}

/// Reads the record in a response, which must be a record of that URL.
pub(super) async fn received(
    head: &Head<Status>,
    mut body: Incoming,
    limits: &Limits,
    url: &str,
) -> Result<Record, LoadError> {
    let mut spool = Spool::new(limits.bytes);
    while let Some(bytes) = body.next().await? {
        spool.push(&bytes).await?;
    }
    drop(body);
    let spooled = spool.finish().await?;
    let (header, at) = header(&spooled).await?;
    let settled = stored(&spooled, &header, at).await?.check().await?;
    let stored = stored(&spooled, &header, at).await?.checked(settled);
    let target = must_be_of(stored.header(), url)?;
    Ok(Record {
        target_uri: target,
        source: source(head),
        ..stored.into_record()?
    })
}

/// Returns the request for a record: a plain GET, unless that would lose parts of the client's request.
fn outgoing(
    collection: &Url,
    url: &str,
    moment: &str,
    request: &ClientRequest,
) -> Result<Outgoing, LoadError> {
    let is_plain = request.method == Method::GET && request.body.is_none() && !request.as_given;
    let mut api = collection.clone();
    // pywb has no other path for messages.
    let resource: &[&str] = if is_plain {
        &["resource"]
    } else {
        &["resource", "postreq"]
    };
    api.path_segments_mut()
        .map_err(|()| LoadError::Request(format!("{collection} has no host")))?
        .pop_if_empty()
        .extend(resource);
    api.query_pairs_mut()
        .append_pair("url", url)
        .append_pair("closest", moment);
    if is_plain {
        return Ok(request.live(api));
    }
    let target = Url::parse(url)
        .map_err(|_| LoadError::Unfit("invalid url: it must be an http or https URL".to_owned()))?;
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

/// Returns the name of the source in a response.
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

/// Returns `WARC-Target-URI`, which must be that URL or an equivalent form of it.
fn must_be_of(header: &Header, url: &str) -> Result<String, LoadError> {
    let wrong = |what: String| LoadError::Record(what);
    let target = header
        .uri()
        .ok_or_else(|| wrong("it has no WARC-Target-URI".to_owned()))?;
    if target
        .chars()
        .any(|char| char.is_whitespace() || char.is_control())
    {
        return Err(wrong(
            "invalid WARC-Target-URI: a URL is expected".to_owned(),
        ));
    }
    match (urlkey(&target), urlkey(url)) {
        (Ok(theirs), Ok(ours)) if theirs == ours => Ok(target),
        _ => Err(wrong(format!("it is the record of {target}"))),
    }
}

/// Parses the header of a single complete uncompressed record. Returns it with its size as received, in bytes.
async fn header(spooled: &Spooled) -> Result<(Header, u64), LoadError> {
    let wrong = |what: &str| LoadError::Record(what.to_owned());
    let mut begin = Vec::new();
    let mut bytes = spooled.stream(0);
    let end = loop {
        if let Some(end) = end_of_header(&begin) {
            break end;
        }
        match bytes.next().await.transpose()? {
            Some(piece) if begin.len() <= MAX_HEADER => begin.extend_from_slice(&piece),
            _ => return Err(wrong("the answer is not a valid WARC record")),
        }
    };
    let header = header::parse(&begin[..end])?;
    let at = end as u64;
    let whole = at.saturating_add(header.content_length());
    // pywb omits the line breaks that end a record.
    let left = spooled.length().checked_sub(whole);
    if !matches!(left, Some(0 | CLOSING)) {
        return Err(wrong("the answer is not one whole record"));
    }
    Ok((header, at))
}

/// Size of the line breaks that end a record, in bytes.
const CLOSING: u64 = END.len() as u64;

/// Returns the record with `header` instead of its own, which is `at` bytes long, and adds missing line breaks at its
/// end.
async fn stored(spooled: &Spooled, header: &Header, at: u64) -> Result<Stored, LoadError> {
    let head = Bytes::copy_from_slice(header.raw());
    let is_closed = spooled.length() > at + header.content_length();
    let end = stream::iter((!is_closed).then_some(Ok(Bytes::from_static(END))));
    let all = stream::iter([Ok(head)])
        .chain(spooled.stream(at))
        .chain(end);
    Stored::read(Input::Record(all.boxed()), b"").await
}
