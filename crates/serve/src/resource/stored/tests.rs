mod damage;

use std::io::Write as _;

use futures_util::{StreamExt, stream};
use redis_tests::{assert_contains, rows};

use super::*;
use crate::resource::digest::{Algorithm, of};
use crawlspace_warc::end_of_header;

const HTTP: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";

/// Returns a record with these fields in addition to the common ones.
fn warc(fields: &str, block: &[u8]) -> Vec<u8> {
    let head = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:a>\r\nWARC-Date: 2016-01-02T03:04:05Z\r\n\
         WARC-Target-URI: http://example.com/\r\n{fields}Content-Length: {}\r\n\r\n",
        block.len()
    );
    [head.as_bytes(), block, END].concat()
}

fn header_end(bytes: &[u8]) -> usize {
    end_of_header(bytes).unwrap()
}

fn digests(block: &[u8], payload: &[u8]) -> String {
    let sha1 = |bytes: &[u8]| of(Algorithm::Sha1, bytes).text();
    let [block, payload] = [block, payload].map(sha1);
    format!("WARC-Block-Digest: {block}\r\nWARC-Payload-Digest: {payload}\r\n")
}

fn with_digests(payload: &[u8]) -> Vec<u8> {
    let block = [HTTP.as_bytes(), payload].concat();
    warc(&digests(&block, payload), &block)
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    member.write_all(bytes).unwrap();
    member.finish().unwrap()
}

/// Returns an input that arrives in pieces of this size.
fn input(bytes: &[u8], piece: usize) -> Input {
    let pieces = bytes
        .chunks(piece)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)));
    let pieces: Vec<_> = pieces.collect();
    Input::Record(stream::iter(pieces).boxed())
}

async fn read(bytes: &[u8], piece: usize) -> Result<Vec<u8>, LoadError> {
    let stored = Stored::read(input(bytes, piece), b"id").await?;
    all(stored.into_record()?).await
}

async fn all(record: Record) -> Result<Vec<u8>, LoadError> {
    let mut bytes = record.head.to_vec();
    let mut body = record.body;
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece?);
    }
    assert_eq!(bytes.len() as u64, record.length);
    Ok(bytes)
}

/// Asserts that the bytes are exactly one record that matches its digests.
fn assert_valid(bytes: &[u8]) {
    let shown = || String::from_utf8_lossy(&bytes[..bytes.len().min(1000)]).into_owned();
    let mut reader = crawlspace_warc::Reader::new("record", bytes);
    let failed = |error| -> ! { panic!("{error}: {}", shown()) };
    let record = reader.next().unwrap_or_else(|error| failed(error)).unwrap();
    let header = record.header().clone();
    record.finish().unwrap_or_else(|error| failed(error));
    assert!(reader.next().unwrap().is_none());
    let block = &bytes[header_end(bytes)..bytes.len() - END.len()];
    let is_web = |uri: &[u8]| {
        let uri = uri.to_ascii_lowercase();
        uri.starts_with(b"http:") || uri.starts_with(b"https:")
    };
    let is_http = header.target_uri().is_some_and(is_web);
    let is_http = is_http && header.get("WARC-Type") == Some(b"response");
    let is_http = is_http && http::may_be_response(block);
    let payload = match http::end_of_head(block) {
        Some(end) if is_http => &block[end..],
        None if is_http => b"",
        _ => block,
    };
    if header.get("WARC-Type") == Some(b"revisit") {
        // Revisits are never served themselves.
        return;
    }
    // The payload digest covers all segments.
    let is_segment = header.get("WARC-Segment-Number").is_some();
    let (mut wrong, mut proofs) = (Vec::new(), 0);
    for (name, bytes) in [
        ("WARC-Block-Digest", block),
        ("WARC-Payload-Digest", payload),
    ] {
        if is_segment && name == "WARC-Payload-Digest" {
            continue;
        }
        if let Some(text) = header.get(name) {
            let stated = Digest::parse(text).unwrap_or_else(|| panic!("{name}: {}", shown()));
            assert!(stated.is_well_put(text), "{name}: {}", shown());
            if of(stated.algorithm, bytes) == stated {
                proofs += 1;
            } else {
                wrong.push(name);
            }
        }
    }
    // The header of a large record has already been sent when the second digest proves the first one wrong.
    let is_large = block.len() as u64 > MAX_IN_MEMORY;
    let is_right = wrong.is_empty() || is_large && proofs > 0;
    assert!(is_right, "{wrong:?}: {}", shown());
}

#[tokio::test]
async fn valid_record_is_served_as_stored() {
    for payload in [
        &b""[..],
        b"hello",
        &[b'x'; 100_000],
        &vec![7; MAX_IN_MEMORY as usize + 5],
    ] {
        let record = with_digests(payload);
        let small = if payload.len() > 1000 { 60_000 } else { 1 };
        for piece in [small, 64 * 1024, 1 << 24] {
            assert_eq!(read(&record, piece).await.unwrap(), record);
            assert_eq!(read(&packed(&record), piece).await.unwrap(), record);
        }
        assert_valid(&record);
    }
}

#[tokio::test]
async fn record_may_end_with_its_file() {
    let record = with_digests(b"hello");
    let next = [&record[..], &record[..]].concat();
    let members = [packed(&record), packed(&record)].concat();
    for bytes in [next.clone(), packed(&next), members] {
        assert_eq!(read(&bytes, 100).await.unwrap(), record);
    }
    // The length in an index may exclude the final line breaks.
    for left_out in 1..=4 {
        let found = read(&record[..record.len() - left_out], 100).await;
        assert_eq!(found.unwrap(), record);
    }
    let wrong = String::from_utf8(record.clone()).unwrap();
    for (length, is_near) in [
        ("49", true),
        ("51", true),
        ("33", false),
        ("5000000", false),
    ] {
        let wrong = wrong.replace("Length: 50", &format!("Length: {length}"));
        for bytes in [wrong.as_bytes(), &packed(wrong.as_bytes())] {
            let found = read(bytes, 100).await;
            assert_eq!(
                found.as_ref().ok().map(Vec::len),
                is_near.then_some(record.len()),
                "{length}"
            );
            found.iter().for_each(|found| assert_valid(found));
        }
    }
}

#[tokio::test]
async fn wrong_digest_is_an_error_and_never_a_whole_record() {
    let right = of(Algorithm::Sha1, b"right").text();
    for payload in [b"wrong".to_vec(), vec![b'x'; MAX_IN_MEMORY as usize + 1]] {
        let block = [HTTP.as_bytes(), &payload].concat();
        for name in ["WARC-Block-Digest", "WARC-Payload-Digest"] {
            let record = warc(&format!("{name}: {right}\r\n"), &block);
            let error = read(&record, 1 << 16).await.unwrap_err();
            assert_contains(&error, name);
        }
    }
}

#[tokio::test]
async fn digests_are_written_in_the_common_form() {
    let block = [HTTP.as_bytes(), b"hello"].concat();
    let (right, of_block) = (of(Algorithm::Sha1, b"hello"), of(Algorithm::Sha1, &block));
    let bare = right.text().replace("sha1:", "");
    for (stated, put) in rows![
        right.text().to_lowercase(), Some(right.text());
        bare, Some(right.text());
        format!("sha1:{}", data_encoding::HEXLOWER.encode(&right.value)),
            Some(format!("sha1:{}", data_encoding::HEXLOWER.encode(&right.value)));
        "md5:5d41402abc4b2a76b9719d911017c592".to_owned(), None;
        "nonsense".to_owned(), None;
    ] {
        let record = warc(&format!("WARC-Payload-Digest: {stated}\r\n"), &block);
        let out = read(&record, 1000).await.unwrap();
        assert_valid(&out);
        let header = header::parse(&out[..header_end(&out)]).unwrap();
        assert_eq!(header.text("WARC-Payload-Digest"), put, "{stated}");
    }
    // The digest of the decoded chunks is removed; the digest of unrelated bytes is an error.
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let stated = |digest: &Digest| format!("WARC-Payload-Digest: {}\r\n", digest.text());
    let record = warc(&stated(&right), chunked);
    let out = read(&record, 1000).await.unwrap();
    assert_valid(&out);
    assert!(!String::from_utf8_lossy(&out).contains("Payload-Digest"));
    let record = warc(&stated(&of_block), chunked);
    assert!(read(&record, 1000).await.is_err());
}

#[tokio::test]
async fn missing_fields_are_added() {
    let record = String::from_utf8(with_digests(b"hello")).unwrap();
    let without = record.replace("WARC-Record-ID: <urn:uuid:a>\r\n", "");
    let out = read(without.as_bytes(), 1000).await.unwrap();
    assert_valid(&out);
    assert!(String::from_utf8_lossy(&out).contains("WARC-Record-ID: <urn:uuid:"));
    let again = read(without.as_bytes(), 1000).await.unwrap();
    assert_eq!(again, out, "the result is the same each time");
    let line_ends = record.replacen("\r\nWARC-Type", "\nWARC-Type", 1);
    let found = read(line_ends.as_bytes(), 1000).await.unwrap();
    assert_eq!(found, record.as_bytes());
    for name in ["WARC-Date", "WARC-Target-URI"] {
        let without = record.replace(name, "X");
        assert!(read(without.as_bytes(), 1000).await.is_err(), "{name}");
    }
}

#[tokio::test]
async fn record_without_a_length_ends_with_its_gzip_member() {
    let head = "WARC/1.0\r\nWARC-Type: response\r\nWARC-Date: 2016-01-02T03:04:05Z\r\n\
                WARC-Target-URI: http://example.com/\r\n";
    let block = [HTTP.as_bytes(), b"hello"].concat();
    let stored = |fields: &str, block: &[u8], end| {
        packed(&[head.as_bytes(), fields.as_bytes(), b"\r\n", block, end].concat())
    };
    for end in [END, b""] {
        let record = stored(&digests(&block, b"hello"), &block, end);
        let record = read(&record, 100).await.unwrap();
        assert_valid(&record);
        let length = format!("Content-Length: {}\r\n", block.len());
        assert_contains(String::from_utf8_lossy(&record), &length);
    }
    let large = vec![b' '; crawlspace_warc::MAX_OPEN];
    let plain = [head.as_bytes(), b"\r\n", &block, END].concat();
    for refused in [stored("", &large, END), plain] {
        let error = read(&refused, 4096).await.unwrap_err();
        assert_contains(error.to_string(), "Content-Length is missing");
    }
}

#[tokio::test]
async fn arc_records_become_warc_records() {
    let block = [HTTP.as_bytes(), b"hello"].concat();
    for (line, kind, uri, address) in rows![
        "http://example.com/ 192.0.2.1 20160102030405 text/plain", "response", "http://example.com/",
            Some("192.0.2.1");
        "http://example.com/a b 0.0.0.0 20160102030405 text/plain", "response",
            "http://example.com/a%20b", None;
        "http://example.com/ 2001:db8::1 20160102030405 text/html 200 checksum - 123 a.arc.gz",
            "response", "http://example.com/", Some("2001:db8::1");
        "dns:example.com 192.0.2.1 20160102030405 text/dns", "response", "dns:example.com",
            Some("192.0.2.1");
    ] {
        for end in ["\n", ""] {
            let head = format!("{line} {}\n", block.len());
            let arc = [head.as_bytes(), &block, end.as_bytes()].concat();
            let other = b"http://other.example/ 192.0.2.1 20160102030405 text/plain 0\n";
            let next = [&arc[..], other].concat();
            let out = read(&arc, 7).await.unwrap();
            assert_valid(&out);
            assert_eq!(read(&packed(&arc), 1000).await.unwrap(), out);
            if end == "\n" {
                assert_eq!(read(&next, 1000).await.unwrap(), out);
            }
            let header = header::parse(&out[..header_end(&out)]).unwrap();
            assert_eq!(header.kind(), kind.as_bytes());
            assert!(header.get("WARC-Payload-Digest").is_some());
            assert_eq!(header.uri().as_deref(), Some(uri));
            assert_eq!(header.text("WARC-IP-Address").as_deref(), address);
            assert_eq!(header.moment().unwrap().to_string(), "20160102030405");
        }
    }
    let file = b"http://example.com/ 192.0.2.1 20160102030405 text/plain 5\nhello\n";
    let out = String::from_utf8(read(file, 1000).await.unwrap()).unwrap();
    assert_contains(&out, "WARC-Type: resource\r\n");
    assert_contains(&out, "Content-Type: text/plain\r\n");
    for wrong in [
        "filedesc://a.arc 0.0.0.0 20160102030405 text/plain 2\n1 \n",
        "http://example.com/ 192.0.2.1 20160102030405 text/plain\nhello\n",
        "http://example.com/ 192.0.2.1 20169902030405 text/plain 5\nhello\n",
        "http://example.com/ 192.0.2.1 20160102030405 text/plain -5\nhello\n",
        "http://example.com/ 192.0.2.1 20160102030405 text/plain 50\nhello\n",
        "no record at all\n",
        "<html>",
    ] {
        assert!(read(wrong.as_bytes(), 1000).await.is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn huge_lengths_do_not_overflow() {
    for length in [u64::MAX, u64::MAX - 200, i64::MAX as u64, 1 << 51, 1 << 49] {
        let arc =
            format!("http://example.com/ 192.0.2.1 20160102030405 text/plain {length}\nhello\n");
        let warc = String::from_utf8(with_digests(b"hello")).unwrap();
        let warc = warc.replace("Content-Length: 50", &format!("Content-Length: {length}"));
        for bytes in [arc.as_bytes(), warc.as_bytes(), &packed(warc.as_bytes())] {
            assert!(read(bytes, 1000).await.is_err(), "{length}");
        }
    }
}

#[tokio::test]
async fn header_size_is_limited() {
    let long = [&b"WARC/1.0\r\nX: "[..], &vec![b'x'; 1 << 20], b"\r\n\r\n"].concat();
    assert!(
        read(&long, 1000)
            .await
            .unwrap_err()
            .to_string()
            .contains("longer than")
    );
    let bomb = packed(&vec![b'\n'; 100 << 20]);
    assert!(read(&bomb, 1 << 20).await.is_err());
    let bomb = packed(&[&b"WARC/1.0\r\n"[..], &vec![b'x'; 100 << 20]].concat());
    assert!(read(&bomb, 1 << 20).await.is_err());
    let fields = [&b"WARC/1.0\r\n"[..], &b"a:\r\n".repeat(10_000), b"\r\n"].concat();
    assert!(read(&fields, 1000).await.is_err());
}

#[tokio::test]
async fn arc_record_with_a_wrong_length_is_whole_or_refused() {
    let body = "line one\r\n\r\nline two";
    for http in [
        "HTTP/1.0 200 OK\r\nContent-Length: 20\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\n",
    ] {
        for off in -40..=40 {
            let length = (http.len() + body.len()) as i64 + off;
            let line = format!("http://e.com/ 192.0.2.1 20160102030405 text/html {length}\n");
            let member = packed(format!("{line}{http}{body}\n").as_bytes());
            for piece in [7, 1000] {
                let record = read(&member, piece).await;
                assert_eq!(record.is_ok(), (0..=17).contains(&off), "{off} {http}");
                if let Ok(record) = record {
                    // Without a `Content-Length`, the line break may be part of the block.
                    let ends = |text: &str| record.ends_with(format!("{text}\r\n\r\n").as_bytes());
                    let is_open = off == 1 && !http.contains("Length");
                    let right = http.to_owned() + body + if is_open { "\n" } else { "" };
                    assert!(ends(&format!("\r\n\r\n{right}")), "{off} {http}");
                }
            }
        }
    }
}
