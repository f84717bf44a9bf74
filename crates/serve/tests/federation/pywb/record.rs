//! WARC records in responses, and their content.

use std::io::Read;

use crawlspace_warc::Reader;
use flate2::read::GzDecoder;
use redis_tests::archive::collection::Capture;
use redis_tests::assert_lacks;
use redis_tests::http::Answer;
use redis_tests::pywb::Pywb;
use tempfile::TempDir;

/// A parsed record.
#[derive(Clone, Debug)]
pub struct Record {
    /// `WARC-Target-URI`.
    pub target: String,
    /// `WARC-Date`.
    pub date: String,
    /// Status line and header of the HTTP response.
    pub head: String,
    /// Body of the response, without transfer and content codings.
    pub payload: Vec<u8>,
}

/// Records for a validation tool, which is run once for all of them since it starts slowly.
pub struct Checked<'a> {
    pywb: &'a Pywb,
    folder: TempDir,
    files: usize,
}

impl<'a> Checked<'a> {
    /// Creates an empty collection of records.
    pub fn new(pywb: &'a Pywb) -> Checked<'a> {
        Checked {
            pywb,
            folder: tempfile::tempdir().unwrap(),
            files: 0,
        }
    }

    /// Parses the body of a response, which must be a single valid record, and keeps it for the tool.
    #[track_caller]
    pub fn record(&mut self, answer: &Answer) -> Record {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.media_type(), "application/warc-record");
        self.files += 1;
        let file = format!("{}.warc", self.files);
        std::fs::write(self.folder.path().join(file), &answer.body).unwrap();
        Record::read(&answer.body)
    }

    /// Asserts that `warcio check` accepts all records.
    pub fn are_valid(self) {
        let files = (1..=self.files).map(|n| self.folder.path().join(format!("{n}.warc")));
        let told = self.pywb.warcio_check(&files.collect::<Vec<_>>());
        let told = told.unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(
            told.matches(".warc").count(),
            self.files,
            "it looked at all: {told}"
        );
        assert_lacks(told.to_lowercase(), "fail");
    }
}

impl Record {
    fn read(bytes: &[u8]) -> Record {
        let mut reader = Reader::new("the answer", bytes);
        let record = reader.next().unwrap().expect("a record");
        record.finish().unwrap();
        assert!(
            reader.next().unwrap().is_none(),
            "the file has a single record"
        );
        Record::read_leniently(bytes)
    }

    /// Parses bytes that start with a record, ignoring its stated length.
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
        let length = field("Content-Length").parse().unwrap_or(usize::MAX);
        let (head, body) = split(&block[..block.len().min(length)]);
        Record {
            target: field("WARC-Target-URI"),
            date: field("WARC-Date"),
            payload: decoded(&head, &body),
            head,
        }
    }
}

/// Decodes a body.
fn decoded(head: &str, body: &[u8]) -> Vec<u8> {
    let says = |field: &str| head.lines().any(|line| line.eq_ignore_ascii_case(field));
    let mut body = body.to_vec();
    if says("transfer-encoding: chunked") {
        body = unchunked(&body);
    }
    if says("content-encoding: gzip") {
        body = gunzipped(&body);
    }
    body
}

/// Decompresses gzip.
pub fn gunzipped(packed: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let unpacked = GzDecoder::new(packed).read_to_end(&mut plain);
    unpacked.unwrap_or_else(|why| panic!("{why}: {}", packed.escape_ascii()));
    plain
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let at = rest
            .windows(2)
            .position(|two| two == b"\r\n")
            .unwrap_or_else(|| panic!("no size of a chunk: {}", rest.escape_ascii()));
        let size = std::str::from_utf8(&rest[..at]).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        if size == 0 {
            return out;
        }
        out.extend_from_slice(&rest[at + 2..][..size]);
        rest = &rest[at + 2 + size + 2..];
    }
}

/// Returns the payload of a capture, decoded.
pub fn payload_of(capture: &Capture) -> Vec<u8> {
    decoded(&capture.encoding.join("\r\n"), &capture.payload)
}
