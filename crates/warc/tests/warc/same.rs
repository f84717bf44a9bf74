//! The old reader and the new one read the same out of everything.

use std::io::{BufReader, Read, Write};

use crawlspace_warc::{Compression, Error, Problem};
use proptest::prelude::*;

use crate::before;

/// A record: its fields, its block (where its HTTP header ends is another matter), where it lies.
#[derive(Debug, PartialEq)]
struct Seen {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    kind: String,
    rest: Vec<u8>,
    place: (u64, u64, Compression),
}

/// What is wrong, in so far as both must say the same.
fn outline(error: &Error) -> (u64, String) {
    let word = match &error.problem {
        Problem::Gzip(_) => "gzip".to_owned(),
        Problem::Header(what) => what.clone(),
        other => format!("{other:?}"),
    };
    (error.offset, word)
}

macro_rules! read {
    ($reader:expr, $shared:expr, $http:expr) => {{
        let mut reader = $reader;
        if $shared {
            reader = reader.with_shared_members();
        }
        let mut seen = Vec::new();
        let outcome = loop {
            let mut record = match reader.next() {
                Ok(Some(record)) => record,
                Ok(None) => break Ok(()),
                Err(error) => break Err(outline(&error)),
            };
            let header = record.header();
            let mut one = Seen {
                fields: header
                    .fields()
                    // Of an ARC record, an address or type that is none is no field any more.
                    .filter(|(name, _)| {
                        !["WARC-IP-Address", "Content-Type"]
                            .iter()
                            .any(|other| other.as_bytes() == *name)
                    })
                    .map(|(name, value)| (name.to_vec(), value.to_vec()))
                    .collect(),
                kind: format!("{:?}", header.record_type()),
                rest: Vec::new(),
                place: (0, 0, Compression::None),
            };
            if $http {
                match record.http_head() {
                    Ok(head) => one.rest = head,
                    Err(error) => break Err(outline(&error)),
                }
                let _ = record.read_to_end(&mut one.rest);
            }
            match record.finish() {
                Ok(extent) => {
                    // How far a shared member was unpacked is nobody's business.
                    let size = if $shared { 0 } else { extent.size };
                    one.place = (extent.offset, size, extent.compression);
                }
                Err(error) => break Err(outline(&error)),
            }
            seen.push(one);
        };
        (seen, outcome)
    }};
}

/// Gives few bytes at once, as connections do.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = self.1.min(into.len());
        self.0.read(&mut into[..n])
    }
}

type Outcome = (Vec<Seen>, Result<(), (u64, String)>);

/// Whether both are the same, but for what changed on purpose (what begins as no record does is no record, whatever
/// comes then), and for whether damaged gzip is noticed before what came out of it is looked at.
fn alike(old: &Outcome, new: &Outcome) -> bool {
    if old == new {
        return true;
    }
    let (Err((at, old_word)), Err((also, new_word))) = (&old.1, &new.1) else {
        return false;
    };
    let is_gzip = old_word == "gzip" || new_word == "gzip";
    let is_no_record =
        new_word == "NotWarc" && (old_word == "Truncated" || old_word.contains("longer than"));
    // How much of what follows a record the old one saw was left to chance.
    let is_next = old_word == "NotRecordCompressed" && new_word.starts_with("ContentLength");
    let seen = old.0.iter().zip(&new.0).all(|(old, new)| old == new);
    at == also
        && seen
        && (is_gzip
            || is_next
            || is_no_record && old.0.len() == new.0.len()
            || old_word == new_word)
}

fn check(file: &[u8], step: usize) {
    for shared in [false, true] {
        for http in [false, true] {
            let slow = |step| BufReader::new(Slow(file, step));
            let old = read!(before::Reader::new("f", slow(1 << 20)), shared, http);
            let new = read!(crawlspace_warc::Reader::new("f", file), shared, http);
            let few = read!(
                crawlspace_warc::Reader::new("f", Slow(file, step)),
                shared,
                http
            );
            let shown = || {
                format!(
                    "{shared} {http} {:?}",
                    String::from_utf8_lossy(&file[..file.len().min(3000)])
                )
            };
            assert!(alike(&few, &new), "{:?} {:?} {}", few.1, new.1, shown());
            assert!(alike(&old, &new), "{:?} {:?} {}", old.1, new.1, shown());
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(9));
    member.write_all(bytes).unwrap();
    member.finish().unwrap()
}

fn warc_record(fields: &str, block: &[u8], end: &str) -> Vec<u8> {
    let head = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: <http://a.example/>\r\n{fields}Content-Length: {}\r\n\r\n",
        block.len()
    );
    [head.as_bytes(), block, end.as_bytes()].concat()
}

fn arc_record(line: &str, block: &[u8], end: &str) -> Vec<u8> {
    [
        format!("{line} {}\n", block.len()).as_bytes(),
        block,
        end.as_bytes(),
    ]
    .concat()
}

fn records() -> Vec<Vec<u8>> {
    const HTTP: &[u8] = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nhello\r\n\r\n";
    vec![
        warc_record("", HTTP, "\r\n\r\n"),
        warc_record("X: a\r\n  b\r\n", &[b'x'; 70_000], "\r\n\r\n"),
        warc_record("X-Control: \u{1}\r\n", b"", "\r\n\r\n"),
        warc_record("", HTTP, "\n\n"),
        warc_record("", HTTP, ""),
        warc_record("", &[b'\n'; 300], "\r\n\r\n\r\n"),
        b"WARC/1.1\nWARC-Type: resource\nContent-Length: 2\n\nhi\r\n\r\n".to_vec(),
        b"WARC/0.18\r\nWARC-Type: resource\r\nContent-Length: 0\r\n\r\n\r\n\r\n".to_vec(),
        b"WARC/1.0\r\r\nWARC-Type: resource\r\r\nContent-Length: 0\r\r\n\r\r\n\r\n\r\n".to_vec(),
        arc_record(
            "filedesc://a.arc 0.0.0.0 20130522091849 text/plain",
            b"1 0 X\n",
            "\n",
        ),
        arc_record(
            "http://a.example/ 10.0.0.1 20130522091850 text/html",
            HTTP,
            "\n",
        ),
        arc_record(
            "dns:a.example 10.0.0.2 20130522091851 text/dns",
            b"20130522\n",
            "",
        ),
        arc_record(
            "https://a.example/b c 10.0.0.1 20130522091852 text/plain 200 - - 47 a.arc",
            &[b'\n'; 70_000],
            "\r\n",
        ),
    ]
}

fn file() -> impl Strategy<Value = Vec<u8>> {
    let record = (0..records().len(), 0..3_u8);
    let is_arc = any::<bool>();
    (prop::collection::vec(record, 1..5), is_arc, any::<bool>()).prop_map(
        |(parts, is_arc, whole)| {
            let records = records();
            let mut file = Vec::new();
            if is_arc {
                file.extend_from_slice(&records[9]);
            }
            for (at, packing) in parts {
                // Mostly of the same kind.
                let at = if is_arc { 9 + at % 4 } else { at };
                match packing {
                    0 if !whole => file.extend_from_slice(&gzip(&records[at])),
                    _ => file.extend_from_slice(&records[at]),
                }
            }
            if whole { gzip(&file) } else { file }
        },
    )
}

fn change() -> impl Strategy<Value = (u8, prop::sample::Index, u8)> {
    (
        0..6_u8,
        any::<prop::sample::Index>(),
        prop_oneof![any::<u8>(), prop::sample::select(&b"\r\n\0: x0W"[..])],
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_readers_read_the_same(
        mut file in file(),
        changes in prop::collection::vec(change(), 0..4),
        near in any::<bool>(),
        step in prop_oneof![1usize..40, 5000usize..70_000],
    ) {
        for (what, at, byte) in changes {
            if file.is_empty() {
                break;
            }
            let at = at.index(if near { file.len().min(400) } else { file.len() });
            match what {
                0 => file[at] = byte,
                1 => file[at] ^= 1 << (byte % 8),
                2 => file.truncate(at),
                3 => file.insert(at, byte),
                4 => drop(file.drain(at..(at + 1 + byte as usize % 9).min(file.len()))),
                _ => file.extend_from_slice(&records()[at % 13]),
            }
        }
        check(&file, step);
    }

    #[test]
    fn of_noise_both_readers_say_the_same(
        file in prop::collection::vec(prop::sample::select(&b"WARC/1.0\r\n:ab \x1f\x8b\x08"[..]), 0..300),
        step in 1usize..40,
    ) {
        check(&file, step);
        check(&gzip(&file), step);
    }
}

#[test]
fn members_without_content_and_endless_lines_are_read_alike() {
    let endless = [b"WARC/1.0\r\nX: ".to_vec(), vec![b'x'; 200_000]].concat();
    let arc = [b"filedesc:".to_vec(), vec![b'x'; 200_000]].concat();
    let fields = format!("WARC/1.0\r\n{}\r\n", "a: b\r\n".repeat(10_900));
    let full = format!(
        "WARC/1.0\r\nWARC-Type: x\r\nContent-Length: 0\r\nX: {}\r\n\r\n\r\n\r\n",
        "x".repeat(65_536 - 52)
    );
    for plain in [
        &b""[..],
        b"\n",
        b"W",
        &endless,
        &arc,
        fields.as_bytes(),
        full.as_bytes(),
        &full.as_bytes()[1..],
        &[full.as_bytes(), b"x"].concat(),
    ] {
        check(plain, 4096);
        check(&gzip(plain), 4096);
        check(&[gzip(plain), gzip(&records()[0])].concat(), 4096);
        check(&gzip(&gzip(plain)), 4096);
    }
    for cut in 0..40 {
        let member = gzip(&records()[0]);
        check(&member[..member.len() - cut], 7);
        check(&member[..cut], 7);
        check(&[&member[..], b"\0\0\0"].concat(), 7);
    }
}
