//! Tests the WARC reader: it returns exactly the records that were written, or an error with its
//! position. The files are built byte by byte, so that writer and reader cannot share a mistake.

use std::io::{Read, Write};

use crawlspace_warc::{
    Compression, Deviation, Deviations, Error, Extent, MAX_HEADER, Problem, Reader, RecordType,
    SLACK, Writer,
};
use proptest::prelude::*;

fn record(fields: &str, block: &[u8]) -> Vec<u8> {
    let mut bytes = format!("WARC/1.0\r\n{fields}\r\n").into_bytes();
    bytes.extend_from_slice(block);
    bytes.extend_from_slice(b"\r\n\r\n");
    bytes
}

fn response(uri: &str, block: &[u8]) -> Vec<u8> {
    let length = block.len();
    record(
        &format!("WARC-Type: response\r\nWARC-Target-URI: <{uri}>\r\nContent-Length: {length}\r\n"),
        block,
    )
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(9));
    member.write_all(bytes).unwrap();
    member.finish().unwrap()
}

/// Returns the extents of all records, or the first error.
fn extents(file: &[u8]) -> Result<Vec<Extent>, Error> {
    let mut reader = Reader::new("test.warc", file);
    let mut extents = Vec::new();
    while let Some(record) = reader.next()? {
        extents.push(record.finish()?);
    }
    Ok(extents)
}

fn error(file: &[u8]) -> Error {
    extents(file).expect_err("an error")
}

#[test]
fn header_lines_may_end_with_lf_only() {
    let file = b"WARC/1.0\nWARC-Type: resource\nContent-Length: 2\n\nhi\r\n\r\n";
    let mut reader = Reader::new("lf.warc", &file[..]);
    let record = reader.next().unwrap().unwrap();
    assert_eq!(record.header().record_type(), RecordType::Resource);
    assert_eq!(record.finish().unwrap().size, file.len() as u64);
    assert!(reader.next().unwrap().is_none());
    let record = b"WARC/1.0\nWARC-Type: resource\nContent-Length: 2\n\nhi\n\n";
    let extents = extents(&record.repeat(2)).unwrap();
    for (extent, offset) in extents.iter().zip([0, record.len() as u64]) {
        assert_eq!(extent.offset, offset);
        assert!(extent.deviations.iter().eq([Deviation::Closing]));
    }
}

#[test]
fn each_gzip_member_is_found_at_its_offset() {
    let members = [
        gzip(&response(
            "http://a.example/",
            b"HTTP/1.1 200 OK\r\n\r\none",
        )),
        gzip(&response("http://b.example/", &vec![7; 300_000])),
        gzip(&response("http://c.example/", b"")),
    ];
    let extents = extents(&members.concat()).unwrap();
    assert_eq!(extents.len(), 3);
    let mut offset = 0;
    for (extent, member) in extents.iter().zip(&members) {
        let size = member.len() as u64;
        let expected = Extent {
            offset,
            size,
            closing: 0,
            compression: Compression::PerRecord,
            deviations: Deviations::default(),
        };
        assert_eq!(*extent, expected);
        offset += size;
    }
}

#[test]
fn plain_and_compressed_records_may_be_mixed() {
    let first = response("http://a.example/", b"one");
    let second = gzip(&response("http://b.example/", b"two"));
    let found = extents(&[first.clone(), second].concat()).unwrap();
    assert_eq!(found[0].compression, Compression::None);
    assert_eq!(found[0].size, first.len() as u64);
    assert_eq!(found[1].offset, first.len() as u64);
    assert_eq!(found[1].compression, Compression::PerRecord);
}

#[test]
fn header_fields_are_parsed_as_in_the_standard() {
    let file = record(
        "warc-type:RESPONSE\r\nWARC-Target-URI:   http://a.example/b c \r\nX-Folded: one\r\n  two\r\n\
         WARC-Date: 2026-03-19T10:20:15Z\r\nX-Bytes: \u{fc}\r\nCONTENT-LENGTH: 3\r\n",
        b"abc",
    );
    let mut reader = Reader::new("test.warc", &file[..]);
    let mut record = reader.next().unwrap().unwrap();
    let header = record.header().clone();
    assert_eq!(header.record_type(), RecordType::Response);
    assert_eq!(header.target_uri(), Some(&b"http://a.example/b c"[..]));
    assert_eq!(header.get("x-folded"), Some(&b"one two"[..]));
    assert_eq!(header.get("x-bytes"), Some("\u{fc}".as_bytes()));
    assert_eq!(header.get("x-none"), None);
    assert_eq!(header.timestamp().unwrap(), b"20260319102015");
    let mut block = String::new();
    record.read_to_string(&mut block).unwrap();
    assert_eq!(block, "abc");
    record.finish().unwrap();
    assert!(reader.next().unwrap().is_none());
}

#[test]
fn http_head_ends_at_the_empty_line() {
    let file = response(
        "http://a.example/",
        b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody\r\n\r\nmore",
    );
    let mut reader = Reader::new("test.warc", &file[..]);
    let mut record = reader.next().unwrap().unwrap();
    let expected = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n";
    assert_eq!(record.http_head().unwrap(), expected);
    let mut rest = Vec::new();
    record.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"body\r\n\r\nmore");
}

#[test]
fn empty_file_is_an_error() {
    assert!(matches!(error(b"").problem, Problem::Empty));
}

#[test]
fn other_file_type_is_an_error() {
    for other in [
        "garbage",
        "GET / HTTP/1.1\r\n\r\n",
        "filedesk://x.arc 0.0.0.0 20260101000000 text/plain 9\n",
        "\0\0",
    ] {
        let error = error(other.as_bytes());
        assert!(matches!(error.problem, Problem::NotWarc), "{error}");
        assert_eq!(error.offset, 0);
    }
    for cut in [
        "W",
        "WARC/1.",
        "WARC/1.0\r\nWARC-Ty",
        "filedesc:",
        "filedesc://x.arc 0.0.0.0 20260101000000 text/plain 9\n",
    ] {
        assert!(
            matches!(error(cut.as_bytes()).problem, Problem::Truncated),
            "{cut}"
        );
    }
    assert!(matches!(
        error(&gzip(b"no WARC\n")).problem,
        Problem::NotWarc
    ));
    assert!(matches!(
        error(b"\x1f\x8b this is no gzip").problem,
        Problem::Gzip(_)
    ));
}

#[test]
fn garbage_after_good_records_is_an_error_with_its_offset() {
    let good = gzip(&response("http://a.example/", b"one"));
    let error = error(&[&good[..], b"garbage"].concat());
    assert!(matches!(error.problem, Problem::NotWarc), "{error}");
    assert_eq!(error.offset, good.len() as u64);
    assert_eq!(
        error.to_string(),
        format!(
            "test.warc: offset {}: no WARC record begins here",
            good.len()
        )
    );
}

#[test]
fn file_truncated_within_a_record_is_an_error() {
    let first = response("http://a.example/", b"HTTP/1.1 200 OK\r\n\r\none");
    let second = response("http://b.example/", b"HTTP/1.1 200 OK\r\n\r\ntwo");
    for wrap in [|bytes: &[u8]| bytes.to_vec(), gzip] {
        let (first, second) = (wrap(&first), wrap(&second));
        let file = [&first[..], &second[..]].concat();
        // A file may end without the line ends that terminate its last record.
        let least = if first.starts_with(b"WARC") { 4 } else { 0 };
        for cut in file.len() - least..file.len() {
            let extents = extents(&file[..cut]).unwrap();
            assert!(
                extents[1].deviations.iter().eq([Deviation::Closing]),
                "cut at {cut}"
            );
        }
        for cut in first.len() + 1..file.len() - least {
            let error = error(&file[..cut]);
            assert!(
                matches!(error.problem, Problem::Truncated),
                "cut at {cut}: {error}"
            );
            assert_eq!(error.offset, first.len() as u64, "cut at {cut}");
        }
    }
}

#[test]
fn content_length_that_is_wrong_by_many_bytes_is_an_error() {
    let with = |length: &str| {
        record(
            &format!("WARC-Type: response\r\nContent-Length: {length}\r\n"),
            b"HTTP/1.1 200 OK\r\n\r\nbody",
        )
    };
    let right = b"HTTP/1.1 200 OK\r\n\r\nbody".len();
    assert!(extents(&gzip(&with(&right.to_string()))).is_ok());
    let next = with(&right.to_string());
    for near in [right - SLACK, right - 1, right + 1, right + 4] {
        let record = with(&near.to_string());
        let packed = extents(&[gzip(&record), gzip(&next)].concat()).unwrap();
        let plain = extents(&[&record[..], &next].concat()).unwrap();
        assert_eq!(plain[1].offset, record.len() as u64, "{near}");
        assert_eq!((packed.len(), plain.len()), (2, 2), "{near}");
        for extents in [packed, plain] {
            assert!(
                !extents[0].deviations.is_empty() && extents[1].deviations.is_empty(),
                "{near}"
            );
        }
    }
    for wrong in [0, right - SLACK - 1, right + 5 + SLACK, usize::MAX] {
        let error = error(&gzip(&with(&wrong.to_string())));
        assert!(
            matches!(error.problem, Problem::ContentLength(_)),
            "{wrong}: {error}"
        );
    }
    // In an uncompressed file, reading continues into the next record.
    let error = error(&[&with("30")[..], &next].concat());
    assert!(
        matches!(error.problem, Problem::ContentLength(30)),
        "{error}"
    );
    assert_eq!(error.offset, 0);
}

#[test]
fn damage_in_a_gzip_member_is_an_error() {
    let member = gzip(&response("http://a.example/", &[b'x'; 4000]));
    for at in 0..member.len() {
        let mut damaged = member.clone();
        damaged[at] ^= 0x55;
        // Time stamp, extra flags and operating system of the gzip header have no effect.
        if (4..10).contains(&at) {
            continue;
        }
        assert!(extents(&damaged).is_err(), "damage at {at} was not noticed");
    }
}

#[test]
fn wholly_compressed_file_is_refused_with_advice() {
    let records = [
        response("http://a.example/", b"one"),
        response("http://b.example/", b"two"),
    ]
    .concat();
    let error = error(&gzip(&records));
    assert!(matches!(error.problem, Problem::NotRecordCompressed));
    assert!(error.to_string().contains("warcio recompress"));
}

#[test]
fn endless_header_takes_no_more_than_its_limit() {
    let mut endless = b"WARC/1.0\r\nWARC-Type: response\r\nX: ".to_vec();
    endless.resize(MAX_HEADER * 4, b'x');
    assert!(matches!(error(&endless).problem, Problem::Header(_)));
    // A decompression bomb: 16 MB in 16 kB.
    endless.resize(16 << 20, b'x');
    assert!(matches!(error(&gzip(&endless)).problem, Problem::Header(_)));
}

#[test]
fn invalid_header_is_an_error() {
    for fields in [
        "WARC-Type: response\r\n",
        "Content-Length: 0\r\n",
        "WARC-Type: response\r\nContent-Length: -1\r\n",
        "WARC-Type: response\r\nContent-Length: 18446744073709551616\r\n",
        "WARC-Type: response\r\nno colon\r\nContent-Length: 0\r\n",
        " continues nothing\r\nWARC-Type: response\r\nContent-Length: 0\r\n",
        ": no name\r\nWARC-Type: response\r\nContent-Length: 0\r\n",
    ] {
        let error = error(&record(fields, b""));
        assert!(
            matches!(error.problem, Problem::Header(_)),
            "{fields:?}: {error}"
        );
    }
    let error = error(b"WARC/0.16\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n\r\n\r\n");
    assert!(matches!(error.problem, Problem::Version { .. }), "{error}");
}

#[test]
fn writer_refuses_a_line_end_in_a_field() {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, Compression::None);
    let smuggled: [(&str, &[u8]); 1] = [("WARC-Target-URI", b"http://a.example/\r\nWARC-Type: x")];
    assert!(writer.write(&smuggled, b"").is_err());
}

fn field() -> impl Strategy<Value = (String, Vec<u8>)> {
    let byte = any::<u8>().prop_filter("no control character", |b| !b.is_ascii_control());
    let value = prop::collection::vec(byte, 0..60).prop_map(|v| v.trim_ascii().to_vec());
    ("X-[A-Za-z][A-Za-z0-9-]{0,20}", value)
}

proptest! {
    #[test]
    fn written_records_read_back(
        records in prop::collection::vec(
            (prop::collection::vec(field(), 0..6), prop::collection::vec(any::<u8>(), 0..3000), any::<bool>()),
            1..8,
        ),
        skip in any::<bool>(),
    ) {
        let mut file = Vec::new();
        let mut sizes = Vec::new();
        for (fields, block, gz) in &records {
            let mut all: Vec<(&str, &[u8])> = vec![("WARC-Type", b"resource")];
            all.extend(fields.iter().map(|(name, value)| (&name[..], &value[..])));
            let compression = if *gz { Compression::PerRecord } else { Compression::None };
            sizes.push((Writer::new(&mut file, compression).write(&all, block).unwrap(), compression));
        }
        let mut reader = Reader::new("p", &file[..]);
        let mut offset = 0;
        for ((fields, block, _), (size, compression)) in records.iter().zip(sizes) {
            let mut record = reader.next().unwrap().unwrap();
            prop_assert_eq!(record.offset(), offset);
            let read: Vec<(&[u8], &[u8])> = record.header().fields().skip(1).take(fields.len()).collect();
            let written: Vec<(&[u8], &[u8])> = fields.iter().map(|(n, v)| (n.as_bytes(), &v[..])).collect();
            prop_assert_eq!(read, written);
            if !skip {
                let mut got = Vec::new();
                record.read_to_end(&mut got).unwrap();
                prop_assert_eq!(&got, block);
            }
            let closing = if compression == Compression::None { 4 } else { 0 };
            prop_assert_eq!(record.finish().unwrap(), Extent { offset, size, closing, compression, deviations: Deviations::default() });
            offset += size;
        }
        prop_assert!(reader.next().unwrap().is_none());
    }

    #[test]
    fn no_input_causes_a_panic_or_an_early_end(mut bytes in prop::collection::vec(any::<u8>(), 0..400), at in 0..200usize) {
        prop_assert!(extents(&bytes).is_err());
        // Insert the random bytes into a valid file. The reader must then reach the end of the file or
        // return an error.
        let mut file = gzip(&response("http://a.example/", b"HTTP/1.1 200 OK\r\n\r\none"));
        let at = at.min(file.len());
        let tail = file.split_off(at);
        bytes.truncate(20);
        file.extend_from_slice(&bytes);
        file.extend_from_slice(&tail);
        if let Ok(found) = extents(&file) {
            prop_assert_eq!(found.iter().map(|e| e.size).sum::<u64>(), file.len() as u64);
        }
    }
}
