//! The tagging index: which tags records, files and tags carry.

#![allow(unused_variables, clippy::all, dead_code)]

mod error;

pub use error::Error;

/// What may have tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A capture: `urlkey timestamp filename offset`.
    Record,
    /// A WARC name.
    File,
    /// Another tag.
    Tag,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Record, Kind::File, Kind::Tag];

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Record => "RECORD",
            Kind::File => "FILE",
            Kind::Tag => "TAG",
        }
    }

    /// The kind of that name, whatever the case.
    pub fn parse(word: &[u8]) -> Option<Kind> {
        Kind::ALL
            .into_iter()
            .find(|kind| word.eq_ignore_ascii_case(kind.name().as_bytes()))
    }
}

/// How a load treats what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Edges are added, none removed.
    Merge,
    /// Each id given has exactly these tags afterwards; other ids stay as they are.
    Set,
    /// All of the kind is exactly this afterwards.
    Replace,
    /// Edges are added to the staged copy, which begins empty.
    Stage,
}

impl Mode {
    /// The mode of that name, whatever the case.
    pub fn parse(word: &[u8]) -> Option<Mode> {
        let names = [
            ("MERGE", Mode::Merge),
            ("SET", Mode::Set),
            ("REPLACE", Mode::Replace),
            ("STAGE", Mode::Stage),
        ];
        let found = names
            .iter()
            .find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, mode)| *mode)
    }
}

/// The number of a tag in an index, valid until the index is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TagId(pub(crate) u32);

/// Longest tag, in bytes.
pub const TAG_BYTES: usize = 1024;
/// Longest id of a record or file, in bytes.
pub const ID_BYTES: usize = 16384;
/// Most tags that one id may have of its own.
pub const MOST_TAGS: usize = 10_000;

/// Which tags' closures a change may have changed. Numbers that mean another name now are among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// None.
    Nothing,
    /// These, at most [`Touched::MOST`].
    Tags(Vec<TagId>),
    /// Any.
    All,
}

impl Touched {
    /// How many tags are told one by one.
    pub const MOST: usize = 4096;
}

/// How much there is of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ids with at least one tag.
    pub ids: u64,
    /// Pairs of an id and a tag.
    pub edges: u64,
}

/// What a change has thrown away. Freeing it may take long, and may be done on any thread.
pub struct Dropped(Option<Box<dyn std::any::Any + Send + Sync>>);

impl Dropped {
    /// Pieces of memory that are freed with it, roughly.
    pub fn effort(&self) -> usize {
        todo!()
    }
}

/// Edges from records, files and tags to tags, and a staged copy of each kind.
#[derive(Clone, Default, Debug)]
pub struct Index {}

impl PartialEq for Index {
    fn eq(&self, other: &Index) -> bool {
        todo!()
    }
}

impl Index {
    /// Adds edges; how many were not there before.
    pub fn add(&mut self, kind: Kind, id: &[u8], tags: &[&[u8]]) -> Result<(u64, Touched), Error> {
        todo!()
    }
    /// Removes edges; how many were there.
    pub fn remove(&mut self, kind: Kind, id: &[u8], tags: &[&[u8]]) -> (u64, Touched) {
        todo!()
    }
    /// Adds edges of many ids, each with its tags separated by spaces.
    pub fn load(
        &mut self,
        kind: Kind,
        mode: Mode,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<(Touched, Dropped), Error> {
        todo!()
    }
    /// Puts the staged copy in place; how many ids it holds. Any closure may differ if `kind` is TAG.
    pub fn swap(&mut self, kind: Kind, expect: Option<u64>) -> Result<(u64, Dropped), Error> {
        todo!()
    }
    /// Throws the staged copy away; how many ids it held.
    pub fn discard(&mut self, kind: Kind) -> (u64, Dropped) {
        todo!()
    }
    /// Whether there is nothing in it, not even an empty staged copy.
    pub fn is_empty(&self) -> bool {
        todo!()
    }
    /// How much there is of a kind.
    pub fn counts(&self, kind: Kind) -> Counts {
        todo!()
    }
    /// How much is staged of a kind; `None` if there is no staged copy.
    pub fn staged(&self, kind: Kind) -> Option<Counts> {
        todo!()
    }
    /// How many tags occur in edges in place. After a large copy was swapped or thrown away it takes some changes
    /// until the number is exact again.
    pub fn tag_count(&self) -> u64 {
        todo!()
    }
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        todo!()
    }
    /// Pieces of memory that are freed with it, roughly.
    pub fn free_effort(&self) -> usize {
        todo!()
    }
    /// The number of a tag.
    pub fn tag(&self, name: &[u8]) -> Option<TagId> {
        todo!()
    }
    /// The name of a tag.
    pub fn name(&self, tag: TagId) -> &[u8] {
        todo!()
    }
    /// The tags that a tag carries itself, in order of their numbers.
    pub fn carried(&self, tag: TagId) -> &[TagId] {
        todo!()
    }
    /// The tags that an id has itself, in order of their numbers.
    pub fn tags_of(&self, kind: Kind, id: &[u8]) -> &[TagId] {
        todo!()
    }
    /// Appends these tags and all that they carry, directly or not, each once. `into` is empty before.
    pub fn closure(&self, from: &[TagId], into: &mut Vec<TagId>) {
        todo!()
    }
    /// Walks over the ids of a kind, about `count` of them from `cursor` on; where to go on, 0 at the end.
    /// What is there all the time is given at least once.
    pub fn scan(
        &self,
        kind: Kind,
        cursor: u64,
        count: usize,
        each: &mut dyn FnMut(&[u8], &[TagId]),
    ) -> u64 {
        todo!()
    }
    /// Walks over the tags that occur in edges in place, as [`Index::scan`].
    pub fn tags(&self, cursor: u64, count: usize, each: &mut dyn FnMut(TagId, &[u8])) -> u64 {
        todo!()
    }
    /// Gives everything in chunks of about a mebibyte, in no particular order.
    pub fn save(&self, chunk: &mut dyn FnMut(&[u8])) {
        todo!()
    }
    /// Adds what a chunk holds. Nothing changes on an error, which says what is wrong.
    pub fn load_chunk(&mut self, chunk: &[u8]) -> Result<(), String> {
        todo!()
    }
    /// Gives one list of parts for each edge, for a digest that does not depend on their order: equal
    /// contents give the same lists.
    pub fn elements(&self, each: &mut dyn FnMut(&[&[u8]])) {
        todo!()
    }
}
