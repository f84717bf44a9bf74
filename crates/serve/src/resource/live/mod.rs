//! `$live`: records of what other servers answer: the live web, archives, and servers of this kind.

mod capture_head;
mod header;
mod replay;
mod response;
mod upstream;

use futures_util::future::BoxFuture;
use url::Url;

use super::capture::Capture;
use super::client_request::ClientRequest;
use super::digest::Digest;
use super::record::{LoadError, Record};
use crawlspace_fetch::{Net, via};
use crawlspace_index::source::Limits;
use crawlspace_index::spelling::as_requested;
use crawlspace_index::timestamp::Timestamp;

use self::response::Origin;

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
    fn of(capture: &Capture) -> Result<Whereabouts, LoadError> {
        let unfit = |what: &str| LoadError::Unfit(what.to_owned());
        let given = |text: &str, otherwise: &str| {
            let text = Some(text).filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or_else(|| unfit(otherwise))
        };
        let load_url = given(&capture.load_url, "the row has no live_url")?;
        // Credentials are neither sent nor shown to those who read the record.
        let load_url = as_requested(&load_url)
            .ok_or_else(|| unfit("invalid live_url: an http or https URL is expected"))?;
        Ok(Whereabouts {
            url: given(&capture.url, "the row has no url")?,
            load_url,
            date: Timestamp::earliest(capture.timestamp.as_bytes())
                .ok_or_else(|| unfit("invalid timestamp"))?,
            status: capture.status.clone(),
            digest: Digest::parse(capture.digest.as_bytes()),
            source_type: capture.source_type.clone(),
        })
    }
}

/// Fetches what a row with `live_url` is about, and makes a record of it. For a row of another server of this kind, that
/// server is asked for its record.
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
    capture: &Capture,
    request: &ClientRequest,
) -> Result<Record, LoadError> {
    if let Some(collection) = &capture.upstream {
        let load: BoxFuture<'_, _> =
            Box::pin(upstream::load(net, limits, collection, capture, request));
        return load.await;
    }
    let row = Whereabouts::of(capture)?;
    let load: BoxFuture<'_, _> = match row.source_type.as_str() {
        "live" => Box::pin(live(net, limits, row.load_url, request)),
        _ => Box::pin(replay::load(net, limits, row, request)),
    };
    load.await
}

async fn live(
    net: &Net,
    limits: &Limits,
    url: Url,
    request: &ClientRequest,
) -> Result<Record, LoadError> {
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
