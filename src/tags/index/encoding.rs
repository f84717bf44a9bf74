//! Serialization of the index for RDB files, append-only files and other servers.
//!
//! The index is saved as a sequence of chunks of about 1 MiB. Each chunk is self-contained. Loading
//! all chunks into an empty index, in any order, results in an equal index. A chunk contains:
//!
//! | bytes | |
//! |---|---|
//! | 1 | kind: 0 records, 1 files, 2 tags; plus 4 if it belongs to the staged copy |
//! | number | count of the tags that follow, all different: length and bytes of each |
//! | number | count of the sets of tags that follow. For each set: count of tags, number of the first tag (the first tag listed is 0), and for each further tag the number of tags skipped before it |
//! | number | for records only: count of the filenames that follow, all different: length and bytes of each |
//! | number | count of the ids that follow |
//!
//! An id of a file or tag is the number of its set (the first one is 0), followed by length and
//! bytes.
//!
//! An id of a record is the number of its set, followed by one of two forms. The short form must be
//! used if possible: the number of the filename plus 1, the timestamp as a number of 14 digits, the
//! offset, and length and bytes of the urlkey. The long form is 0, followed by length and bytes of
//! the id.
//!
//! Numbers are varints ([`crawlspace_compact::number`]). The enclosing chunk of the tag space contains the
//! version and the checksum.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use rustc_hash::FxHasher;

use super::edges::{Edges, Id};
use super::{Index, Tagged};
use crawlspace_compact::number::{put, put_bytes};

/// Approximate size of a chunk in bytes. A set of tags is never split, so a chunk may be up to 10
/// MiB larger.
pub const CHUNK_BYTES: usize = 1 << 20;

pub(super) const STAGED: u8 = 4;

/// Maps numbers in the index to numbers in the chunk.
type Local = HashMap<u32, u64, BuildHasherDefault<FxHasher>>;

/// A chunk under construction.
struct Encoder<'a> {
    index: &'a Index,
    edges: &'a Edges,
    head: u8,
    is_of_records: bool,
    tags: (Local, Vec<u8>),
    sets: (Local, Vec<u8>),
    files: (Local, Vec<u8>),
    ids: (u64, Vec<u8>),
}

impl<'a> Encoder<'a> {
    fn id(&mut self, id: &Id<'_>, set: u32) {
        let set = self.set(set);
        put(&mut self.ids.1, set);
        match id {
            Id::Whole(id) => {
                if self.is_of_records {
                    put(&mut self.ids.1, 0);
                }
                put_bytes(&mut self.ids.1, id);
            }
            Id::Parts(number, parts) => {
                let (files, bytes) = &mut self.files;
                let next = files.len() as u64;
                let file = *files.entry(*number).or_insert_with(|| {
                    put_bytes(bytes, parts.filename);
                    next
                });
                let out = &mut self.ids.1;
                put(out, file + 1);
                put(out, parts.timestamp);
                put(out, parts.offset);
                put_bytes(out, parts.urlkey);
            }
        }
        self.ids.0 += 1;
    }

    fn set(&mut self, set: u32) -> u64 {
        if let Some(number) = self.sets.0.get(&set) {
            return *number;
        }
        let number = self.sets.0.len() as u64;
        self.sets.0.insert(set, number);
        let mut tags: Vec<u64> = Vec::new();
        for tag in self.edges.set(set) {
            let (known, bytes) = &mut self.tags;
            let next = known.len() as u64;
            tags.push(*known.entry(tag.0).or_insert_with(|| {
                put_bytes(bytes, self.index.name(*tag));
                next
            }));
        }
        tags.sort_unstable();
        let out = &mut self.sets.1;
        put(out, tags.len() as u64);
        let mut next = 0;
        for tag in tags {
            put(out, tag - next);
            next = tag + 1;
        }
        number
    }

    fn len(&self) -> usize {
        self.tags.1.len() + self.sets.1.len() + self.files.1.len() + self.ids.1.len()
    }

    fn end(&mut self, each: &mut dyn FnMut(&[u8])) {
        let mut chunk = Vec::with_capacity(self.len() + 40);
        chunk.push(self.head);
        put(&mut chunk, self.tags.0.len() as u64);
        chunk.append(&mut self.tags.1);
        put(&mut chunk, self.sets.0.len() as u64);
        chunk.append(&mut self.sets.1);
        if self.is_of_records {
            put(&mut chunk, self.files.0.len() as u64);
            chunk.append(&mut self.files.1);
        }
        put(&mut chunk, self.ids.0);
        chunk.append(&mut self.ids.1);
        each(&chunk);
        self.tags.0.clear();
        self.sets.0.clear();
        self.files.0.clear();
        self.ids.0 = 0;
    }
}

impl Index {
    /// Serializes the index in chunks of about 1 MiB, in no particular order.
    pub fn save(&self, chunk: &mut dyn FnMut(&[u8])) {
        self.save_in(CHUNK_BYTES, chunk);
    }

    pub(super) fn save_in(&self, chunk_bytes: usize, chunk: &mut dyn FnMut(&[u8])) {
        for (kind, staged, edges) in self.all() {
            let mut encoder = Encoder {
                index: self,
                edges,
                head: kind as u8 + if staged { STAGED } else { 0 },
                is_of_records: kind == Tagged::Record,
                tags: Default::default(),
                sets: Default::default(),
                files: Default::default(),
                ids: Default::default(),
            };
            edges.each(&self.names, &mut |id, set| {
                encoder.id(&id, set);
                if encoder.len() >= chunk_bytes {
                    encoder.end(chunk);
                }
            });
            if encoder.ids.0 > 0 || (staged && edges.counts().ids == 0) {
                encoder.end(chunk);
            }
        }
    }
}
