//! The crawls of a packed index, each under a number, and the other lists of records.

use super::blocks::{Blocks, Link, NONE, Slab};
use super::segments::Segment;
use crawlspace_compact::interner::{Handles, Interner};
use crawlspace_compact::keyed::hash;

/// Number of the list of owners that have no record of what they own.
pub(super) const OWNERS: u32 = NONE - 1;
/// Number of the list of holders.
pub(super) const HOLDERS: u32 = NONE - 2;
/// Maximum number of crawls.
const CRAWLS: u32 = 1 << 30;

/// Records of one crawl, or others that are kept together.
#[derive(Clone, Default)]
pub(super) struct List {
    pub segment: Segment,
    /// How many they are.
    pub records: u64,
}

/// A crawl, or whatever else was named as one.
#[derive(Clone, Default)]
pub(super) struct Crawl {
    pub id: Box<[u8]>,
    pub list: List,
    /// How many of its records are of fields that it owns.
    pub owned: u64,
    /// How many fields it owns without a record of them.
    pub owned_without: u64,
    /// Next number out of use.
    link: u32,
}

impl Link for Crawl {
    fn link(&mut self) -> &mut u32 {
        &mut self.link
    }
}

/// All crawls.
#[derive(Clone, Default)]
pub(super) struct Crawls {
    slab: Slab<Crawl>,
    /// Numbers of ids, each one higher.
    ids: Interner<Blocks<Handles>>,
    /// Owners without records.
    pub owners: List,
    pub holders: List,
    /// Bytes of ids.
    bytes: usize,
}

impl Crawls {
    /// The crawl of that number, which was given.
    #[inline]
    pub fn get(&self, number: u32) -> &Crawl {
        self.slab.get(number)
    }

    /// The crawl of that number, which was given.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> &mut Crawl {
        self.slab.get_mut(number)
    }

    /// The number of a crawl.
    pub fn find(&self, id: &[u8]) -> Option<u32> {
        let is = |number: u32| *self.slab.get(number - 1).id == *id;
        self.ids.find(hash(id), is).map(|number| number - 1)
    }

    /// The number of a crawl, which gets one if it has none.
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

    /// Removes a crawl of which nothing is left.
    pub fn leave(&mut self, number: u32) {
        let crawl = self.slab.get(number);
        if crawl.list.records > 0 || crawl.owned_without > 0 {
            return;
        }
        self.ids.remove(hash(&crawl.id), number + 1);
        let crawl = self.slab.remove(number);
        self.bytes -= allocated(&crawl.id);
    }

    /// The records of a crawl, or another list.
    #[inline]
    pub fn list(&self, number: u32) -> &List {
        match number {
            OWNERS => &self.owners,
            HOLDERS => &self.holders,
            crawl => &self.slab.get(crawl).list,
        }
    }

    /// The records of a crawl, or another list.
    #[inline]
    pub fn list_mut(&mut self, number: u32) -> &mut List {
        match number {
            OWNERS => &mut self.owners,
            HOLDERS => &mut self.holders,
            crawl => &mut self.slab.get_mut(crawl).list,
        }
    }

    /// Crawls with their numbers, in the order of these.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Crawl)> {
        let all = (0..self.slab.end()).filter_map(|number| Some((number, self.slab.peek(number)?)));
        all.filter(|(_, crawl)| crawl.list.records > 0 || crawl.owned_without > 0)
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.slab.memory() + self.ids.memory() + self.bytes
    }

    /// Pieces of memory.
    pub fn pieces(&self) -> usize {
        self.slab.pieces() + self.slab.len() + self.ids.pieces()
    }
}

/// Bytes that the allocator gives for an id.
fn allocated(id: &[u8]) -> usize {
    crawlspace_host::sizes::class(id.len())
}
