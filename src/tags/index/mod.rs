//! The tagging index: the tags of records, files and tags.
//!
//! A space may have 10⁷ records and 10⁶ tags, and may change while another thread reads it.
//! Therefore, the index consists of small pieces that clones share (`pages`). A clone is a
//! snapshot: it takes constant time to create, and another thread may read it. A change copies the
//! few pieces that it modifies if a snapshot shares them. Ids are stored contiguously (`table`,
//! `record`). Data that many ids share (filenames and sets of tags) is stored once (`dictionary`).

mod carriers;
mod change;
mod contents;
mod cycle;
mod decoding;
mod dictionary;
mod edges;
mod encoding;
mod error;
mod names;
mod pages;
mod record;
mod table;
#[cfg(test)]
mod tests;

pub use crawlspace_compact::limits::tags::{ID_BYTES, MAX_TAGS, TAG_BYTES};
use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use rustc_hash::FxHasher;

use crawlspace_host::defrag::Mover;
use crawlspace_host::slices::Time;
use edges::Edges;
use names::Names;

pub use error::Error;
pub use record::{padding, plain};

/// The kinds of ids that may have tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tagged {
    /// A capture: `urlkey timestamp filename offset`.
    Record,
    /// A WARC file, identified by its name.
    File,
    /// Another tag.
    Tag,
}

impl Tagged {
    /// All kinds.
    pub const ALL: [Tagged; 3] = [Tagged::Record, Tagged::File, Tagged::Tag];

    /// Returns the name of the kind in commands.
    pub fn name(self) -> &'static str {
        match self {
            Tagged::Record => "RECORD",
            Tagged::File => "FILE",
            Tagged::Tag => "TAG",
        }
    }
}

/// The modes of a load, which differ in how they treat existing edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Adds edges and removes none.
    Merge,
    /// Sets the tags of each given id to exactly the given tags. Other ids remain unchanged.
    Set,
    /// Replaces all edges of the kind.
    Replace,
    /// Adds edges to the staged copy, which is initially empty.
    Stage,
}

/// The number of a tag in an index, valid until the index is changed.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TagId(pub(crate) u32);

/// The tags whose closure may have changed in a change of the index. Includes numbers that now
/// belong to a different name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// No closure changed.
    Nothing,
    /// Only the closures of these tags changed. The list has at most [`Touched::MAX`] tags.
    Tags(Vec<TagId>),
    /// The closure of any tag may have changed.
    All,
}

impl Touched {
    /// Maximum number of tags listed individually.
    pub const MAX: usize = 4096;
}

/// The size of the edges of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of ids with at least one tag.
    pub ids: u64,
    /// Number of pairs of an id and a tag.
    pub edges: u64,
}

/// Contents that a change has discarded. Freeing them may take a long time, so any thread may do
/// it.
#[derive(Default)]
pub struct Dropped(Option<Box<Edges>>);

impl Dropped {
    /// Returns the approximate number of memory blocks to be freed.
    pub fn effort(&self) -> usize {
        self.0.as_ref().map_or(0, |edges| edges.pieces())
    }
}

/// The edges from records, files and tags to tags, and an optional staged copy of each kind.
#[derive(Clone)]
pub struct Index {
    names: Names,
    in_place: [Edges; 3],
    staged: [Option<Edges>; 3],
}

impl Default for Index {
    fn default() -> Self {
        Index {
            names: Names::default(),
            in_place: Tagged::ALL.map(Edges::new),
            staged: [None, None, None],
        }
    }
}

impl Index {
    /// Returns true if the index has no edges and no staged copy, not even an empty staged copy.
    pub fn is_empty(&self) -> bool {
        self.in_place.iter().all(|edges| edges.counts().ids == 0)
            && self.staged.iter().all(Option::is_none)
    }

    /// Returns the size of the edges of a kind.
    pub fn counts(&self, kind: Tagged) -> Counts {
        self.of(kind).counts()
    }

    /// Returns the size of the staged copy of a kind, or `None` if there is no staged copy.
    pub fn staged(&self, kind: Tagged) -> Option<Counts> {
        self.staged[kind as usize].as_ref().map(Edges::counts)
    }

    /// Returns the number of tags that occur in edges of active copies. After a large copy was
    /// swapped or discarded, the number becomes exact only after some more changes.
    pub fn tag_count(&self) -> u64 {
        self.names.tags.in_place()
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        let copies = self.copies().map(Edges::memory);
        size_of::<Index>() + self.names.memory() + copies.sum::<usize>()
    }

    /// Returns the approximate number of memory blocks that are freed with the index.
    pub fn free_effort(&self) -> usize {
        self.names.pieces() + self.copies().map(Edges::pieces).sum::<usize>()
    }

    /// Returns the number of a tag.
    pub fn tag(&self, name: &[u8]) -> Option<TagId> {
        self.names.tag(name)
    }

    /// Returns the name of a tag.
    pub fn name(&self, tag: TagId) -> &[u8] {
        self.names.get(tag)
    }

    /// Returns the tags that a tag carries directly, in ascending order of their numbers.
    pub fn carried(&self, tag: TagId) -> &[TagId] {
        self.of(Tagged::Tag).carried(tag)
    }

    /// Returns the direct tags of an id, in ascending order of their numbers.
    pub fn tags_of(&self, kind: Tagged, id: &[u8]) -> &[TagId] {
        let edges = self.of(kind);
        edges.set(edges.set_of(&self.names, id))
    }

    /// Appends these tags and all tags that they carry, directly or indirectly, to `into`, without
    /// duplicates. `into` must be empty.
    pub fn closure(&self, from: &[TagId], into: &mut Vec<TagId>) {
        // Up to this number of tags, a linear search is faster.
        const FEW: usize = 24;
        let mut seen: HashSet<TagId, BuildHasherDefault<FxHasher>> = HashSet::default();
        let mut add = |into: &mut Vec<TagId>, tags: &[TagId]| {
            for &tag in tags {
                if into.len() < FEW {
                    if !into.contains(&tag) {
                        into.push(tag);
                    }
                    continue;
                }
                if seen.is_empty() {
                    seen.extend(into.iter().copied());
                }
                if seen.insert(tag) {
                    into.push(tag);
                }
            }
        };
        add(into, from);
        let tags = self.of(Tagged::Tag);
        let mut at = 0;
        while let Some(&tag) = into.get(at) {
            add(into, tags.carried(tag));
            at += 1;
        }
    }

    /// Moves memory of ids to reduce fragmentation, starting at a cursor, while `time` returns
    /// true. Returns the next cursor; 0 at the end. Does not move names and sets of tags, because
    /// they are few.
    pub fn defrag(&mut self, cursor: u64, mover: &mut Mover<'_>, time: Time<'_>) -> u64 {
        let (first, mut shard) = ((cursor >> 32) as usize, cursor as u32 as usize);
        let copies = self.in_place.iter_mut().map(Some);
        let copies = copies.chain(self.staged.iter_mut().map(Option::as_mut));
        for (n, edges) in copies.enumerate().skip(first) {
            if let Some(edges) = edges {
                while shard < edges.table().shards() {
                    edges.table_mut().defrag(shard, mover);
                    shard += 1;
                    if !time() {
                        return (n as u64) << 32 | shard as u64;
                    }
                }
            }
            shard = 0;
        }
        0
    }

    fn of(&self, kind: Tagged) -> &Edges {
        &self.in_place[kind as usize]
    }

    fn copies(&self) -> impl Iterator<Item = &Edges> {
        self.in_place.iter().chain(self.staged.iter().flatten())
    }
}
