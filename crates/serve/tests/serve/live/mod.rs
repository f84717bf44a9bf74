//! Tests of records created from responses of other servers.

mod answers;
mod archives;
mod hostile;
mod memory;
mod requests;
mod tls;
mod upstreams;
mod warcio;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use crawlspace_fetch::Net;
use crawlspace_fetch::Network;
use crawlspace_index::row::{build, member};
use crawlspace_index::source::Limits;
use crawlspace_serve::resource::capture::Capture;
use crawlspace_serve::resource::client_request::ClientRequest;
use crawlspace_serve::resource::live;
use crawlspace_serve::resource::record::{LoadError, Record};
use crawlspace_warc::{Header, Reader};
use futures_util::StreamExt;

/// Returns an HTTP client that may connect to loopback addresses.
fn net() -> Arc<Net> {
    let loopback = Network {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        bits: 8,
    };
    Net::new(&[loopback]).unwrap()
}

/// Returns limits that no test reaches, except those that it sets.
fn limits() -> Limits {
    Limits {
        connect: Duration::from_secs(60),
        first: Duration::from_secs(60),
        silence: Duration::from_secs(60),
        total: Duration::from_secs(600),
        ..Limits::default()
    }
}

/// Returns a row of a source of that type.
fn row(source_type: &str, timestamp: &str, fields: &[(&str, &str)]) -> Capture {
    let mut members = String::new();
    for (name, value) in fields {
        member(name, value, &mut members);
    }
    member("source_type", source_type, &mut members);
    Capture::of(&build("com,example)/", timestamp, &members).unwrap()).unwrap()
}

/// Returns a row whose URL is fetched from the live web.
fn live_row(url: &str) -> Capture {
    row("live", "20260101000000", &[("url", url), ("live_url", url)])
}

/// Fetches a URL from the live web, and returns its record.
async fn load_live(
    url: &str,
    request: &ClientRequest,
    limits: &Limits,
) -> Result<Record, LoadError> {
    live::load(&net(), limits, &live_row(url), request).await
}

/// Fetches a page from the live web with default options.
async fn load_page(url: &str) -> Result<Record, LoadError> {
    load_live(url, &ClientRequest::default(), &limits()).await
}

/// Returns the error of a failed load.
fn refusal(loaded: Result<Record, LoadError>) -> LoadError {
    match loaded {
        Ok(record) => panic!("a record: {:?}", String::from_utf8_lossy(&record.head)),
        Err(error) => error,
    }
}

/// Returns the value of a header field as text.
fn text(header: &Header, name: &str) -> Option<String> {
    let value = header.get(name)?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Returns all bytes of a record.
async fn bytes_of(record: Record) -> Result<Vec<u8>, LoadError> {
    let mut bytes = record.head.to_vec();
    let mut body = record.body;
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece?);
    }
    assert_eq!(bytes.len() as u64, record.length);
    Ok(bytes)
}

/// Returns header and block of bytes that must be a single record.
fn header_and_block(warc: &[u8]) -> (Header, Vec<u8>) {
    let mut reader = Reader::new("record", warc);
    let mut record = reader.next().unwrap().unwrap();
    let header = record.header().clone();
    let mut block = Vec::new();
    std::io::Read::read_to_end(&mut record, &mut block).unwrap();
    assert_eq!(record.finish().unwrap().size, warc.len() as u64);
    assert!(reader.next().unwrap().is_none());
    (header, block)
}

/// Returns record header, HTTP header and payload of bytes that must be a single record.
fn taken_apart(warc: &[u8]) -> (Header, Vec<u8>, Vec<u8>) {
    let (header, mut block) = header_and_block(warc);
    let end = block.windows(4).position(|four| four == b"\r\n\r\n");
    let payload = block.split_off(end.unwrap() + 4);
    (header, block, payload)
}
