//! WARC records of answers, and what is in them.

use std::io::Read;
use std::path::Path;

use crawlspace_client::warc::Reader;
use flate2::read::GzDecoder;
use redis_tests::archive::collection::Capture;
use redis_tests::http::Answer;
use redis_tests::pywb::Pywb;

/// A record, taken apart.
#[derive(Clone, Debug)]
pub struct Record {
    /// `response`.
    pub kind: String,
    /// `WARC-Target-URI`.
    pub target: String,
    /// `WARC-Date`.
    pub date: String,
    /// Status line and header of the HTTP answer in it.
    pub head: String,
    /// The body of that answer, without transfer and content codings.
    pub payload: Vec<u8>,
}

impl Record {
    /// Of the body of an answer, which must be one valid record: our reader and `warcio check` both look at it.
    #[track_caller]
    pub fn of(answer: &Answer, pywb: &Pywb, folder: &Path) -> Record {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.media_type(), "application/warc-record");
        let path = folder.join("answer.warc");
        std::fs::write(&path, &answer.body).unwrap();
        pywb.warcio_check(&path).unwrap_or_else(|why| {
            panic!(
                "{why}\n{}",
                answer.text().chars().take(2_000).collect::<String>()
            )
        });
        Record::read(&answer.body)
    }

    fn read(bytes: &[u8]) -> Record {
        let mut reader = Reader::new("the answer", bytes);
        let record = reader.next().unwrap().expect("a record");
        record.finish().unwrap();
        assert!(reader.next().unwrap().is_none(), "there is one record");
        Record::read_leniently(bytes)
    }

    /// Of bytes that begin with a record, whatever its length is said to be.
    pub fn read_leniently(bytes: &[u8]) -> Record {
        let split = |bytes: &[u8]| -> (String, Vec<u8>) {
            let at = bytes
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
                .expect("a header");
            (
                String::from_utf8_lossy(&bytes[..at]).into_owned(),
                bytes[at + 4..].to_vec(),
            )
        };
        let (warc, block) = split(bytes);
        let field = |name: &str| {
            let found = warc
                .lines()
                .find_map(|line| line.strip_prefix(&format!("{name}: ")));
            found.unwrap_or_default().to_owned()
        };
        let block = block.strip_suffix(b"\r\n\r\n").unwrap_or(&block);
        let (head, body) = split(block);
        Record {
            kind: field("WARC-Type"),
            target: field("WARC-Target-URI"),
            date: field("WARC-Date"),
            payload: decoded(&head, &body),
            head,
        }
    }
}

/// A body without its codings.
pub fn decoded(head: &str, body: &[u8]) -> Vec<u8> {
    let head = head.to_ascii_lowercase();
    let mut body = body.to_vec();
    if head.contains("transfer-encoding: chunked") {
        body = unchunked(&body);
    }
    if head.contains("content-encoding: gzip") {
        let mut plain = Vec::new();
        GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
        body = plain;
    }
    body
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let at = rest
            .windows(2)
            .position(|two| two == b"\r\n")
            .expect("the size of a chunk");
        let size = std::str::from_utf8(&rest[..at]).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        if size == 0 {
            return out;
        }
        out.extend_from_slice(&rest[at + 2..][..size]);
        rest = &rest[at + 2 + size + 2..];
    }
}

/// What a capture says, without codings.
pub fn payload_of(capture: &Capture) -> Vec<u8> {
    decoded(&capture.encoding.join("\r\n"), &capture.payload)
}
