//! `$live`: records of what other servers answer: the live web, archives, and servers of this kind.

mod capture_head;
mod header;
mod replay;
mod response;
mod upstream;

use url::Url;

use super::client_request::ClientRequest;
use super::digest::Digest;
use super::record::{LoadError, Record};
use crawlspace_archive::net::{Net, via};
use crawlspace_archive::row::Row;
use crawlspace_archive::source::Limits;
use crawlspace_archive::timestamp::Timestamp;

pub use self::upstream::load as load_upstream;

use self::response::Origin;
use crawlspace_cdx::Field;

/// What a row says about where its resource is.
struct Whereabouts {
    /// The URL of the resource.
    url: String,
    /// Where to get it from: the same on the live web, or its replay in an archive.
    load_url: Url,
    date: Timestamp,
    status: String,
    /// The digest of the payload, if the row has it.
    digest: Option<Digest>,
    source_type: String,
}

impl Whereabouts {
    fn of(row: &Row) -> Result<Whereabouts, LoadError> {
        let unfit = |what: &str| LoadError::Unfit(what.to_owned());
        let capture = row
            .capture()
            .ok_or_else(|| unfit("the row is not a valid line of CDXJ"))?;
        let text = |name: &str| {
            let value = capture.field(&Field::named(name.as_bytes()));
            value
                .map(|value| String::from_utf8_lossy(&value).into_owned())
                .filter(|value| !value.is_empty())
        };
        let load_url = text("live_url").or_else(|| text("load_url"));
        let load_url = load_url.ok_or_else(|| unfit("the row has no live_url"))?;
        let load_url = Url::parse(&load_url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| unfit("invalid live_url: an http or https URL is expected"))?;
        Ok(Whereabouts {
            url: text("url").ok_or_else(|| unfit("the row has no url"))?,
            load_url,
            date: Timestamp::earliest(row.timestamp()).ok_or_else(|| unfit("invalid timestamp"))?,
            status: text("status").unwrap_or_default(),
            digest: text("digest").and_then(|digest| Digest::parse(digest.as_bytes())),
            source_type: text("source_type").unwrap_or_default(),
        })
    }
}

/// Fetches what a row with `live_url` is about, and makes a record of it.
///
/// On the live web the answer is the record, whatever its status; a redirect is one as well. An archive may send on to
/// another moment of the same resource.
///
/// # Errors
/// [`LoadError::Unfit`] when the row has no `live_url`; [`LoadError::Request`] when the request must not be sent
/// on; else when there is no whole answer within the limits, or an archive answers with something that is no capture.
pub async fn load(
    net: &Net,
    limits: &Limits,
    row: &Row,
    request: &ClientRequest,
) -> Result<Record, LoadError> {
    let row = Whereabouts::of(row)?;
    match row.source_type.as_str() {
        "live" => live(net, limits, row.load_url, request).await,
        _ => replay::load(net, limits, row, request).await,
    }
}

async fn live(
    net: &Net,
    limits: &Limits,
    mut url: Url,
    request: &ClientRequest,
) -> Result<Record, LoadError> {
    url.set_fragment(None);
    // They are for the server, and neither sent nor shown to those who read the record.
    if url
        .set_username("")
        .and_then(|()| url.set_password(None))
        .is_err()
    {
        return Err(LoadError::Request(format!("{url} names no host")));
    }
    let date = Timestamp::now();
    let mut outgoing = request.live(url.clone());
    via::mark(&mut outgoing.fields);
    let exchange = net.exchange(outgoing, limits).await?;
    let origin = Origin {
        target_uri: url.to_string(),
        date,
        address: Some(exchange.remote.ip().to_canonical()),
        source_uri: None,
    };
    let (head, body) = (exchange.head, exchange.body);
    let is_chunked = body.is_chunked();
    let head =
        move |length, trailer: &[u8]| header::live(&head, is_chunked.then_some(length), trailer);
    response::record(body, limits.bytes, origin, head).await
}
