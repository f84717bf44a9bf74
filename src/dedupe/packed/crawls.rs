//! The crawls of a packed index with their numbers, and the lists of entries that do not belong to
//! any crawl.

use super::segments::Segment;
use crawlspace_compact::blocks::{Blocks, Link, NONE, Slab};
use crawlspace_compact::interner::{Handles, Interner};
use crawlspace_compact::keyed::hash;

/// Number of the list of owners that have no record of the hash.
pub(super) const OWNERS: u32 = NONE - 1;
/// Number of the list of further holders.
pub(super) const HOLDERS: u32 = NONE - 2;
/// Maximum number of crawls.
const CRAWLS: u32 = 1 << 30;

/// The records of a crawl, or another list of records.
#[derive(Clone, Default)]
pub(super) struct List {
    pub segment: Segment,
    /// Number of records.
    pub records: u64,
}

/// A crawl, or any other id that owns hashes.
#[derive(Clone, Default)]
pub(super) struct Crawl {
    pub id: Box<[u8]>,
    pub list: List,
    /// Number of the crawl's records whose hash it owns.
    pub owned: u64,
    /// Number of hashes that the crawl owns without having a record of them.
    pub owned_without: u64,
    /// Link to the next free number, while this number is free.
    link: u32,
}

impl Link for Crawl {
    fn link(&mut self) -> &mut u32 {
        &mut self.link
    }
}

/// The crawls of a packed index.
#[derive(Clone, Default)]
pub(super) struct Crawls {
    slab: Slab<Crawl>,
    /// Numbers of crawl ids, plus one.
    ids: Interner<Blocks<Handles>>,
    /// Owners without a record of the hash.
    pub owners: List,
    pub holders: List,
    /// Memory of the ids, in bytes.
    bytes: usize,
}

impl Crawls {
    /// Returns the crawl with that number, which must be in use.
    #[inline]
    pub fn get(&self, number: u32) -> &Crawl {
        self.slab.get(number)
    }

    /// Returns the crawl with that number, which must be in use.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> &mut Crawl {
        self.slab.get_mut(number)
    }

    /// Returns the number of a crawl.
    pub fn find(&self, id: &[u8]) -> Option<u32> {
        let is = |number: u32| *self.slab.get(number - 1).id == *id;
        self.ids.find(hash(id), is).map(|number| number - 1)
    }

    /// Returns the number of a crawl. Assigns a number if the crawl has none.
    pub fn number(&mut self, id: &[u8]) -> u32 {
        if let Some(number) = self.find(id) {
            return number;
        }
        let crawl = Crawl {
            id: id.into(),
            ..Crawl::default()
        };
        let number = self.slab.insert(crawl, CRAWLS);
        self.ids.insert(hash(id), number + 1);
        self.bytes += allocated(id);
        number
    }

    /// Removes a crawl that has no records and owns no hash.
    pub fn leave(&mut self, number: u32) {
        let crawl = self.slab.get(number);
        if crawl.list.records > 0 || crawl.owned_without > 0 {
            return;
        }
        self.ids.remove(hash(&crawl.id), number + 1);
        let crawl = self.slab.remove(number);
        self.bytes -= allocated(&crawl.id);
    }

    /// Returns the records of a crawl, or one of the lists that belong to no crawl.
    #[inline]
    pub fn list(&self, number: u32) -> &List {
        match number {
            OWNERS => &self.owners,
            HOLDERS => &self.holders,
            crawl => &self.slab.get(crawl).list,
        }
    }

    /// Returns the records of a crawl, or one of the lists that belong to no crawl.
    #[inline]
    pub fn list_mut(&mut self, number: u32) -> &mut List {
        match number {
            OWNERS => &mut self.owners,
            HOLDERS => &mut self.holders,
            crawl => &mut self.slab.get_mut(crawl).list,
        }
    }

    /// Returns the crawls and their numbers, in the order of the numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Crawl)> {
        let all = (0..self.slab.end()).filter_map(|number| Some((number, self.slab.peek(number)?)));
        all.filter(|(_, crawl)| crawl.list.records > 0 || crawl.owned_without > 0)
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        self.slab.memory() + self.ids.memory() + self.bytes
    }

    /// Returns the number of allocations.
    pub fn pieces(&self) -> usize {
        self.slab.pieces() + self.slab.len() + self.ids.pieces()
    }
}

/// Returns the number of bytes that the allocator uses for an id.
fn allocated(id: &[u8]) -> usize {
    crawlspace_host::sizes::class(id.len())
}
