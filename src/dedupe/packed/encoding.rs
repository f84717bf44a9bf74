//! Serialization of a packed index for RDB files, append-only files and other servers. The result
//! is a series of chunks, which `docs/formats/packed-index.md` describes.
//!
//! Records are encoded as in memory, so saving them is mostly copying.

use super::codec::Base;
use super::crawls::{HOLDERS, OWNERS};
use super::field::{self, Text};
use super::record::Record;
use super::store::holders;
use super::{Packed, Value};
use crawlspace_compact::envelope::{self, Envelope};
use crawlspace_compact::number::{put, put_bytes};

/// Maximum size of a chunk in bytes, unless a single entry is longer.
pub(super) const CHUNK_BYTES: usize = 1 << 20;
/// The envelope of chunks. The checksum of a chunk depends on the checksums of all chunks before
/// it.
pub const ENVELOPE: Envelope = Envelope {
    what: "a packed index",
    version: 2,
};
/// Size in bytes of the header of a chunk: the envelope, and the number of the chunk.
pub(super) const HEAD: usize = envelope::HEAD + 4;
/// Size in bytes of the header of a section: kind and length.
pub(super) const SECTION: usize = 5;
/// Size in bytes of the header of a block: base and length.
pub(super) const BLOCK: usize = 10;

/// The kind of a section, in the order of sections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum PartKind {
    #[default]
    Counts = 0,
    Crawls = 1,
    Tables = 2,
    Hosts = 3,
    Records = 4,
    End = 5,
}

impl PartKind {
    pub(super) const ALL: [PartKind; 6] = [
        PartKind::Counts,
        PartKind::Crawls,
        PartKind::Tables,
        PartKind::Hosts,
        PartKind::Records,
        PartKind::End,
    ];
}

/// Numbers of entries by kind, in the order in which they are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub crawls: u64,
    pub tables: u64,
    pub hosts: u64,
    /// Number of records of crawls, and the number of those whose crawl owns the hash.
    pub records: u64,
    pub owned: u64,
    /// Number of owners without a record.
    pub owners: u64,
    pub holders: u64,
}

impl Counts {
    pub(super) fn all(&mut self) -> [&mut u64; 7] {
        [
            &mut self.crawls,
            &mut self.tables,
            &mut self.hosts,
            &mut self.records,
            &mut self.owned,
            &mut self.owners,
            &mut self.holders,
        ]
    }
}

/// Writes chunks one after the other.
pub(super) struct Writer<'a> {
    bytes: Vec<u8>,
    number: u32,
    seal: u64,
    /// The open section: its position and its kind.
    section: Option<(usize, PartKind)>,
    /// Maximum size of a chunk, in bytes.
    limit: usize,
    give: &'a mut dyn FnMut(&[u8]),
}

impl<'a> Writer<'a> {
    pub(super) fn new(limit: usize, give: &'a mut dyn FnMut(&[u8])) -> Writer<'a> {
        let mut writer = Writer {
            bytes: Vec::new(),
            number: 0,
            seal: 0,
            section: None,
            limit,
            give,
        };
        writer.begin();
        writer
    }

    fn begin(&mut self) {
        ENVELOPE.begin(&mut self.bytes);
        self.bytes.extend_from_slice(&self.number.to_le_bytes());
    }

    /// Completes the chunk, and begins the next one.
    fn next(&mut self) {
        self.close();
        self.seal = ENVELOPE.seal(&mut self.bytes, self.seal);
        (self.give)(&self.bytes);
        self.number += 1;
        self.begin();
    }

    fn close(&mut self) {
        if let Some((at, _)) = self.section.take() {
            let content = (self.bytes.len() - at - SECTION) as u32;
            self.bytes[at + 1..at + SECTION].copy_from_slice(&content.to_le_bytes());
        }
    }

    /// Begins a section. The header of the section is written to the same chunk as the bytes
    /// requested by the next call of [`Writer::room`].
    pub(super) fn open(&mut self, kind: PartKind, head: &[u8]) {
        self.close();
        self.section = Some((self.bytes.len(), kind));
        self.bytes.extend_from_slice(&[kind as u8, 0, 0, 0, 0]);
        self.bytes.extend_from_slice(head);
    }

    /// Returns the buffer, with room for `bytes` more bytes of the open section. If the chunk is
    /// full, begins the next chunk first, and continues the section in that chunk, where it starts
    /// with `head` again.
    pub(super) fn room(&mut self, head: &[u8], bytes: usize) -> &mut Vec<u8> {
        if let Some((at, kind)) = self.section
            && self.bytes.len() + bytes > self.limit
            && self.bytes.len() > HEAD
        {
            if self.bytes.len() == at + SECTION + head.len() {
                // The section is still empty.
                self.bytes.truncate(at);
                self.section = None;
            }
            if self.bytes.len() > HEAD {
                self.next();
            }
            self.open(kind, head);
        }
        &mut self.bytes
    }

    pub(super) fn end(mut self) {
        self.close();
        if self.bytes.len() + SECTION > self.limit {
            self.next();
        }
        self.open(PartKind::End, &[]);
        self.next();
    }
}

impl Packed {
    /// Returns the numbers of all entries.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts {
            owners: self.crawls.owners.records,
            holders: self.crawls.holders.records,
            tables: self.codec.tables().count() as u64,
            hosts: self.codec.hosts().count() as u64,
            ..Counts::default()
        };
        for (_, crawl) in self.crawls.iter() {
            counts.crawls += 1;
            counts.records += crawl.list.records;
            counts.owned += crawl.owned;
        }
        counts
    }

    /// Saves the value as chunks of at most 1 MiB, each with its own checksum. Only a chunk that
    /// contains a single long entry may be larger.
    pub fn save(&self, chunk: &mut dyn FnMut(&[u8])) {
        self.save_in(CHUNK_BYTES, chunk);
    }

    pub(super) fn save_in(&self, limit: usize, chunk: &mut dyn FnMut(&[u8])) {
        let mut writer = Writer::new(limit, chunk);
        writer.open(PartKind::Counts, &[]);
        for count in self.counts().all() {
            put(writer.room(&[], 10), *count);
        }
        // Crawls get consecutive numbers when they are saved.
        let crawls: Vec<u32> = self.crawls.iter().map(|(number, _)| number).collect();
        for (n, (_, crawl)) in self.crawls.iter().enumerate() {
            if n == 0 {
                writer.open(PartKind::Crawls, &[]);
            }
            put_bytes(writer.room(&[], crawl.id.len() + 5), &crawl.id);
        }
        for (n, (number, table)) in self.codec.tables().enumerate() {
            if n == 0 {
                writer.open(PartKind::Tables, &[]);
            }
            let out = writer.room(&[], table.len() + 8);
            put(out, number.into());
            put_bytes(out, table);
        }
        let mut before = 0;
        for (number, host) in self.codec.hosts() {
            if before == 0 {
                writer.open(PartKind::Hosts, &[]);
            }
            let out = writer.room(&[], host.len() + 10);
            put(out, u64::from(number - before));
            put_bytes(out, host);
            before = number;
        }
        let lists = crawls.iter().copied().chain([OWNERS, HOLDERS]);
        for (n, list) in lists.enumerate() {
            self.save_list(n as u64, list, &crawls, &mut writer);
        }
        writer.end();
    }

    fn save_list(&self, saved: u64, list: u32, crawls: &[u32], writer: &mut Writer<'_>) {
        let mut head = Vec::new();
        put(&mut head, saved);
        let mut block = Vec::new();
        for (n, number) in self.chunks_of(list).enumerate() {
            if n == 0 {
                writer.open(PartKind::Records, &head);
            }
            block.clear();
            for record in self.records_of(number) {
                block.extend_from_slice(record);
                if list == OWNERS {
                    let at = block.len() - OWNER_BYTES;
                    // `crawls` is sorted.
                    let saved = crawls.binary_search(&number_at(&block[at..]));
                    let saved = saved.expect("an owner is a crawl") as u32;
                    block[at..].copy_from_slice(&saved.to_le_bytes());
                }
            }
            let out = writer.room(&head, BLOCK + block.len());
            put_base(out, self.base_of(number));
            out.extend_from_slice(&(block.len() as u32).to_le_bytes());
            out.extend_from_slice(&block);
        }
    }

    /// Passes every entry to `element` once, in any order. Equal contents yield equal entries,
    /// regardless of the changes that led to them. `DEBUG DIGEST` uses these entries.
    pub fn elements(&self, element: &mut dyn FnMut(&[&[u8]])) {
        let mut joined = Vec::new();
        self.entries(&mut |parts| {
            // Pass each entry in one piece, because each piece costs time in the server's digest.
            joined.clear();
            parts.iter().for_each(|part| put_bytes(&mut joined, part));
            element(&[&joined]);
        });
    }

    /// Passes every entry to `element` in parts: the part of the index, the field, and the value.
    pub(super) fn entries(&self, element: &mut dyn FnMut(&[&[u8]])) {
        let mut text = Text::new();
        let mut value = Value::new();
        let crawls = self.crawls.iter().map(|(number, _)| number);
        for list in crawls.chain([OWNERS, HOLDERS]) {
            for number in self.chunks_of(list) {
                let base = self.base_of(number);
                for record in self.records_of(number).map(Record::at) {
                    text.clear();
                    field::write(record.kind(), record.raw, &mut text);
                    if record.is_owner() {
                        let owner = match list {
                            OWNERS => number_at(&record.rest[..OWNER_BYTES]),
                            crawl => crawl,
                        };
                        element(&[b"owners", &text, &self.crawls.get(owner).id]);
                    }
                    value.clear();
                    match list {
                        OWNERS => {}
                        HOLDERS => {
                            element(&[b"holders", &text, holders(record.rest)]);
                        }
                        crawl => {
                            self.codec.decode(base, record.rest, &mut value);
                            let crawl = &self.crawls.get(crawl).id;
                            element(&[b"records", crawl, &text, &value]);
                        }
                    }
                }
            }
        }
    }
}

/// Size of an owner's number, in bytes.
pub(super) const OWNER_BYTES: usize = 4;

/// Appends the base of a block.
pub(super) fn put_base(out: &mut Vec<u8>, base: Base) {
    out.extend_from_slice(&base.date.to_le_bytes());
    out.extend_from_slice(&base.table.to_le_bytes());
}

/// Reads a little-endian number.
pub(super) fn number_at(bytes: &[u8]) -> u32 {
    let mut number = [0; 4];
    let len = bytes.len().min(4);
    number[..len].copy_from_slice(&bytes[..len]);
    u32::from_le_bytes(number)
}
