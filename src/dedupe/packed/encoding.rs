//! A packed index as bytes, for RDB files, append-only files and other servers: a row of chunks, which
//! `docs/formats/packed-index.md` describes.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Cursor, Packed, Part};
use crate::keyspace::Batch;

/// How many bytes a chunk has at most, unless a single entry is longer.
pub(super) const CHUNK_BYTES: usize = 1 << 20;
/// Version of the chunks.
pub(super) const VERSION: u8 = 1;
/// Bytes before a chunk's body: version, kind, number.
pub(super) const HEAD: usize = 6;
/// Bytes after it: the checksum.
pub(super) const SEAL: usize = 8;

/// What a chunk is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// The first one: counts.
    Begin = 0,
    /// Entries of the merged index.
    Owners = 1,
    /// Entries of a crawl.
    Records = 2,
    /// Entries of `holders`.
    Holders = 3,
    /// The last one.
    End = 4,
}

impl Kind {
    pub(super) const ALL: [Kind; 5] = [
        Kind::Begin,
        Kind::Owners,
        Kind::Records,
        Kind::Holders,
        Kind::End,
    ];
}

/// The checksum of a chunk, which depends on all chunks before it.
pub(super) fn seal(bytes: &[u8], before: u64) -> u64 {
    xxh3_64_with_seed(bytes, before)
}

/// Gives chunks one after the other.
struct Writer<'a> {
    bytes: Vec<u8>,
    number: u32,
    seal: u64,
    give: &'a mut dyn FnMut(&[u8]),
}

impl Writer<'_> {
    fn begin(&mut self, kind: Kind) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&[VERSION, kind as u8]);
        self.bytes.extend_from_slice(&self.number.to_le_bytes());
    }

    fn end(&mut self) {
        self.seal = seal(&self.bytes, self.seal);
        self.bytes.extend_from_slice(&self.seal.to_le_bytes());
        (self.give)(&self.bytes);
        self.number += 1;
    }

    /// All entries of a part, in as many chunks as it takes.
    fn part(&mut self, packed: &Packed, kind: Kind, part: Part<'_>) {
        let head = |writer: &mut Self| {
            writer.begin(kind);
            if let Part::Records(crawl) = part {
                put_bytes(&mut writer.bytes, crawl);
            }
            writer.bytes.len()
        };
        let mut empty = head(self);
        let (mut cursor, mut batch) = (Cursor::default(), Batch::default());
        let mut more = true;
        while more {
            batch.clear();
            more = packed.scan(part, &mut cursor, &mut batch);
            for (field, value) in batch.iter() {
                let len = field.len() + value.len() + 20;
                if self.bytes.len() > empty && self.bytes.len() + len + SEAL > CHUNK_BYTES {
                    self.end();
                    empty = head(self);
                }
                put_bytes(&mut self.bytes, field);
                put_bytes(&mut self.bytes, value);
            }
        }
        if self.bytes.len() > empty {
            self.end();
        }
    }
}

impl Packed {
    /// Gives the value in chunks of at most a mebibyte, unless a single entry is longer, each with its
    /// own checksum.
    pub fn save(&self, chunk: &mut dyn FnMut(&[u8])) {
        let mut writer = Writer {
            bytes: Vec::with_capacity(CHUNK_BYTES),
            number: 0,
            seal: 0,
            give: chunk,
        };
        let mut crawls = self.crawls();
        crawls.sort_unstable();
        writer.begin(Kind::Begin);
        for count in [
            crawls.len() as u64,
            self.len(Part::Owners),
            self.all_records(),
            self.len(Part::Holders),
        ] {
            put(&mut writer.bytes, count);
        }
        writer.end();
        writer.part(self, Kind::Owners, Part::Owners);
        for crawl in &crawls {
            writer.part(self, Kind::Records, Part::Records(crawl));
        }
        writer.part(self, Kind::Holders, Part::Holders);
        writer.begin(Kind::End);
        writer.end();
    }

    /// Gives every entry as parts, each entry once, in any order: equal for equal contents however
    /// they came to be. For digests.
    pub fn elements(&self, element: &mut dyn FnMut(&[&[u8]])) {
        let mut each = |name: &[u8], crawl: &[u8], part: Part<'_>| {
            let (mut cursor, mut batch) = (Cursor::default(), Batch::default());
            let mut more = true;
            while more {
                batch.clear();
                more = self.scan(part, &mut cursor, &mut batch);
                for (field, value) in batch.iter() {
                    element(&[name, crawl, field, value]);
                }
            }
        };
        each(b"owners", b"", Part::Owners);
        for crawl in self.crawls() {
            each(b"records", &crawl, Part::Records(&crawl));
        }
        each(b"holders", b"", Part::Holders);
    }
}

/// A number in 7 bits a byte, lowest first, in as few bytes as possible.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Length and bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
