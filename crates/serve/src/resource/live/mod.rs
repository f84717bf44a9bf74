//! `$live`: creates records from responses of other servers: the live web, archives, and upstream servers.

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

/// Location of a resource, from its row.
struct Whereabouts {
    /// The URL of the resource.
    url: String,
    /// URL to fetch: the same URL on the live web, or its replay URL in an archive.
    load_url: Url,
    date: Timestamp,
    status: String,
    /// Digest of the payload, if the row has it.
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
        // Credentials in the URL are neither sent nor shown in the record.
        let load_url = as_requested(&load_url)
            .ok_or_else(|| unfit("invalid live_url: it must be an http or https URL"))?;
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

/// Fetches the resource of a row with `live_url`, and creates a record of it. If the row comes from an upstream
/// server, requests the record from that server.
///
/// On the live web any response becomes the record, including errors and redirects. Redirects of an archive to another
/// timestamp of the same resource are followed.
///
/// # Errors
/// [`LoadError::Unfit`] if the row has no `live_url`; [`LoadError::Request`] if the request must not be forwarded;
/// other errors if there is no complete response within the limits, or an archive's response is not a capture.
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
