//! Creates a WARC record from the body of a response and its metadata.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use rustls::crypto::{CryptoProvider, ring};

use crate::resource::digest::{Algorithm, Digest, Digester};
use crate::resource::record::{LoadError, Record, urn};
use crate::resource::spool::{Spool, Spooled};
use crawlspace_fetch::exchange::Incoming;
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::{END, Header};

/// Origin of a record.
pub(super) struct Origin {
    /// `WARC-Target-URI`.
    pub target_uri: String,
    /// `WARC-Date`.
    pub date: Timestamp,
    /// `WARC-IP-Address`.
    pub address: Option<IpAddr>,
    /// `WARC-Source-URI`: URL of the capture in an archive, as pywb writes it. If set, `WARC-Creation-Date` has the
    /// time at which the record was created.
    pub source_uri: Option<String>,
}

/// A complete body.
pub(super) struct Arrived {
    /// The body.
    pub spooled: Spooled,
    /// Digest of the body.
    pub payload: Digest,
    /// Trailer section after the body.
    pub trailer: Bytes,
}

/// Reads a body of up to `most` bytes to its end. Also adds the body to the digester `block`.
pub(super) async fn arrive(
    mut body: Incoming,
    most: u64,
    mut block: Option<&mut Digester>,
) -> Result<Arrived, LoadError> {
    let mut payload = Digester::new(Algorithm::Sha1);
    let mut spool = Spool::new(most);
    while let Some(bytes) = body.next().await? {
        payload.update(&bytes);
        if let Some(block) = &mut block {
            block.update(&bytes);
        }
        spool.push(&bytes).await?;
    }
    Ok(Arrived {
        spooled: spool.finish().await?,
        payload: payload.finish(),
        trailer: body.trailer().clone(),
    })
}

/// Reads a body of up to `most` bytes to its end, and creates a record of it.
///
/// `head` creates the HTTP header from the length of the body, in bytes, and its trailer section; it must be
/// deterministic.
pub(super) async fn record(
    body: Incoming,
    most: u64,
    origin: Origin,
    head: impl Fn(u64, &[u8]) -> Vec<u8> + Send + Sync,
) -> Result<Record, LoadError> {
    // The digest of the block covers the header first. The header needs the length, so a body of
    // unknown length is read twice.
    let mut known = body.length().map(|length| {
        let head = head(length, b"");
        let mut block = Digester::new(Algorithm::Sha1);
        block.update(&head);
        (head, block)
    });
    let block = known.as_mut().map(|(_, block)| block);
    let arrived = arrive(body, most, block).await?;
    match known {
        Some((head, block)) => Ok(finished(&arrived, &head, &block.finish(), origin)),
        None => {
            let head = head(arrived.spooled.length(), &arrived.trailer);
            record_of(&arrived, &head, origin).await
        }
    }
}

/// Creates a record from a header and a body.
pub(super) async fn record_of(
    arrived: &Arrived,
    head: &[u8],
    origin: Origin,
) -> Result<Record, LoadError> {
    let mut block = Digester::new(Algorithm::Sha1);
    block.update(head);
    let mut bytes = arrived.spooled.stream(0);
    while let Some(bytes) = bytes.next().await {
        block.update(&bytes?);
    }
    Ok(finished(arrived, head, &block.finish(), origin))
}

fn finished(arrived: &Arrived, head: &[u8], block: &Digest, origin: Origin) -> Record {
    let spooled = &arrived.spooled;
    let length = head.len() as u64 + spooled.length();
    let header = origin.header(length, &block.text(), &arrived.payload.text());
    let record = [header.raw(), head].concat();
    let closing = stream::iter([Ok(Bytes::from_static(END))]);
    Record {
        length: record.len() as u64 + spooled.length() + END.len() as u64,
        head: Bytes::from(record),
        body: spooled.stream(0).chain(closing).boxed(),
        target_uri: origin.target_uri,
        date: origin.date,
        source: None,
    }
}

impl Origin {
    /// Returns the header of the record.
    fn header(&self, length: u64, block: &str, payload: &str) -> Header {
        let mut header = Header::new("WARC/1.1");
        let mut set = |name, value: &str| header.set(name, value.as_bytes());
        set("WARC-Type", "response");
        set("WARC-Record-ID", &record_id());
        set("WARC-Target-URI", &in_one_word(&self.target_uri));
        set("WARC-Date", &self.date.iso());
        if let Some(source) = &self.source_uri {
            set("WARC-Source-URI", &in_one_word(source));
            set("WARC-Creation-Date", &Timestamp::now().iso());
        }
        if let Some(address) = &self.address {
            set("WARC-IP-Address", &address.to_string());
        }
        set("WARC-Block-Digest", block);
        set("WARC-Payload-Digest", payload);
        set("Content-Type", "application/http; msgtype=response");
        header.set_content_length(length);
        header
    }
}

/// Percent-encodes white space and control characters, which would end the URL or its line.
pub(super) fn in_one_word(url: &str) -> String {
    let mut word = String::with_capacity(url.len());
    for char in url.chars() {
        if char.is_whitespace() || char.is_control() {
            let mut bytes = [0; 4];
            for byte in char.encode_utf8(&mut bytes).bytes() {
                word.push_str(&format!("%{byte:02X}"));
            }
        } else {
            word.push(char);
        }
    }
    word
}

/// Returns a unique record id: a UUID of random bits (RFC 9562, section 5.4).
fn record_id() -> String {
    static CRYPTO: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(ring::default_provider()));
    let mut bits = [0; 16];
    // The call fails only if the system has no source of random numbers. TLS fails in this case as well. The
    // record is valid anyway.
    let _ = CRYPTO.secure_random.fill(&mut bits);
    urn(u128::from_be_bytes(bits), 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_ids_are_version_4_uuids() {
        let names: Vec<String> = (0..200).map(|_| record_id()).collect();
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name));
            let uuid = name
                .strip_prefix("<urn:uuid:")
                .unwrap()
                .strip_suffix('>')
                .unwrap();
            let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12]);
            assert!(
                uuid.bytes()
                    .all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
            );
            assert_eq!(uuid.as_bytes()[14], b'4');
            assert!(b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
        }
    }

    #[test]
    fn url_is_escaped_in_its_line() {
        assert_eq!(
            in_one_word("http://a/b c\r\nX: y\u{a0}é"),
            "http://a/b%20c%0D%0AX:%20y%C2%A0é"
        );
    }
}
