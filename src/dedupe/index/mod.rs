//! A dedupe index: the keys that share a prefix, and their cache in memory.
//!
//! The keys are authoritative. Everything in memory except the prefix is a cache, which can be
//! rebuilt from the keys. The module invalidates the cache when another client changes these keys.

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

/// The version of the index format that this release writes.
const FORMAT: &[u8] = b"1";

/// Maximum number of crawls to examine if the index does not store its layout.
const CRAWLS_LOOKED_AT: usize = 8;

/// An index and its cache. Each part of the cache has its own file and private fields.
pub struct Index<K: Store> {
    prefix: Vec<u8>,
    profile: Profile,
    names: Names<K::Name>,
    /// True if the layout is stored.
    registered: bool,
    /// True if the index keeps a key whose name is exactly the prefix.
    anchored: bool,
    /// Number that changes each time the index is opened; see [`Index::opening`].
    opening: u64,
    /// The storage of the committed part.
    pub(super) places: Places<K>,
    /// The crawls.
    pub(super) crawls: Crawls<K>,
    /// The crawls that jobs are working on.
    pub(super) under_way: UnderWay<K>,
    /// The holders of hashes, in commit order.
    pub(super) ledger: Ledger<K>,
    /// Information about the notation of hashes in the merged index.
    pub(super) spelling: Spelling<K>,
    /// The crawls that are visible while they run.
    pub(super) visible: Visible<K>,
    /// The claims on payloads.
    pub(super) claims: Claims<K>,
    /// The URL index.
    pub(super) urls: Urls<K>,
}

/// Number of indexes opened by this process.
static OPENINGS: AtomicU64 = AtomicU64::new(0);

impl<K: Store> Index<K> {
    /// Returns a number that changes when the index is reopened, after other clients changed its keys. Results that a
    /// job gathers over several slices are only valid if this number is the same in its first and its last slice.
    pub(crate) fn opening(&self) -> u64 {
        self.opening
    }

    /// Opens the index with this prefix. Its layout is read from its keys; an index without keys gets the layout
    /// `new`. With `anchored`, the index has a key whose name is exactly the prefix. Cluster mode needs this key
    /// while the slot is migrated.
    ///
    /// # Errors
    /// `BADFORMAT` if a newer version wrote the index.
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
        // The key names show the layout of an index that a plain client created.
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

    /// Returns the names of the keys that exist once per index.
    pub fn names(&self) -> &Names<K::Name> {
        &self.names
    }

    /// Returns the prefix of every key name.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Returns the layout of this index.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Returns true if the layout is stored. As long as it is not, the layout depends on the
    /// configuration.
    pub fn is_registered(&self) -> bool {
        self.registered
    }

    /// Sets the layout of an index without crawls.
    ///
    /// # Errors
    /// `HASCRAWLS` if there are crawls, unless the layout is the same.
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

    /// Detects the layout from a crawl, if the layout is not stored and there is no merged index
    /// yet.
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

    /// Stores the format and the layout before the module's first write, so that a later change of
    /// the configuration does not affect this index.
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

    /// Returns the name of the set of references of a WACZ file that is still being written.
    pub fn references_key(&self, ks: &mut K, uuid: &[u8]) -> K::Name {
        ks.name(&[&self.prefix, uuid, references_suffix(self.profile)])
    }

    /// Checks the types of all keys of an index and, if a crawl is given, of the crawl. Jobs call this function
    /// before their first write, so that they do not fail halfway.
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

    /// Takes the next commit number.
    pub(crate) fn next_number(&mut self, ks: &mut K) -> Result<u64> {
        self.register(ks)?;
        counters::next(ks, &self.names.meta, counters::COMMITS)
    }

    /// Returns the last commit number.
    pub(crate) fn last_number(&mut self, ks: &mut K) -> Result<u64> {
        counters::last(ks, &self.names.meta, counters::COMMITS)
    }
}
