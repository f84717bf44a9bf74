//! Tests reading of ARC files: every record is returned at its offset, with the header of the
//! equivalent WARC record. Any other result is an error that names its position.

use std::io::{BufRead, Read, Write};

use crawlspace_warc::{Compression, Deviations, Error, Extent, Problem, Reader, RecordType};
use proptest::prelude::*;

const VERSION: &str =
    "1 0 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n";
const WEB: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>";

fn record(line: &str, block: &[u8]) -> Vec<u8> {
    [format!("{line} {}\n", block.len()).as_bytes(), block, b"\n"].concat()
}

fn records() -> Vec<Vec<u8>> {
    vec![
        record(
            "filedesc://a.arc 0.0.0.0 20130522091849 text/plain",
            VERSION.as_bytes(),
        ),
        record("http://a.example/ 10.0.0.1 20130522091850 text/html", WEB),
        record(
            "dns:a.example 10.0.0.2 20130522091851 text/dns",
            b"20130522\n",
        ),
        record(
            "https://a.example/b c 10.0.0.1 20130522091852 text/plain 200 - - 4711 a.arc",
            &[b'\n'; 70_000],
        ),
        record(
            "metadata://a.example/x 10.0.0.3 20130522091853 text/plain",
            b"",
        ),
    ]
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(9));
    member.write_all(bytes).unwrap();
    member.finish().unwrap()
}

/// Writes all records as a file; if `packed`, each as a gzip member.
fn file_of_records(packed: bool) -> Vec<u8> {
    let mut records = records();
    if packed {
        records = records.iter().map(|record| gzip(record)).collect();
    }
    records.concat()
}

type Seen = (RecordType, String, Vec<u8>, Extent);

fn read<R: BufRead>(mut reader: Reader<R>) -> Result<Vec<Seen>, Error> {
    let mut seen = Vec::new();
    while let Some(mut record) = reader.next()? {
        let kind = record.header().record_type();
        let uri = record.header().target_uri().unwrap_or_default();
        let uri = String::from_utf8_lossy(uri).into_owned();
        let mut block = Vec::new();
        let outcome = record.read_to_end(&mut block);
        let extent = record.finish()?;
        outcome.expect("a record that is whole can be read");
        seen.push((kind, uri, block, extent));
    }
    Ok(seen)
}

fn all(file: &[u8]) -> Result<Vec<Seen>, Error> {
    read(Reader::new("a.arc", file))
}

#[test]
fn every_record_is_returned_with_header_and_position() {
    for compression in [Compression::None, Compression::PerRecord] {
        let parts: Vec<Vec<u8>> = match compression {
            Compression::None => records(),
            Compression::PerRecord => records().iter().map(|record| gzip(record)).collect(),
        };
        let seen = all(&parts.concat()).unwrap();
        let said: Vec<(RecordType, &str)> =
            seen.iter().map(|(kind, uri, ..)| (*kind, &**uri)).collect();
        let expected = [
            (RecordType::Warcinfo, "filedesc://a.arc"),
            (RecordType::Response, "http://a.example/"),
            (RecordType::Resource, "dns:a.example"),
            (RecordType::Response, "https://a.example/b%20c"),
            (RecordType::Resource, "metadata://a.example/x"),
        ];
        assert_eq!(said, expected);
        assert_eq!(seen[0].2, VERSION.as_bytes());
        assert_eq!(seen[1].2, WEB);
        let mut offset = 0;
        for ((.., extent), part) in seen.iter().zip(&parts) {
            let size = part.len() as u64;
            assert_eq!(
                *extent,
                Extent {
                    offset,
                    size,
                    closing: extent.closing,
                    compression,
                    deviations: Deviations::default(),
                }
            );
            offset += size;
        }
    }
}

#[test]
fn http_head_can_be_requested() {
    let file = records().concat();
    let mut reader = Reader::new("a.arc", &file[..]);
    reader.next().unwrap().unwrap();
    let mut record = reader.next().unwrap().unwrap();
    assert_eq!(
        record.header().get("WARC-IP-Address"),
        Some(&b"10.0.0.1"[..])
    );
    assert_eq!(record.header().date(), Some(&b"2013-05-22T09:18:50Z"[..]));
    assert!(record.http_head().unwrap().ends_with(b"\r\n\r\n"));
    let mut rest = Vec::new();
    record.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"<p>");
}

#[test]
fn wholly_compressed_file_is_read_if_allowed() {
    let file = gzip(&records().concat());
    let refused = all(&file).unwrap_err();
    assert!(matches!(refused.problem, Problem::NotRecordCompressed));
    let allowed = read(Reader::new("a.arc.gz", &file[..]).with_shared_members()).unwrap();
    let plain = all(&records().concat()).unwrap();
    assert_eq!(allowed.len(), plain.len());
    for (allowed, plain) in allowed.iter().zip(&plain) {
        assert_eq!((&allowed.1, &allowed.2), (&plain.1, &plain.2));
        assert_eq!(allowed.3.offset, 0, "that of the member");
    }
    let warc = "WARC/1.0\r\nWARC-Type: metadata\r\nContent-Length: 1\r\n\r\nx\r\n\r\n";
    let file = [gzip(warc.repeat(2).as_bytes()), gzip(warc.as_bytes())].concat();
    let seen = read(Reader::new("a.warc.gz", &file[..]).with_shared_members()).unwrap();
    let offsets: Vec<u64> = seen.iter().map(|(.., extent)| extent.offset).collect();
    assert_eq!(offsets[..2], [0, 0]);
    let expected = (file.len() - gzip(warc.as_bytes()).len()) as u64;
    assert_eq!(offsets[2], expected);
}

#[test]
fn wrong_length_is_an_error_at_the_record() {
    let at = records()[0].len() as u64;
    for length in [0, WEB.len() - 1, WEB.len() + 1, WEB.len() + 2] {
        let right = String::from_utf8(records()[1..3].concat()).unwrap();
        let line_end = format!(" {}\n", WEB.len());
        let wrong = right.replacen(&line_end, &format!(" {length}\n"), 1);
        let error = all(&[&records()[0][..], wrong.as_bytes()].concat()).unwrap_err();
        assert_eq!(error.offset, at);
        assert!(matches!(error.problem, Problem::ContentLength(said) if said == length as u64));
    }
}

#[test]
fn only_a_version_block_makes_an_arc_file() {
    let without = records()[1..].concat();
    assert!(matches!(
        all(&without).unwrap_err().problem,
        Problem::NotWarc
    ));
    assert!(matches!(
        all(&gzip(&without)).unwrap_err().problem,
        Problem::NotWarc
    ));
    let warc = b"WARC/1.0\r\nWARC-Type: metadata\r\nContent-Length: 1\r\n\r\nx\r\n\r\n";
    let mixed = [&warc[..], &records().concat()].concat();
    let error = all(&mixed).unwrap_err();
    assert_eq!(error.offset, warc.len() as u64);
    assert!(matches!(error.problem, Problem::NotWarc));
    let mixed = [&records().concat(), &warc[..]].concat();
    assert!(matches!(
        all(&mixed).unwrap_err().problem,
        Problem::Header(_)
    ));
}

#[test]
fn concatenated_files_are_one_file() {
    let two = [records().concat(), records().concat()].concat();
    assert_eq!(all(&two).unwrap().len(), 10);
}

/// Returns only a few bytes per read, as a connection may.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = self.1.min(into.len());
        self.0.read(&mut into[..n])
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn result_does_not_depend_on_read_sizes(step in 1usize..20, packed in any::<bool>()) {
        let file = file_of_records(packed);
        let slow = std::io::BufReader::new(Slow(&file, step));
        prop_assert_eq!(read(Reader::new("a.arc", slow)).unwrap(), all(&file).unwrap());
        let slow = std::io::BufReader::new(Slow(&file, step));
        prop_assert_eq!(
            read(Reader::new("a.arc", slow).with_shared_members()).unwrap(),
            all(&file).unwrap()
        );
    }

    #[test]
    fn truncated_file_yields_the_records_before_the_cut(at in any::<proptest::sample::Index>(), packed in any::<bool>()) {
        let file = file_of_records(packed);
        let at = at.index(file.len());
        let whole = all(&file).unwrap();
        match all(&file[..at]) {
            Ok(seen) => {
                // Between two records, or before the last line end, which some files lack.
                for (seen, whole) in seen.iter().zip(&whole) {
                    prop_assert_eq!((&seen.1, &seen.2), (&whole.1, &whole.2));
                }
                let end = |n: usize| whole.get(n).map_or(file.len() as u64, |(.., extent)| extent.offset);
                let last = seen.last().map_or(0, |(.., extent)| extent.offset + extent.size);
                prop_assert!(last == at as u64 && (end(seen.len()) - last) <= 1);
            }
            Err(error) => prop_assert!(error.offset <= at as u64),
        }
    }

    #[test]
    fn changed_bytes_cause_no_panic(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
        packed in any::<bool>(),
    ) {
        let mut file = file_of_records(packed);
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let mut reader = Reader::new("a.arc", &file[..]).with_shared_members();
        while let Ok(Some(record)) = reader.next() {
            if record.finish().is_err() {
                break;
            }
        }
    }
}
