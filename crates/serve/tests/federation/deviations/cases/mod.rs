//! Records as real tools write them and as accidents damage them, in files of every kind.

pub mod arc;
mod bodies;
mod digests;
mod headers;
mod http;
mod lengths;
pub mod records;

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use crawlspace_wacz as wacz;
use crawlspace_wacz::Writer;
use flate2::{Compression, GzBuilder};

pub use self::records::{Case, both, cases};
use crate::shelf::{Shelf, Slot};

pub const TIME: &str = "20160102030405";

/// A record between others.
pub const INFO: &[u8] = b"WARC/1.0\r\nWARC-Type: warcinfo\r\nWARC-Record-ID: <urn:uuid:info>\r\nWARC-Date: 2016-01-02T03:04:05Z\r\n\
    Content-Type: application/warc-fields\r\nContent-Length: 16\r\n\r\nsoftware: test\r\n\r\n\r\n";

/// Compresses bytes into a gzip member, either as wget does, with sizes in an extra field, or as other tools do.
pub fn member(bytes: &[u8], number: usize) -> Vec<u8> {
    let builder = match number % 3 {
        0 => GzBuilder::new().extra(b"sl\x08\0\x10\0\0\0\x20\0\0\0".to_vec()),
        1 => GzBuilder::new().filename("a.warc").mtime(1_451_703_845),
        _ => GzBuilder::new(),
    };
    let mut member = builder.write(Vec::new(), Compression::fast());
    member.write_all(bytes).unwrap();
    member.finish().unwrap()
}

/// Writes all records and their index lines: WARC records to one file, and ARC records to another one. If
/// `is_packed`, each record becomes a gzip member.
pub fn store(shelf: &mut Shelf, cases: &[Case], name: &str, is_packed: bool, has_length: bool) {
    for (ending, is_arc) in [("warc", false), ("arc", true)] {
        let file = format!("{name}.{ending}{}", if is_packed { ".gz" } else { "" });
        let put = |into: &mut Vec<u8>, bytes: &[u8], number: usize| {
            if is_packed {
                into.extend(member(bytes, number));
            } else {
                into.extend_from_slice(bytes);
            }
        };
        let mut bytes = Vec::new();
        if is_arc {
            put(&mut bytes, arc::DESCRIPTION.as_bytes(), 0);
        }
        let of_file = cases.iter().filter(|case| case.arc.is_some() == is_arc);
        for (number, case) in of_file.enumerate() {
            if !is_arc && number % 10 == 0 {
                put(&mut bytes, INFO, number);
            }
            let offset = bytes.len() as u64;
            put(&mut bytes, &case.bytes(), number);
            let length = if has_length {
                bytes.len() as u64 - offset
            } else {
                0
            };
            let slot = Slot {
                file: file.clone(),
                offset,
                length,
            };
            let digest = case
                .stated()
                .map(|digest| format!(", \"digest\": \"{digest}\""));
            shelf.line(&case.url(), TIME, &slot, &digest.unwrap_or_default());
        }
        std::fs::write(shelf.path().join("warcs").join(file), bytes).unwrap();
    }
}

/// Creates a package of a container's WARC file.
pub fn pack(shelf: &Shelf, index: &str, file: &str) -> PathBuf {
    let lines = std::fs::read_to_string(index).unwrap();
    let lines = lines
        .lines()
        .filter(|line| line.contains(&format!("\"{file}\"")));
    let path = shelf.path().join(format!("{file}.wacz"));
    let mut package = Writer::create(&path, "2016-01-02T03:04:05Z").unwrap();
    let warc = File::open(shelf.path().join("warcs").join(file)).unwrap();
    package.warc(file, warc).unwrap();
    package.index(wacz::Index::Plain, lines).unwrap();
    package.finish().unwrap();
    path
}
