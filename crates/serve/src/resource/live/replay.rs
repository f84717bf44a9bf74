//! Loads unaltered captures from the replay of an archive.

use std::io::Read;

use crawlspace_cdx::surt::urlkey;
use flate2::bufread::MultiGzDecoder;
use url::Url;

use super::capture_head::{capture_head, original};
use super::response::{self, Arrived, Origin};
use super::{Whereabouts, upstream};
use crate::resource::client_request::ClientRequest;
use crate::resource::digest::{Algorithm, Digest, Digester};
use crate::resource::record::{LoadError, Record};
use crate::resource::spool::{Spool, blocking};
use crawlspace_fetch::Net;
use crawlspace_fetch::exchange::Exchange;
use crawlspace_index::source::{Limits, SourceError};
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::http::{Head, Status};

/// Maximum number of bytes decoded to compare a body with the digest in its row; larger bodies stay as received.
const MAX_UNPACKED: u64 = 256 << 20;
/// Number of bytes decoded per step.
const STEP: usize = 256 * 1024;
/// Maximum number of followed redirects to another timestamp of the same resource.
const MAX_HOPS: usize = 5;

/// Fetches a capture from an archive's replay URL.
pub(super) async fn load(
    net: &Net,
    limits: &Limits,
    row: Whereabouts,
    request: &ClientRequest,
) -> Result<Record, LoadError> {
    let mut url = row.load_url.clone();
    let mut hops = 0;
    let (exchange, memento) = loop {
        let mut outgoing = request.replay(url.clone(), row.digest.is_some());
        if row.source_type == "memento" {
            let date = row.date.http_date();
            outgoing
                .fields
                .push(("Accept-Datetime".into(), date.into()));
        }
        let exchange = net.exchange(outgoing, limits).await?;
        let memento = memento_datetime(&exchange.head);
        match next_hop(&exchange.head, memento, &url, &row.url) {
            Some(next) if hops < MAX_HOPS => url = next,
            Some(_) => {
                return Err(answer(format!(
                    "it redirects to other timestamps more than {MAX_HOPS} times"
                )));
            }
            None => break (exchange, memento),
        }
        hops += 1;
    };
    let Exchange { head, body, .. } = exchange;
    if head.first.code == 200 && upstream::is_record(&head) {
        return upstream::received(&head, body, limits, &row.url).await;
    }
    if memento.is_none() {
        must_be_capture(head.first.code, &row)?;
    }
    let origin = Origin {
        target_uri: row.url,
        date: memento.unwrap_or(row.date),
        // The address of the recorded server is unknown.
        address: None,
        source_uri: Some(url.to_string()),
    };
    let has_body = request.method != http::Method::HEAD && !matches!(head.first.code, 204 | 304);
    let mut arrived = response::arrive(body, limits.bytes, None).await?;
    let plain = match &row.digest {
        Some(digest) => unpacked(&head, &arrived, digest).await,
        None => None,
    };
    let is_unpacked = plain.is_some();
    arrived = plain.unwrap_or(arrived);
    let length = has_body.then_some(arrived.spooled.length());
    let head = capture_head(&head, &url, length, is_unpacked);
    response::record_of(&arrived, &head, origin).await
}

/// Checks that a response without a memento header is a capture, and not an error page of the archive.
fn must_be_capture(code: u16, row: &Whereabouts) -> Result<(), LoadError> {
    let indexed: Option<u16> = row.status.parse().ok();
    // All 2xx statuses, such as 200 and 206, count as equal here: digest and length are compared elsewhere.
    let is_indexed = match indexed {
        Some(indexed) => indexed == code || (indexed / 100, code / 100) == (2, 2),
        None => code < 400,
    };
    if is_indexed && row.source_type != "memento" {
        return Ok(());
    }
    Err(match (code, indexed) {
        (404 | 410, _) => {
            LoadError::Missing(format!("the archive does not have it: HTTP status {code}"))
        }
        (400.., _) => LoadError::Net(SourceError::Status(code)),
        (_, Some(indexed)) if !is_indexed => answer(format!(
            "it responds with HTTP status {code}, but its index says {indexed}"
        )),
        _ => answer("it does not state the date of the capture (Memento-Datetime)".to_owned()),
    })
}

/// Returns the body with gzip decoded, if the archive compressed it for transfer: then the decoded body matches the
/// digest in its row.
async fn unpacked(head: &Head<Status>, arrived: &Arrived, digest: &Digest) -> Option<Arrived> {
    let mut codings = head.list("Content-Encoding");
    let is_gzip = codings.next()?.eq_ignore_ascii_case(b"gzip") && codings.next().is_none();
    if !is_gzip || arrived.payload == *digest || digest.algorithm != Algorithm::Sha1 {
        return None;
    }
    let mut decoder = MultiGzDecoder::new(arrived.spooled.reader());
    let mut spool = Spool::new(MAX_UNPACKED);
    let mut payload = Digester::new(Algorithm::Sha1);
    loop {
        let step = move || {
            let mut bytes = Vec::with_capacity(STEP);
            decoder.by_ref().take(STEP as u64).read_to_end(&mut bytes)?;
            Ok((decoder, bytes))
        };
        // A body that is not gzip, or too large, stays as received.
        let (rest, bytes) = blocking(step).await.ok()?;
        if bytes.is_empty() {
            break;
        }
        decoder = rest;
        payload.update(&bytes);
        spool.push(&bytes).await.ok()?;
    }
    let payload = payload.finish();
    Some(Arrived {
        spooled: spool.finish().await.ok()?,
        trailer: arrived.trailer.clone(),
        payload,
    })
    .filter(|plain| plain.payload == *digest)
}

fn memento_datetime(head: &Head<Status>) -> Option<Timestamp> {
    Timestamp::from_http_date(&head.text("Memento-Datetime")?)
}

/// Returns the target of an archive's redirect, if it is another memento of the same resource in the same archive. A
/// captured redirect has a memento datetime, or leads to another resource.
fn next_hop(head: &Head<Status>, memento: Option<Timestamp>, from: &Url, url: &str) -> Option<Url> {
    if memento.is_some() || !matches!(head.first.code, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let next = from.join(&head.text("Location")?).ok()?;
    let is_web = matches!(next.scheme(), "http" | "https");
    let same_archive = is_web && next.host_str() == from.host_str();
    let same_resource = urlkey(&original(next.as_str())?).ok()? == urlkey(url).ok()?;
    (same_archive && same_resource && next != *from).then_some(next)
}

fn answer(what: String) -> LoadError {
    LoadError::Net(SourceError::Answer(what))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const FROM: &str = "https://archive.example/web/20160101000000id_/http://example.com/a?b=c";

    fn head(lines: &[&str]) -> Head<Status> {
        let text = format!("{}\r\n\r\n", lines.join("\r\n"));
        Head::new(Bytes::from(text), Status::read).unwrap()
    }

    #[test]
    fn archive_may_redirect_only_to_another_time() {
        let from = Url::parse(FROM).unwrap();
        let hop = |status: &str, location: &str, more: &str| {
            let head = head(&[
                &format!("HTTP/1.1 {status} Found"),
                &format!("Location: {location}"),
                more,
            ]);
            let memento = memento_datetime(&head);
            next_hop(&head, memento, &from, "http://example.com/a?b=c").map(|url| url.to_string())
        };
        let next = "https://archive.example/web/20150505050505id_/http://www.example.com/a?b=c";
        assert_eq!(hop("302", next, "A: b").as_deref(), Some(next));
        assert_eq!(
            hop("307", &next["https://archive.example".len()..], "A: b").as_deref(),
            Some(next)
        );
        for (status, location, more) in [
            ("200", next, "A: b"),
            (
                "302",
                next,
                "Memento-Datetime: Fri, 01 Jan 2016 00:00:00 GMT",
            ),
            ("302", FROM, "A: b"),
            (
                "302",
                "https://elsewhere.example/web/20150505050505id_/http://example.com/a?b=c",
                "A: b",
            ),
            (
                "302",
                "https://archive.example/web/20150505050505id_/http://other.example/",
                "A: b",
            ),
            ("302", "https://archive.example/login", "A: b"),
            (
                "302",
                "ftp://archive.example/web/20150505050505id_/http://example.com/a?b=c",
                "A: b",
            ),
            ("302", "http://example.com/", "A: b"),
        ] {
            assert_eq!(
                hop(status, location, more),
                None,
                "{status} {location} {more}"
            );
        }
    }
}
