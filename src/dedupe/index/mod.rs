//! One dedupe index: the keys that share a prefix, and what is cached of them in memory.
//!
//! The keys are the truth. Everything kept here beside the prefix is a cache that is rebuilt from
//! them; it is invalidated whenever somebody else changes the keys it came from.

pub mod baseline;
pub mod beside;
pub mod claims;
pub(super) mod counters;
pub mod crawls;
pub mod ledger;
pub mod numbers;
pub mod progress;
pub mod spelling;
pub mod storage;
mod table;
pub mod urls;
pub mod visible;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crawlspace_host::keyspace::Batch;

use self::claims::Claims;
pub use self::crawls::CrawlState;
use self::crawls::Crawls;
use self::ledger::Ledger;
use self::progress::UnderWay;
use self::spelling::Spelling;
use self::storage::{Layout, Places, Storage};
use self::urls::Urls;
use self::visible::Visible;
use super::error::{Error, Result};
use super::keys::{CrawlKey, MERGED, META, Names, references_suffix};
use super::profile::Profile;
use super::store::Store;

/// The format of the index that this version writes.
const FORMAT: &[u8] = b"1";

/// How many crawls are looked at for the layout of an index that nobody wrote down.
const CRAWLS_LOOKED_AT: usize = 8;

/// An index, with what is cached of it. Each part keeps its fields to itself, in a file of its own; rules ask the part
/// that they need.
pub struct Index<K: Store> {
    prefix: Vec<u8>,
    profile: Profile,
    names: Names<K::Name>,
    /// Whether the layout is written down.
    registered: bool,
    /// Whether a key of exactly the prefix's name is kept.
    anchored: bool,
    /// Which opening of an index this is; see [`Index::opening`].
    opening: u64,
    /// Where the committed part is.
    pub(super) places: Places<K>,
    /// Which crawls there are.
    pub(super) crawls: Crawls<K>,
    /// Which crawls jobs are at work on.
    pub(super) under_way: UnderWay<K>,
    /// Who holds a hash, in the order of commits.
    pub(super) ledger: Ledger<K>,
    /// How the merged index spells hashes.
    pub(super) spelling: Spelling<K>,
    /// Which crawls others see while they run.
    pub(super) visible: Visible<K>,
    /// Who is about to store a payload.
    pub(super) claims: Claims<K>,
    /// The index by URL.
    pub(super) urls: Urls<K>,
}

/// How many indexes were opened by this process.
static OPENINGS: AtomicU64 = AtomicU64::new(0);

impl<K: Store> Index<K> {
    /// Distinguishes an index from the one that takes its place when others have changed its keys: what a job
    /// found out in several steps counts only if this is the same at the last as at the first.
    pub(crate) fn opening(&self) -> u64 {
        self.opening
    }

    /// Opens the index with this prefix: reads its layout from its keys, or takes `new` when there
    /// are none. `anchored` keeps a key of exactly the prefix's name, which cluster mode needs while
    /// the slot migrates.
    ///
    /// # Errors
    /// `BADFORMAT` when a newer version wrote it.
    pub fn open(
        ks: &mut K,
        prefix: &[u8],
        new: impl Into<Layout>,
        anchored: bool,
    ) -> Result<Index<K>> {
        let new = new.into();
        let meta = ks.name(&[prefix, META.name(new.profile).as_bytes()]);
        if let Some(format) = ks.hash_get(&meta, b"format")?
            && format.as_ref() != FORMAT
        {
            return Err(Error::BadFormat(format.as_ref().to_vec()));
        }
        let stored = ks
            .hash_get(&meta, b"profile")?
            .and_then(|name| Profile::parse(name.as_ref()));
        let mut has_merged = |profile: Profile| {
            let name = ks.name(&[prefix, MERGED.name(profile).as_bytes()]);
            ks.exists(&name)
        };
        // An index that plain clients made says by its keys which layout they use.
        let profile = match stored {
            Some(profile) => profile,
            None if has_merged(Profile::Document) => Profile::Document,
            None if has_merged(Profile::Browsertrix) => Profile::Browsertrix,
            None => new.profile,
        };
        let stored_storage = ks
            .hash_get(&meta, b"storage")?
            .and_then(|name| Storage::parse(name.as_ref()));
        let names = Names::of(|row| ks.name(&[prefix, row.name(profile).as_bytes()]));
        let stored_storage = stored.map(|_| stored_storage.unwrap_or_default());
        let places = Places::find(ks, &names, stored_storage, new.storage);
        let mut index = Index {
            prefix: prefix.to_vec(),
            profile,
            registered: stored.is_some(),
            anchored,
            opening: OPENINGS.fetch_add(1, Relaxed),
            places,
            crawls: Crawls::new(prefix, &names),
            under_way: UnderWay::new(&names),
            ledger: Ledger::read(ks, &names)?,
            spelling: Spelling::new(&names.meta, profile),
            visible: Visible::read(ks, &names.meta)?,
            claims: Claims::new(&names),
            urls: Urls::read(ks, &names.meta)?,
            names,
        };
        if stored.is_none() {
            index.detect_profile(ks)?;
        }
        index.spelling.read(ks, &index.places)?;
        Ok(index)
    }

    /// Names of the keys that exist once.
    pub fn names(&self) -> &Names<K::Name> {
        &self.names
    }

    /// The prefix before every key name.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The layout of this index.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Returns whether the layout is written down; before that it follows the configuration.
    pub fn is_registered(&self) -> bool {
        self.registered
    }

    /// Sets the layout of an index without crawls.
    ///
    /// # Errors
    /// `HASCRAWLS` once there are crawls, unless the layout is the same.
    pub fn set_profile(&mut self, ks: &mut K, profile: Profile) -> Result<()> {
        if profile != self.profile {
            if ks.set_len(&self.names.allcrawls)? > 0 || ks.set_len(&self.names.uncommitted)? > 0 {
                return Err(Error::HasCrawls);
            }
            if self.places.has_hashes(ks) {
                return Err(Error::HasCrawls);
            }
            self.change_profile(ks, profile);
            self.registered = false;
        }
        self.register(ks)
    }

    fn change_profile(&mut self, ks: &mut K, profile: Profile) {
        self.profile = profile;
        self.names.merged = ks.name(&[&self.prefix, MERGED.name(profile).as_bytes()]);
        self.places = Places::of_empty(&self.names, self.places.storage());
        self.spelling.set_profile(profile);
    }

    /// An index without a merged one, whose layout nobody wrote down, tells its layout by a crawl of it.
    pub fn detect_profile_by(&mut self, ks: &mut K, crawl: &[u8]) {
        let is_open = !self.registered && !self.places.has_hashes(ks);
        if is_open && self.profile != Profile::Browsertrix && self.has_bare_fields(ks, crawl) {
            self.change_profile(ks, Profile::Browsertrix);
        }
    }

    fn detect_profile(&mut self, ks: &mut K) -> Result<()> {
        let mut first = Batch::default();
        for set in [self.names.uncommitted.clone(), self.names.outgoing.clone()] {
            let mut cursor = ks.cursor();
            while first.is_empty() && ks.set_scan(&set, &mut cursor, &mut first)? {}
        }
        for (crawl, _) in first.iter().take(CRAWLS_LOOKED_AT) {
            self.detect_profile_by(ks, crawl);
        }
        Ok(())
    }

    /// Makes the index known as one: its format and profile are written down before its first
    /// own write, so that a later change of configuration does not change its meaning.
    pub(crate) fn register(&mut self, ks: &mut K) -> Result<()> {
        self.prepare_storage(ks)?;
        if self.registered {
            return Ok(());
        }
        ks.hash_set(&self.names.meta, b"format", FORMAT)?;
        ks.hash_set(&self.names.meta, b"profile", self.profile.name().as_bytes())?;
        if self.places.storage() != Storage::Plain {
            let storage = self.places.storage().name();
            ks.hash_set(&self.names.meta, b"storage", storage.as_bytes())?;
        }
        if self.anchored && !self.prefix.is_empty() {
            let anchor = ks.name(&[&self.prefix]);
            if !ks.exists(&anchor) {
                ks.string_set(&anchor, b"crawlspace")?;
            }
        }
        self.registered = true;
        Ok(())
    }

    /// The name of the set of references of a WACZ that is being written.
    pub fn references_key(&self, ks: &mut K, uuid: &[u8]) -> K::Name {
        ks.name(&[&self.prefix, uuid, references_suffix(self.profile)])
    }

    /// Refuses an index, or a crawl in it, with a key of another type than it should be: looked at
    /// before a job's first write, so that nothing is half-written.
    pub(crate) fn check_types(&mut self, ks: &mut K, crawl: Option<&[u8]>) -> Result<()> {
        self.places.merged().len(ks)?;
        for (name, row) in self.names.all() {
            row.kind.map_or(Ok(()), |kind| ks.check_type(name, kind))?;
        }
        let Some(crawl) = crawl else { return Ok(()) };
        for &which in CrawlKey::ALL {
            let key = self.crawls.key(ks, crawl, which);
            ks.check_type(&key, which.kind())?;
        }
        Ok(())
    }

    /// Takes the next number in the order of commits.
    pub(crate) fn next_number(&mut self, ks: &mut K) -> Result<u64> {
        self.register(ks)?;
        counters::next(ks, &self.names.meta, counters::COMMITS)
    }

    /// The highest number taken so far.
    pub(crate) fn last_number(&mut self, ks: &mut K) -> Result<u64> {
        counters::last(ks, &self.names.meta, counters::COMMITS)
    }
}
