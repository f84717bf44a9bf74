//! Tests of files with random damage: the result is an error or a valid record, and the amount of data read is bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis_tests::Rng;

use super::*;
use crawlspace_warc::MAX_HEADER;

/// Default number of damaged files (`CRAWLSPACE_DAMAGES` overrides it).
const FILES: u64 = 100_000;
/// One in this number of files is too large to be verified in memory.
const LARGE: u64 = 2000;
/// One in this number of files never ends.
const ENDLESS: u64 = 10;

/// Damages some bytes of a file, mostly in its first header.
fn damage(rng: &mut Rng, file: &[u8]) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for _ in 0..=rng.below(3) {
        let size = bytes.len() as u64;
        let near = if rng.chance(50) { 700 } else { size };
        let at = rng.below(near.min(size)) as usize;
        match rng.below(6) {
            0 => bytes[at] = rng.bits() as u8,
            1 => bytes[at] ^= 1 << rng.below(8),
            2 => bytes.truncate(at.max(1)),
            3 => bytes.insert(at, *rng.pick(b"\r\n\0:x0")),
            4 => {
                // Duplicates a few bytes.
                let end = (at + 1 + rng.below(40) as usize).min(bytes.len());
                let again = bytes[at..end].to_vec();
                let at = rng.below(size) as usize;
                bytes.splice(at..at, again);
            }
            _ => drop(bytes.drain(at..(at + 1 + rng.below(9) as usize).min(bytes.len()))),
        }
        if bytes.is_empty() {
            bytes.push(b'W');
        }
    }
    bytes
}

/// Returns records of all kinds, some of which already deviate from the standard.
fn files() -> Vec<Vec<u8>> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let right = text(&with_digests(b"hello"));
    let block = [HTTP.as_bytes(), b"hello"].concat();
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let arc = |end: &str| {
        format!("http://example.com/ 192.0.2.1 20160102030405 text/plain 50\n{HTTP}hello{end}")
            .into_bytes()
    };
    let mut files = vec![
        right.clone().into_bytes(),
        right.replace("Length: 50", "Length: 48").into_bytes(),
        right.replace("Length: 50", "Length: 52").into_bytes(),
        right.replace("\r\nWARC", "\nWARC").into_bytes(),
        right.trim_end().as_bytes().to_vec(),
        warc("", &block),
        warc(&digests(chunked, b"hello"), chunked),
        warc(&digests(b"wrong", b"hello"), &block),
        warc("WARC-Segment-Number: 1\r\n", &block),
        right
            .replace("WARC-Type: response", "WARC-Type: resource")
            .into_bytes(),
        right
            .replace("WARC-Type: response", "WARC-Type: revisit")
            .into_bytes(),
        arc("\n"),
        arc(""),
    ];
    let gzip: Vec<_> = files.iter().map(|file| packed(file)).collect();
    // Files with a second record.
    let next: Vec<_> = files
        .iter()
        .map(|file| [&file[..], right.as_bytes()].concat())
        .collect();
    files.extend(gzip);
    files.extend(next);
    files
}

fn number() -> u64 {
    let number = std::env::var("CRAWLSPACE_DAMAGES");
    number.map_or(FILES, |number| number.parse().unwrap())
}

/// Checks a record if the validating reader knows its version: WARC/1.0 or WARC/1.1.
fn assert_valid_if_known(record: &[u8]) {
    if record.starts_with(b"WARC/1.0") || record.starts_with(b"WARC/1.1") {
        assert_valid(record);
    }
}

#[tokio::test]
async fn damaged_files_give_errors_or_valid_records() {
    let mut rng = Rng::new("damaged_files_give_errors_or_valid_records");
    let large = (0..MAX_IN_MEMORY + 1000).map(|i| ((i * i) >> 8) as u8);
    let large = with_digests(&large.collect::<Vec<u8>>());
    let (files, large) = (files(), [packed(&large), large]);
    let mut served = 0;
    for number in 0..number() {
        let files = if number % LARGE == 0 {
            &large[..]
        } else {
            &files
        };
        let file = rng.pick(files);
        let bytes = damage(&mut rng, file);
        let piece = *rng.pick(&[7, 700, 64 * 1024]);
        let piece = if bytes.len() > 100_000 {
            64 * 1024
        } else {
            piece
        };
        if let Ok(record) = read(&bytes, piece).await {
            assert_valid_if_known(&record);
            served += 1;
        }
    }
    assert!(served > number() / 10, "{served}");
}

#[tokio::test]
async fn reading_a_damaged_file_is_limited() {
    const PIECE: usize = 16 * 1024;
    let mut rng = Rng::new("reading_a_damaged_file_is_limited");
    let files = files();
    for _ in 0..number() / ENDLESS {
        let file = rng.pick(&files);
        let bytes = damage(&mut rng, file);
        let more = match rng.below(4) {
            0 => vec![0; PIECE],
            1 => vec![b'\n'; PIECE],
            2 => b"a: b\r\n".repeat(PIECE / 6),
            _ => warc("", b"more").repeat(PIECE / 200),
        };
        let pulled = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&pulled);
        let pieces = stream::iter([Bytes::from(bytes)]).chain(stream::repeat(Bytes::from(more)));
        let pieces = pieces.map(move |piece: Bytes| {
            count.fetch_add(piece.len() as u64, Ordering::Relaxed);
            Ok(piece)
        });
        let stored = Stored::read(Input::Record(pieces.boxed()), b"id").await;
        let mut length = 0;
        if let Ok(record) = stored.and_then(Stored::into_record) {
            // A very large record is streamed, and the test does not read it to the end.
            let is_read = record.length < 8 * MAX_IN_MEMORY;
            length = if is_read { record.length } else { 0 };
            if is_read && let Ok(record) = all(record).await {
                assert_valid_if_known(&record);
            }
        }
        let most = length.max(MAX_IN_MEMORY) + (MAX_HEADER + 2 * STEP) as u64;
        let pulled = pulled.load(Ordering::Relaxed);
        assert!(pulled <= most, "{pulled} bytes for a record of {length}");
    }
}
