//! Reads a corpus of valid and damaged records, and compares the results with the stored ones.

use std::io::{Read, Write};

use crawlspace_warc::{AsyncReader, Deviations, Error, Problem, Reader, RecordType, Source};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(9));
    member.write_all(bytes).unwrap();
    member.finish().unwrap()
}

fn warc(fields: &str, block: &[u8], end: &str) -> Vec<u8> {
    let head = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: <http://a.example/>\r\n{fields}Content-Length: {}\r\n\r\n",
        block.len()
    );
    [head.as_bytes(), block, end.as_bytes()].concat()
}

fn arc(line: &str, block: &[u8], end: &str) -> Vec<u8> {
    [
        format!("{line} {}\n", block.len()).as_bytes(),
        block,
        end.as_bytes(),
    ]
    .concat()
}

/// Record that describes the ARC file.
const FILE: &str = "filedesc://a.arc 0.0.0.0 20130522091849 text/plain";
const HTTP: &[u8] = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nhello\r\n\r\n";

fn records() -> Vec<(&'static str, Vec<u8>)> {
    let long = format!("WARC/1.0\r\nX: {}", "x".repeat(70_000));
    vec![
        ("plain", warc("", HTTP, "\r\n\r\n")),
        (
            "large, folded",
            warc("X: a\r\n  b\r\n", &[b'x'; 70_000], "\r\n\r\n"),
        ),
        ("control character", warc("X: \u{1}\r\n", b"", "\r\n\r\n")),
        ("closed by LF LF", warc("", HTTP, "\n\n")),
        ("not closed", warc("", HTTP, "")),
        ("closed by CRLF", warc("", HTTP, "\r\n")),
        ("one line end more", warc("", HTTP, "\r\n\r\n\r\n")),
        (
            "bare LF",
            b"WARC/1.1\nWARC-Type: resource\nContent-Length: 2\n\nhi\r\n\r\n".to_vec(),
        ),
        (
            "old version",
            b"WARC/0.18\r\nWARC-Type: resource\r\nContent-Length: 0\r\n\r\n\r\n\r\n".to_vec(),
        ),
        (
            "CR CR LF",
            b"WARC/1.0\r\r\nWARC-Type: resource\r\r\nContent-Length: 0\r\r\n\r\r\n\r\n\r\n"
                .to_vec(),
        ),
        (
            "no length",
            b"WARC/1.0\r\nWARC-Type: resource\r\n\r\nhi\r\n\r\n".to_vec(),
        ),
        (
            "two lengths",
            warc("Content-Length: 2\r\n", HTTP, "\r\n\r\n"),
        ),
        (
            "cut off after a wrong line",
            b"WARC/1.0\r\nno field\r\nX: y".to_vec(),
        ),
        ("cut off", warc("", HTTP, "")[..120].to_vec()),
        ("endless line", long.into_bytes()),
        ("noise", b"Wxyz".to_vec()),
        ("empty", Vec::new()),
        ("ARC file", arc(FILE, b"1 0 X\n", "\n")),
        (
            "ARC web page",
            arc(
                "http://a.example/ 10.0.0.1 20130522091850 text/html",
                HTTP,
                "\n",
            ),
        ),
        (
            "ARC not closed",
            arc(
                "dns:a.example 10.0.0.2 20130522091851 text/dns",
                b"20130522\n",
                "",
            ),
        ),
        (
            "ARC closed by CRLF",
            arc(
                "https://a.example/b c 0.0.0.0 20130522091852 none 200 - - 47 a.arc",
                b"x",
                "\r\n",
            ),
        ),
    ]
}

/// A source that returns the bytes in pieces.
struct Pieces(Vec<bytes::Bytes>);

impl Source for Pieces {
    type Error = Problem;

    async fn more(&mut self) -> Result<bytes::Bytes, Problem> {
        let is_end = self.0.is_empty();
        Ok(if is_end {
            bytes::Bytes::new()
        } else {
            self.0.remove(0)
        })
    }
}

fn said(kind: RecordType, length: usize, deviations: Deviations) -> String {
    let deviations: Vec<_> = deviations
        .iter()
        .map(|one| format!(" ({})", one.word()))
        .collect();
    format!("{kind:?} {length}{}", deviations.concat())
}

/// Reads a file to its end or its first error, and describes the result.
fn file(bytes: &[u8]) -> String {
    let mut said = Vec::new();
    let mut reader = Reader::new("f", bytes);
    let outcome = loop {
        let mut record = match reader.next() {
            Ok(Some(record)) => record,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        let kind = record.header().record_type();
        let mut block = Vec::new();
        let _ = record.read_to_end(&mut block);
        match record.finish() {
            Ok(extent) => {
                let record = self::said(kind, block.len(), extent.deviations);
                said.push(format!("{record} at {}", extent.offset));
            }
            Err(error) => break Err(error),
        }
    };
    if let Err(Error { problem, .. }) = outcome {
        said.push(problem.to_string());
    }
    said.join(", ")
}

/// Describes the record at the start of the bytes.
fn record(bytes: &[u8], piece: usize) -> String {
    let pieces = bytes.chunks(piece).map(bytes::Bytes::copy_from_slice);
    let mut reader = AsyncReader::new(Pieces(pieces.collect()));
    let read = async {
        let mut bytes = Vec::new();
        let (header, at) = reader.header(&mut bytes).await?;
        let end = at + header.content_length() as usize;
        while bytes.len() < end && reader.read(&mut bytes, 5000).await? > 0 {}
        let tail = bytes.get(end..).ok_or_else(|| reader.cut_off())?;
        let ending = reader.end(&mut tail.to_vec()).await?;
        let longer = if ending.may_be_padding {
            0
        } else {
            ending.longer
        };
        let length = end - at + longer;
        Ok::<_, Problem>(said(header.record_type(), length, reader.deviations()))
    };
    // The source never has to wait, so the future is ready when it is first polled.
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(read).poll(&mut context) {
        std::task::Poll::Ready(Ok(said)) => said,
        std::task::Poll::Ready(Err(problem)) => problem.to_string(),
        std::task::Poll::Pending => unreachable!("nothing is waited for"),
    }
}

#[test]
fn every_record_of_the_corpus_is_read_as_recorded() {
    let description = arc(FILE, b"1 0 X\n", "\n");
    let next = warc("", b"next", "\r\n\r\n");
    for ((name, bytes), expected) in records().iter().zip(EXPECTED) {
        let before = if name.starts_with("ARC ") {
            &description[..]
        } else {
            b""
        };
        let in_file = file(&[before, bytes].concat());
        // Long lines are not split at every byte, because that would take too long.
        for piece in [1 + bytes.len() / 1000, 700, 20_000] {
            let alone = record(bytes, piece);
            let packed = record(&[gzip(bytes), gzip(&next)].concat(), piece);
            assert_eq!((*name, &*in_file, &*alone, &*packed), *expected);
        }
    }
    assert_eq!(records().len(), EXPECTED.len());
}

const CUT_OFF: &str = "the record is truncated";
const NOT_2: &str = "the record does not end after 2 bytes, its Content-Length";
const NOT_34: &str = "the record does not end after 34 bytes, its Content-Length";
const NO_LENGTH: &str = "the record header is not valid: Content-Length is missing";
const NO_FIELD: &str = "the record header is not valid: \"no field\" is not a field";
const TOO_LONG: &str = "the record header is not valid: it is longer than 65536 bytes";
const DESCRIPTION: &str = "the record header is not valid: the line of the ARC record: it describes the ARC file and is not a capture";

/// Name of a record, and the expected results of reading a file with the record, the record alone, and the record in
/// a gzip member.
const EXPECTED: &[(&str, &str, &str, &str)] = &[
    ("plain", "Response 34 at 0", "Response 34", "Response 34"),
    (
        "large, folded",
        "Response 70000 at 0",
        "Response 70000",
        "Response 70000",
    ),
    (
        "control character",
        "Response 0 (header) at 0",
        "Response 0 (header)",
        "Response 0 (header)",
    ),
    (
        "closed by LF LF",
        "Response 34 (closing) at 0",
        "Response 34 (closing)",
        "Response 34 (closing)",
    ),
    (
        "not closed",
        "Response 34 (closing) at 0",
        "Response 34 (closing)",
        "Response 34 (closing)",
    ),
    (
        "closed by CRLF",
        "Response 34 (closing) at 0",
        "Response 34 (closing)",
        "Response 34 (closing)",
    ),
    (
        "one line end more",
        "Response 34 (closing) at 0",
        "Response 34 (closing)",
        "Response 34 (closing)",
    ),
    ("bare LF", "Resource 2 at 0", "Resource 2", "Resource 2"),
    ("old version", "Resource 0 at 0", "Resource 0", "Resource 0"),
    (
        "CR CR LF",
        "Resource 0 (header) at 0",
        "Resource 0 (header)",
        "Resource 0 (header)",
    ),
    ("no length", NO_LENGTH, NO_LENGTH, "Resource 2 (no-length)"),
    ("two lengths", NOT_2, NOT_2, NOT_2),
    ("cut off after a wrong line", NO_FIELD, NO_FIELD, NO_FIELD),
    ("cut off", CUT_OFF, CUT_OFF, NOT_34),
    ("endless line", TOO_LONG, TOO_LONG, TOO_LONG),
    ("noise", "no WARC record begins here", CUT_OFF, CUT_OFF),
    (
        "empty",
        "the file is empty",
        "the file is empty",
        "the file is empty",
    ),
    (
        "ARC file",
        "Warcinfo 6 at 0, Warcinfo 6 at 60",
        DESCRIPTION,
        DESCRIPTION,
    ),
    (
        "ARC web page",
        "Warcinfo 6 at 0, Response 34 at 60",
        "Response 34",
        "Response 34",
    ),
    (
        "ARC not closed",
        "Warcinfo 6 at 0, Resource 9 at 60",
        "Response 9",
        "Response 9",
    ),
    (
        "ARC closed by CRLF",
        "Warcinfo 6 at 0, Response 1 at 60",
        "Response 1",
        "Response 1",
    ),
];
