//! One dedupe index: the keys that share a prefix, and what is remembered of them in memory.
//!
//! The keys are the truth. Everything kept here beside the prefix is a cache that is rebuilt from
//! them; the server forgets it whenever somebody else changes the keys it came from.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::keyspace::{Batch, Keyspace};
use crate::text::parse_unsigned;

use super::counts;
use super::digest::Digest;
use super::error::{Error, Result};
use super::profile::Profile;
use super::record::Record;

/// Longest crawl id, in bytes.
pub const CRAWL_BYTES: usize = 1024;

/// Endings that a crawl id must not have, because `h:<id>` would then be a key of another crawl,
/// or `<id>:reqCrawls` and `<uuid>:duperefs` could be read as the hashes of one.
pub const RESERVED_ENDINGS: [&str; 12] = [
    ":counts",
    ":wacz",
    ":base",
    ":fresh",
    ":cut",
    ":deps",
    ":refs",
    ":seq",
    ":reqCrawls",
    ":duperefs",
    ":duperef",
    ":claims",
];

/// The format of the index that this version writes.
const FORMAT: &[u8] = b"1";

/// How many crawls are remembered at most; beyond it the memory of them starts afresh.
const CRAWLS_REMEMBERED: usize = 1 << 16;

/// Refuses ids that cannot name a crawl.
pub fn check_crawl_id(crawl: &[u8]) -> Result<()> {
    let reserved = RESERVED_ENDINGS
        .iter()
        .any(|ending| crawl.ends_with(ending.as_bytes()));
    if crawl.is_empty() || crawl.len() > CRAWL_BYTES || reserved {
        return Err(Error::BadCrawl(crawl.to_vec()));
    }
    Ok(())
}

/// Names of the keys that an index has once.
pub struct Names<N> {
    /// The merged index: hash → crawl.
    pub merged: N,
    /// `allcounts`.
    pub allcounts: N,
    /// `allcrawls`.
    pub allcrawls: N,
    /// `uncommittedcrawls`.
    pub uncommitted: N,
    /// `src:d`: names of WACZ files whose hashes are in the index.
    pub finished: N,
    /// `crawlspace`: format, profile, counters.
    pub meta: N,
    /// `committing`: crawl → `n new known`, for commits under way.
    pub committing: N,
    /// `removing`: crawl → state, for removals under way.
    pub removing: N,
    /// `commits`: commit number → crawl.
    pub commits: N,
    /// `holders`: hash → numbers of the commits that met it after its owner's.
    pub holders: N,
    /// `claims`: hash → `token deadline crawl`.
    pub claims: N,
    /// `sharedwaczs`: names in `src:d` that more than one crawl may have.
    pub shared: N,
}

/// Which key of a crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlKey {
    /// `h:<crawl>`: hash → record.
    Records,
    /// `h:<crawl>:counts`.
    Counts,
    /// `c:<crawl>:wacz`.
    Waczs,
    /// `<crawl>:reqCrawls`.
    Requires,
    /// `h:<crawl>:base`: what the last commit saw, and how to get back to it.
    Base,
    /// `h:<crawl>:fresh`: fields added since the last commit.
    Fresh,
    /// `h:<crawl>:cut`: fresh fields that a running commit is committing.
    Cut,
    /// `h:<crawl>:deps`: source crawl → number of revisits.
    Deps,
    /// `h:<crawl>:refs`: ids of the WACZ files whose references this crawl wrote.
    Refs,
    /// `h:<crawl>:seq`: writer → `n reply`.
    Seq,
}

impl CrawlKey {
    /// Every key that a crawl may have.
    pub const ALL: [CrawlKey; 10] = [
        CrawlKey::Records,
        CrawlKey::Counts,
        CrawlKey::Waczs,
        CrawlKey::Requires,
        CrawlKey::Base,
        CrawlKey::Fresh,
        CrawlKey::Cut,
        CrawlKey::Deps,
        CrawlKey::Refs,
        CrawlKey::Seq,
    ];

    /// Those that the documents do not know.
    pub const OURS: [CrawlKey; 6] = [
        CrawlKey::Base,
        CrawlKey::Fresh,
        CrawlKey::Cut,
        CrawlKey::Deps,
        CrawlKey::Refs,
        CrawlKey::Seq,
    ];

    /// What stands before and after the crawl id in the key's name.
    pub fn around(self) -> (&'static [u8], &'static [u8]) {
        match self {
            CrawlKey::Records => (b"h:", b""),
            CrawlKey::Counts => (b"h:", b":counts"),
            CrawlKey::Waczs => (b"c:", b":wacz"),
            CrawlKey::Requires => (b"", b":reqCrawls"),
            CrawlKey::Base => (b"h:", b":base"),
            CrawlKey::Fresh => (b"h:", b":fresh"),
            CrawlKey::Cut => (b"h:", b":cut"),
            CrawlKey::Deps => (b"h:", b":deps"),
            CrawlKey::Refs => (b"h:", b":refs"),
            CrawlKey::Seq => (b"h:", b":seq"),
        }
    }
}

/// What is remembered of one crawl.
struct Remembered<N> {
    records: N,
    counts: N,
    committed: Option<bool>,
    uncommitted: Option<bool>,
    /// Whether every field of `records` is known to be in the written form.
    is_written: bool,
}

/// Where a crawl stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In `uncommittedcrawls` only.
    Uncommitted,
    /// In `allcrawls` only.
    Committed,
    /// In both: used again after its commit.
    Continued,
}

impl State {
    /// The state's name in replies.
    pub fn name(self) -> &'static str {
        match self {
            State::Uncommitted => "uncommitted",
            State::Committed => "committed",
            State::Continued => "continued",
        }
    }
}

/// Numbers of commits, ascending, as `holders` and `base` keep them.
pub type Numbers = SmallVec<[u64; 4]>;

/// What a removal under way marks its crawls with, in `removing`.
pub const REMOVE: &[u8] = b"remove";
/// What it marks those with that are out already.
pub const GONE: &[u8] = b"gone";
/// What a cancel under way marks its crawl with, before the number of hashes dropped so far.
pub const CANCEL: &[u8] = b"cancel ";

fn leaves_whole(state: &[u8]) -> bool {
    state == REMOVE || state == GONE
}

/// Crawls whose holdings nobody wrote down, each after the number of its commit, in their order.
pub type Unrecorded = Vec<(u64, Vec<u8>)>;

/// Reads space-separated numbers; anything else in the value is passed over.
pub fn parse_numbers(value: &[u8]) -> Numbers {
    value
        .split(|&b| b == b' ')
        .filter_map(parse_unsigned)
        .collect()
}

/// The value that [`parse_numbers`] reads.
pub fn write_numbers(numbers: &[u64]) -> Vec<u8> {
    let mut value = Vec::with_capacity(numbers.len() * 8);
    for n in numbers {
        if !value.is_empty() {
            value.push(b' ');
        }
        value.extend_from_slice(n.to_string().as_bytes());
    }
    value
}

/// A commit under way, as `committing` keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitState {
    /// Its number in the order of commits.
    pub number: u64,
    /// Hashes that became the crawl's own so far.
    pub new: u64,
    /// Hashes met that the index knew.
    pub known: u64,
}

impl CommitState {
    /// Reads the value of a field of `committing`.
    pub fn parse(value: &[u8]) -> Option<CommitState> {
        match parse_numbers(value)[..] {
            [number, new, known] => Some(CommitState { number, new, known }),
            _ => None,
        }
    }

    /// The value that [`CommitState::parse`] reads.
    pub fn to_value(self) -> Vec<u8> {
        write_numbers(&[self.number, self.new, self.known])
    }
}

/// An index, with what is remembered of it.
pub struct Index<K: Keyspace> {
    prefix: Vec<u8>,
    profile: Profile,
    /// Names of the keys that exist once.
    pub names: Names<K::Name>,
    registered: bool,
    anchored: bool,
    /// Whether every field of the merged index is known to be in the written form, so that a
    /// look-up need not try the other spellings.
    merged_is_written: bool,
    /// The size of the merged index that says so in the `crawlspace` key.
    written_size: Option<u64>,
    /// How often the merged index got a field in a form that is not the written one: a look at all
    /// of its fields holds if this is the same at its end as at its beginning.
    oddities: u64,
    crawls: FxHashMap<Box<[u8]>, Remembered<K::Name>>,
    committing: Option<FxHashSet<Box<[u8]>>>,
    /// Crawls on their way out; true for those that leave whole, and not only what is new of them.
    removing: Option<FxHashMap<Box<[u8]>, bool>>,
    has_holders: Option<bool>,
    unrecorded: Option<Rc<Unrecorded>>,
    adopted: bool,
}

impl<K: Keyspace> Index<K> {
    /// Opens the index with this prefix: reads its profile from its keys, or takes
    /// `default_profile` when it is new. `anchored` keeps a key of exactly the prefix's name,
    /// which cluster mode needs while the slot migrates.
    ///
    /// # Errors
    /// `BADFORMAT` when a newer version wrote it.
    pub fn open(
        ks: &mut K,
        prefix: &[u8],
        default_profile: Profile,
        anchored: bool,
    ) -> Result<Index<K>> {
        let meta = ks.name(&[prefix, b"crawlspace"]);
        if let Some(format) = ks.hash_get(&meta, b"format")? {
            if format.as_ref() != FORMAT {
                return Err(Error::BadFormat(format.as_ref().to_vec()));
            }
        }
        let stored = ks
            .hash_get(&meta, b"profile")?
            .and_then(|name| Profile::parse(name.as_ref()));
        let mut has_merged = |profile: Profile| {
            let name = ks.name(&[prefix, profile.merged_index()]);
            ks.exists(&name)
        };
        // An index that plain clients made says by its keys which layout they use.
        let profile = match stored {
            Some(profile) => profile,
            None if has_merged(Profile::Document) => Profile::Document,
            None if has_merged(Profile::Browsertrix) => Profile::Browsertrix,
            None => default_profile,
        };
        let names = Names {
            merged: ks.name(&[prefix, profile.merged_index()]),
            allcounts: ks.name(&[prefix, b"allcounts"]),
            allcrawls: ks.name(&[prefix, b"allcrawls"]),
            uncommitted: ks.name(&[prefix, b"uncommittedcrawls"]),
            finished: ks.name(&[prefix, b"src:d"]),
            meta,
            committing: ks.name(&[prefix, b"committing"]),
            removing: ks.name(&[prefix, b"removing"]),
            commits: ks.name(&[prefix, b"commits"]),
            holders: ks.name(&[prefix, b"holders"]),
            claims: ks.name(&[prefix, b"claims"]),
            shared: ks.name(&[prefix, b"sharedwaczs"]),
        };
        // Every job that changes the merged index writes down its size while all of it is in the
        // written form. Plain clients add hashes, and then the sizes differ.
        let size = ks.hash_len(&names.merged)?;
        let written_size = ks
            .hash_get(&names.meta, b"written")?
            .and_then(|n| parse_unsigned(n.as_ref()));
        let merged_is_written = size == 0 || written_size == Some(size);
        Ok(Index {
            prefix: prefix.to_vec(),
            profile,
            names,
            registered: stored.is_some(),
            anchored,
            merged_is_written,
            written_size,
            oddities: 1,
            crawls: FxHashMap::default(),
            committing: None,
            removing: None,
            has_holders: None,
            unrecorded: None,
            adopted: false,
        })
    }

    /// The prefix before every key name.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The layout of this index.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Whether the layout is written down; before that it follows the configuration.
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
            if ks.exists(&self.names.merged) {
                return Err(Error::HasCrawls);
            }
            self.profile = profile;
            self.names.merged = ks.name(&[&self.prefix, profile.merged_index()]);
            self.registered = false;
        }
        self.register(ks)
    }

    /// Makes the index known as one: its format and profile are written down before its first
    /// own write, so that a later change of configuration does not change its meaning.
    pub fn register(&mut self, ks: &mut K) -> Result<()> {
        if self.registered {
            return Ok(());
        }
        ks.hash_set(&self.names.meta, b"format", FORMAT)?;
        ks.hash_set(&self.names.meta, b"profile", self.profile.name().as_bytes())?;
        if self.anchored && !self.prefix.is_empty() {
            let anchor = ks.name(&[&self.prefix]);
            if !ks.exists(&anchor) {
                ks.string_set(&anchor, b"crawlspace")?;
            }
        }
        self.registered = true;
        Ok(())
    }

    /// Somebody else wrote records of a crawl: look-ups in it try every spelling from now on.
    pub fn distrust_records(&mut self, crawl: &[u8]) {
        if let Some(remembered) = self.crawls.get_mut(crawl) {
            remembered.is_written = false;
        }
    }

    /// Somebody else wrote to the merged index: look-ups try every spelling from now on.
    pub fn distrust_merged(&mut self, ks: &mut K) -> Result<()> {
        self.merged_is_written &= ks.hash_len(&self.names.merged)? == 0;
        Ok(())
    }

    /// Somebody looks at every field of the merged index from now on.
    pub fn begin_census(&self) -> u64 {
        self.oddities
    }

    /// And has found them all in the written form. What was disturbed meanwhile does not count: then
    /// the index is remembered anew, and knows of no census.
    pub fn end_census(&mut self, begun: u64) {
        self.merged_is_written |= self.oddities == begun;
    }

    /// Writes down whether the merged index has only written forms, so that a restart need not
    /// look at all of it. Belongs at the end of every step that changed it.
    pub fn write_spelling(&mut self, ks: &mut K) -> Result<()> {
        let size = match self.merged_is_written {
            true => Some(ks.hash_len(&self.names.merged)?).filter(|&size| size > 0),
            false => None,
        };
        if size != self.written_size {
            match size {
                Some(size) => {
                    self.register(ks)?;
                    ks.hash_set(&self.names.meta, b"written", size.to_string().as_bytes())?;
                }
                None => {
                    ks.hash_del(&self.names.meta, b"written")?;
                }
            }
            self.written_size = size;
        }
        Ok(())
    }

    /// Whether `spelling` is the only one under which the merged index can have its hash.
    pub fn only_written(&self, spelling: &[u8]) -> bool {
        self.merged_is_written && Digest::is_written(spelling, self.profile)
    }

    /// A field goes into the merged index as it is spelled.
    pub fn note_merged(&mut self, digest: &Digest, spelling: &[u8]) {
        if digest.written(self.profile) != spelling {
            self.merged_is_written = false;
            self.oddities += 1;
        }
    }

    /// The name of a crawl's key.
    pub fn crawl_key(&mut self, ks: &mut K, crawl: &[u8], which: CrawlKey) -> K::Name {
        match which {
            CrawlKey::Records => match self.crawls.get(crawl) {
                Some(remembered) => remembered.records.clone(),
                None => self.remembered(ks, crawl).records.clone(),
            },
            CrawlKey::Counts => self.remembered(ks, crawl).counts.clone(),
            _ => {
                let (before, after) = which.around();
                ks.name(&[&self.prefix, before, crawl, after])
            }
        }
    }

    /// The name of the set of references of a WACZ that is being written.
    pub fn references_key(&self, ks: &mut K, uuid: &[u8]) -> K::Name {
        ks.name(&[&self.prefix, uuid, self.profile.references_suffix()])
    }

    fn remembered(&mut self, ks: &mut K, crawl: &[u8]) -> &mut Remembered<K::Name> {
        if self.crawls.len() >= CRAWLS_REMEMBERED && !self.crawls.contains_key(crawl) {
            self.crawls.clear();
        }
        if !self.crawls.contains_key(crawl) {
            let records = ks.name(&[&self.prefix, b"h:", crawl]);
            let counts = ks.name(&[&self.prefix, b"h:", crawl, b":counts"]);
            let is_written = !ks.exists(&records);
            self.crawls.insert(
                crawl.into(),
                Remembered {
                    records,
                    counts,
                    committed: None,
                    uncommitted: None,
                    is_written,
                },
            );
        }
        self.crawls.get_mut(crawl).expect("just inserted")
    }

    /// Whether the crawl is in `allcrawls`.
    pub fn is_committed(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        if let Some(known) = self.crawls.get(crawl).and_then(|c| c.committed) {
            return Ok(known);
        }
        let is = ks.set_has(&self.names.allcrawls, crawl)?;
        self.remembered(ks, crawl).committed = Some(is);
        Ok(is)
    }

    /// Whether the crawl is in `uncommittedcrawls`.
    pub fn is_uncommitted(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        if let Some(known) = self.crawls.get(crawl).and_then(|c| c.uncommitted) {
            return Ok(known);
        }
        let is = ks.set_has(&self.names.uncommitted, crawl)?;
        self.remembered(ks, crawl).uncommitted = Some(is);
        Ok(is)
    }

    /// Adds to or removes from `allcrawls`.
    pub fn set_committed(&mut self, ks: &mut K, crawl: &[u8], is: bool) -> Result<()> {
        if is {
            ks.set_add(&self.names.allcrawls, crawl)?;
        } else {
            ks.set_del(&self.names.allcrawls, crawl)?;
            if let Some(unrecorded) = &mut self.unrecorded {
                Rc::make_mut(unrecorded).retain(|(_, other)| other != crawl);
            }
        }
        self.remembered(ks, crawl).committed = Some(is);
        Ok(())
    }

    /// Adds to or removes from `uncommittedcrawls`.
    pub fn set_uncommitted(&mut self, ks: &mut K, crawl: &[u8], is: bool) -> Result<()> {
        if is {
            ks.set_add(&self.names.uncommitted, crawl)?;
        } else {
            ks.set_del(&self.names.uncommitted, crawl)?;
        }
        self.remembered(ks, crawl).uncommitted = Some(is);
        Ok(())
    }

    /// Where the crawl stands; `None` when the index does not know it.
    pub fn state(&mut self, ks: &mut K, crawl: &[u8]) -> Result<Option<State>> {
        let committed = self.is_committed(ks, crawl)?;
        let uncommitted = self.is_uncommitted(ks, crawl)?;
        Ok(match (committed, uncommitted) {
            (true, false) => Some(State::Committed),
            (true, true) => Some(State::Continued),
            (false, true) => Some(State::Uncommitted),
            (false, false) => None,
        })
    }

    fn fields_of(ks: &mut K, key: &K::Name) -> Result<FxHashSet<Box<[u8]>>> {
        let batch = counts::fields(ks, key)?;
        Ok(batch.iter().map(|(field, _)| field.into()).collect())
    }

    /// Whether a commit of the crawl is under way, or was cut short.
    pub fn is_committing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        if self.committing.is_none() {
            self.committing = Some(Self::fields_of(ks, &self.names.committing)?);
        }
        Ok(self.committing.as_ref().is_some_and(|c| c.contains(crawl)))
    }

    /// How far the commit of a crawl is.
    pub fn commit_state(&mut self, ks: &mut K, crawl: &[u8]) -> Result<Option<CommitState>> {
        Ok(ks
            .hash_get(&self.names.committing, crawl)?
            .and_then(|value| CommitState::parse(value.as_ref())))
    }

    /// Writes down how far a commit is; `None` when it has ended.
    pub fn set_commit_state(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        state: Option<CommitState>,
    ) -> Result<()> {
        self.is_committing(ks, crawl)?;
        let remembered = self.committing.as_mut().expect("read above");
        match state {
            Some(state) => {
                ks.hash_set(&self.names.committing, crawl, &state.to_value())?;
                remembered.insert(crawl.into());
            }
            None => {
                ks.hash_del(&self.names.committing, crawl)?;
                remembered.remove(crawl);
            }
        }
        Ok(())
    }

    /// Whether the crawl is being removed or canceled, or such a job was cut short.
    pub fn is_removing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.removing(ks)?.contains_key(crawl))
    }

    /// Whether the crawl is being removed whole. Look-ups pass over it from the start, so that all
    /// of it goes at once.
    fn is_leaving(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.removing(ks)?.get(crawl) == Some(&true))
    }

    fn removing(&mut self, ks: &mut K) -> Result<&FxHashMap<Box<[u8]>, bool>> {
        if self.removing.is_none() {
            let marks = counts::fields(ks, &self.names.removing)?;
            let marks = marks
                .iter()
                .map(|(crawl, state)| (crawl.into(), leaves_whole(state)));
            self.removing = Some(marks.collect());
        }
        Ok(self.removing.as_ref().expect("read above"))
    }

    /// Marks a crawl as being removed (`Some(state)`), or no longer.
    pub fn set_removing(&mut self, ks: &mut K, crawl: &[u8], state: Option<&[u8]>) -> Result<()> {
        match state {
            Some(state) => ks.hash_set(&self.names.removing, crawl, state)?,
            None => ks.hash_del(&self.names.removing, crawl)?,
        };
        if let Some(removing) = &mut self.removing {
            match state {
                Some(state) => removing.insert(crawl.into(), leaves_whole(state)),
                None => removing.remove(crawl),
            };
        }
        Ok(())
    }

    /// Ends a removal: nothing is marked any more.
    pub fn clear_removing(&mut self, ks: &mut K) -> Result<()> {
        ks.delete(&self.names.removing)?;
        self.removing = None;
        Ok(())
    }

    /// Refuses an index, or a crawl in it, with a key of another type than it should be: looked at
    /// before a job's first write, so that nothing is half-written.
    pub fn check_types(&mut self, ks: &mut K, crawl: Option<&[u8]>) -> Result<()> {
        let names = &self.names;
        for hash in [
            &names.merged,
            &names.allcounts,
            &names.meta,
            &names.committing,
            &names.removing,
            &names.commits,
            &names.holders,
            &names.claims,
        ] {
            ks.hash_len(hash)?;
        }
        for set in [
            &names.allcrawls,
            &names.uncommitted,
            &names.finished,
            &names.shared,
        ] {
            ks.set_len(set)?;
        }
        let Some(crawl) = crawl else { return Ok(()) };
        for which in CrawlKey::ALL {
            let key = self.crawl_key(ks, crawl, which);
            match which {
                CrawlKey::Waczs => ks.list_len(&key)?,
                CrawlKey::Requires | CrawlKey::Refs => ks.set_len(&key)?,
                _ => ks.hash_len(&key)?,
            };
        }
        Ok(())
    }

    /// Readies a crawl for a record: the first one makes it known, and one after its commit
    /// makes it a continued crawl.
    ///
    /// # Errors
    /// `REMOVING` while it is being removed or canceled.
    pub fn start(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        self.refuse_while_removing(ks, crawl)?;
        self.register(ks)?;
        if !self.is_uncommitted(ks, crawl)? {
            if self.is_committed(ks, crawl)? {
                self.ensure_base(ks, crawl)?;
            } else {
                self.drop_leftovers(ks, crawl, &CrawlKey::OURS)?;
            }
            self.set_uncommitted(ks, crawl, true)?;
        }
        Ok(())
    }

    /// A plain client removes a crawl without knowing of our keys. Before its id is used again they
    /// go, so that the new crawl is not taken for the old one.
    pub fn drop_leftovers(&mut self, ks: &mut K, crawl: &[u8], keys: &[CrawlKey]) -> Result<()> {
        for number in self.numbers_of(ks, crawl)? {
            if self.crawl_of(ks, number)?.as_deref() == Some(crawl) {
                ks.hash_del(&self.names.commits, number.to_string().as_bytes())?;
            }
        }
        for &which in keys {
            let key = self.crawl_key(ks, crawl, which);
            ks.delete(&key)?;
        }
        if self.is_committing(ks, crawl)? {
            self.set_commit_state(ks, crawl, None)?;
        }
        Ok(())
    }

    /// Refuses work on a crawl that is on its way out.
    pub fn refuse_while_removing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        if self.is_removing(ks, crawl)? {
            return Err(Error::Removing(crawl.to_vec()));
        }
        Ok(())
    }

    /// Whether records that come now are a later commit's: the crawl is committed, or a commit
    /// of it is under way.
    pub fn is_continuing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.is_committed(ks, crawl)? || self.is_committing(ks, crawl)?)
    }

    /// A committed crawl that plain clients committed gets a base: its counts as they are.
    pub fn ensure_base(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        let base = self.crawl_key(ks, crawl, CrawlKey::Base);
        if ks.hash_has(&base, b"commits")? {
            return Ok(());
        }
        let number = self.next_number(ks)?;
        self.adopt(ks, crawl, number)
    }

    /// Gives a crawl that plain clients committed a place in the order of commits.
    pub fn adopt(&mut self, ks: &mut K, crawl: &[u8], number: u64) -> Result<()> {
        let base = self.crawl_key(ks, crawl, CrawlKey::Base);
        let counts_key = self.crawl_key(ks, crawl, CrawlKey::Counts);
        let records = self.crawl_key(ks, crawl, CrawlKey::Records);
        let waczs = self.crawl_key(ks, crawl, CrawlKey::Waczs);
        let continued = self.is_uncommitted(ks, crawl)?;
        for (name, n) in counts::all(ks, &counts_key, b"")? {
            let n = if continued {
                match self.committed_share(ks, crawl, &name)? {
                    0 => continue,
                    share => share,
                }
            } else {
                n
            };
            ks.hash_set(
                &base,
                &[b"base.", &name[..]].concat(),
                n.to_string().as_bytes(),
            )?;
        }
        let hashes = ks.hash_len(&records)?;
        let wacz_files = ks.list_len(&waczs)?;
        if !continued {
            // Of a continued crawl nobody knows which of its hashes came before the commit.
            ks.hash_set(&base, b"hashes", hashes.to_string().as_bytes())?;
        }
        ks.hash_set(&base, b"wacz", wacz_files.to_string().as_bytes())?;
        ks.hash_set(&base, b"found", b"1")?;
        let text = number.to_string();
        ks.hash_set(&base, b"commits", text.as_bytes())?;
        ks.hash_set(&self.names.commits, text.as_bytes(), crawl)?;
        if let Some(unrecorded) = &mut self.unrecorded {
            let unrecorded = Rc::make_mut(unrecorded);
            unrecorded.retain(|(_, other)| other != crawl);
            unrecorded.push((number, crawl.to_vec()));
            unrecorded.sort();
        }
        Ok(())
    }

    /// What of `allcounts` is this crawl's, when plain clients both committed it and went on with
    /// it: what the other crawls do not account for.
    fn committed_share(&mut self, ks: &mut K, crawl: &[u8], name: &[u8]) -> Result<i64> {
        let mut share = counts::read(ks, &self.names.allcounts, name)?;
        for other in self.committed(ks)? {
            if other != crawl {
                share = share.saturating_sub(self.committed_count(ks, &other, name)?);
            }
        }
        Ok(share.max(0))
    }

    /// What a committed crawl adds to a field of `allcounts`.
    pub fn committed_count(&mut self, ks: &mut K, crawl: &[u8], name: &[u8]) -> Result<i64> {
        let base = self.crawl_key(ks, crawl, CrawlKey::Base);
        // Of a crawl that is not gone on with, all of its counts are committed, whoever did that.
        if self.is_uncommitted(ks, crawl)? && ks.hash_has(&base, b"commits")? {
            return counts::read(ks, &base, &[b"base.", name].concat());
        }
        let counts_key = self.crawl_key(ks, crawl, CrawlKey::Counts);
        counts::read(ks, &counts_key, name)
    }

    /// Takes the next number in the order of commits.
    pub fn next_number(&mut self, ks: &mut K) -> Result<u64> {
        self.register(ks)?;
        self.next_of(ks, b"commits")
    }

    /// Takes the next claim token.
    pub fn next_token(&mut self, ks: &mut K) -> Result<u64> {
        self.register(ks)?;
        self.next_of(ks, b"tokens")
    }

    fn next_of(&mut self, ks: &mut K, counter: &[u8]) -> Result<u64> {
        let n = counts::read(ks, &self.names.meta, counter)?.max(0) as u64 + 1;
        ks.hash_set(&self.names.meta, counter, n.to_string().as_bytes())?;
        Ok(n)
    }

    /// The highest number taken so far.
    pub fn last_number(&mut self, ks: &mut K) -> Result<u64> {
        Ok(counts::read(ks, &self.names.meta, b"commits")?.max(0) as u64)
    }

    /// Whether all committed crawls have their place in the order of commits.
    pub fn all_adopted(&self) -> bool {
        self.adopted
    }

    /// Says that they have.
    pub fn set_all_adopted(&mut self) {
        self.adopted = true;
    }

    /// Takes note of the crawls whose holdings nobody wrote down, found by going through all.
    pub fn set_unrecorded(&mut self, mut unrecorded: Unrecorded) {
        unrecorded.sort();
        unrecorded.dedup();
        self.unrecorded = Some(Rc::new(unrecorded));
    }

    /// How many hashes may be worked on between two looks at the clock: each costs a look into every
    /// crawl whose holdings nobody wrote down.
    pub fn batch(&self, usual: usize) -> usize {
        let unrecorded = self.unrecorded.as_ref().map_or(0, |list| list.len());
        (usual * 16 / (unrecorded + 16)).max(1)
    }

    /// Whether a crawl is one of those, with the first number of its commits.
    pub fn unrecorded_number(&mut self, ks: &mut K, crawl: &[u8]) -> Result<Option<u64>> {
        let base = self.crawl_key(ks, crawl, CrawlKey::Base);
        let number = ks
            .hash_get(&base, b"commits")?
            .and_then(|n| parse_numbers(n.as_ref()).first().copied());
        Ok(match number {
            None => Some(u64::MAX),
            Some(number) => ks.hash_has(&base, b"found")?.then_some(number),
        })
    }

    /// Numbers of the commits of a crawl.
    pub fn numbers_of(&mut self, ks: &mut K, crawl: &[u8]) -> Result<Numbers> {
        let base = self.crawl_key(ks, crawl, CrawlKey::Base);
        Ok(ks
            .hash_get(&base, b"commits")?
            .map(|value| parse_numbers(value.as_ref()))
            .unwrap_or_default())
    }

    /// The owner that the merged index has for a hash, under any of its spellings.
    pub fn get_owner(&self, ks: &mut K, digest: &Digest) -> Result<Option<K::Value>> {
        if let Some(value) = ks.hash_get(&self.names.merged, digest.written(self.profile))? {
            return Ok(Some(value));
        }
        if self.merged_is_written {
            return Ok(None);
        }
        let foreign = self.get_foreign(ks, &self.names.merged, digest)?;
        Ok(foreign.map(|(_, value)| value))
    }

    /// The same, with the spelling under which it stands.
    pub fn locate_owner(&self, ks: &mut K, digest: &Digest) -> Result<Option<(Vec<u8>, K::Value)>> {
        let written = digest.written(self.profile);
        if let Some(value) = ks.hash_get(&self.names.merged, written)? {
            return Ok(Some((written.to_vec(), value)));
        }
        if self.merged_is_written {
            return Ok(None);
        }
        self.get_foreign(ks, &self.names.merged, digest)
    }

    /// The record of a crawl for a hash, under any of its spellings, committed or not.
    pub fn record_of(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        digest: &Digest,
    ) -> Result<Option<K::Value>> {
        let Remembered {
            records,
            is_written,
            ..
        } = self.remembered(ks, crawl);
        let (records, is_written) = (records.clone(), *is_written);
        self.get_record(ks, is_written, &records, digest)
    }

    fn get_record(
        &self,
        ks: &mut K,
        is_written: bool,
        records: &K::Name,
        digest: &Digest,
    ) -> Result<Option<K::Value>> {
        if let Some(value) = ks.hash_get(records, digest.written(self.profile))? {
            return Ok(Some(value));
        }
        if is_written {
            return Ok(None);
        }
        let foreign = self.get_foreign(ks, records, digest)?;
        Ok(foreign.map(|(_, value)| value))
    }

    /// How a crawl's own hash spells the digest, if it has it.
    pub fn spelling_in(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        digest: &Digest,
    ) -> Result<Option<Vec<u8>>> {
        let records = self.crawl_key(ks, crawl, CrawlKey::Records);
        let written = digest.written(self.profile);
        if ks.hash_has(&records, written)? {
            return Ok(Some(written.to_vec()));
        }
        let foreign = self.get_foreign(ks, &records, digest)?;
        Ok(foreign.map(|(spelling, _)| spelling))
    }

    fn get_foreign(
        &self,
        ks: &mut K,
        key: &K::Name,
        digest: &Digest,
    ) -> Result<Option<(Vec<u8>, K::Value)>> {
        let mut found = Ok(None);
        digest.other_spellings(self.profile, |spelling| {
            match ks.hash_get(key, spelling) {
                Ok(None) => return false,
                Ok(Some(value)) => found = Ok(Some((spelling.to_vec(), value))),
                Err(error) => found = Err(error.into()),
            }
            true
        });
        found
    }

    /// Further holders of a hash: numbers of commits.
    pub fn holders(&mut self, ks: &mut K, digest: &Digest) -> Result<Numbers> {
        if self.has_holders.is_none() {
            self.has_holders = Some(ks.exists(&self.names.holders));
        }
        if self.has_holders == Some(false) {
            return Ok(Numbers::new());
        }
        Ok(ks
            .hash_get(&self.names.holders, digest.canonical())?
            .map(|value| parse_numbers(value.as_ref()))
            .unwrap_or_default())
    }

    /// Writes the further holders of a hash.
    pub fn set_holders(&mut self, ks: &mut K, digest: &Digest, numbers: &[u64]) -> Result<()> {
        if numbers.is_empty() {
            ks.hash_del(&self.names.holders, digest.canonical())?;
        } else {
            self.has_holders = Some(true);
            ks.hash_set(
                &self.names.holders,
                digest.canonical(),
                &write_numbers(numbers),
            )?;
        }
        Ok(())
    }

    /// The crawl of a commit number.
    pub fn crawl_of(&mut self, ks: &mut K, number: u64) -> Result<Option<Vec<u8>>> {
        Ok(ks
            .hash_get(&self.names.commits, number.to_string().as_bytes())?
            .map(|crawl| crawl.as_ref().to_vec()))
    }

    /// All committed crawls, in no order.
    pub fn committed(&mut self, ks: &mut K) -> Result<Vec<Vec<u8>>> {
        let mut members = Batch::default();
        let mut cursor = ks.cursor();
        while ks.set_scan(&self.names.allcrawls, &mut cursor, &mut members)? {}
        let crawls: FxHashSet<&[u8]> = members.iter().map(|(crawl, _)| crawl).collect();
        Ok(crawls.into_iter().map(<[u8]>::to_vec).collect())
    }

    /// Ids of the WACZ files whose references a crawl wrote.
    pub fn references_of(&mut self, ks: &mut K, crawl: &[u8]) -> Result<Vec<K::Name>> {
        let refs = self.crawl_key(ks, crawl, CrawlKey::Refs);
        let mut members = Batch::default();
        let mut cursor = ks.cursor();
        while ks.set_scan(&refs, &mut cursor, &mut members)? {}
        let uuids = members
            .iter()
            .map(|(uuid, _)| self.references_key(ks, uuid));
        Ok(uuids.collect())
    }

    /// Committed crawls whose holdings nobody wrote down, because plain clients committed them,
    /// in commit order as far as it is known.
    fn unrecorded(&mut self, ks: &mut K) -> Result<Rc<Unrecorded>> {
        if let Some(known) = &self.unrecorded {
            return Ok(Rc::clone(known));
        }
        let mut unrecorded = Vec::new();
        for crawl in self.committed(ks)? {
            if let Some(number) = self.unrecorded_number(ks, &crawl)? {
                unrecorded.push((number, crawl));
            }
        }
        self.set_unrecorded(unrecorded);
        Ok(self.unrecorded.clone().unwrap_or_default())
    }

    /// The record of a crawl for a hash, if it is part of the merged index.
    pub fn committed_record(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        digest: &Digest,
    ) -> Result<Option<K::Value>> {
        // The usual crawl: committed, not gone on with, and known to be so.
        if let (Some(known), Some(committing), Some(removing)) =
            (self.crawls.get(crawl), &self.committing, &self.removing)
        {
            if known.committed == Some(true)
                && known.uncommitted == Some(false)
                && committing.is_empty()
                && removing.is_empty()
            {
                let value = self.get_record(ks, known.is_written, &known.records, digest)?;
                return Ok(value.filter(|value| Record::parse(value.as_ref()).is_some()));
            }
        }
        if !self.is_committed(ks, crawl)? || self.is_leaving(ks, crawl)? {
            return Ok(None);
        }
        // A continued crawl that is being committed again shows none of its new hashes yet.
        let committing = self.is_committing(ks, crawl)?;
        if self.is_uncommitted(ks, crawl)? || committing {
            for part in [CrawlKey::Cut, CrawlKey::Fresh] {
                let key = self.crawl_key(ks, crawl, part);
                if ks.hash_has(&key, digest.canonical())? {
                    return Ok(None);
                }
            }
        }
        let value = self.record_of(ks, crawl, digest)?;
        Ok(value.filter(|value| Record::parse(value.as_ref()).is_some()))
    }

    /// The first committed crawl, in commit order, that holds the hash beside its owner; crawls
    /// that `excluded` names do not count. Gives the crawl and its record.
    pub fn next_holder(
        &mut self,
        ks: &mut K,
        digest: &Digest,
        excluded: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<(Vec<u8>, K::Value)>> {
        let mut candidates: Vec<(u64, Vec<u8>)> = Vec::new();
        for number in self.holders(ks, digest)? {
            if let Some(crawl) = self.crawl_of(ks, number)? {
                candidates.push((number, crawl));
            }
        }
        let unrecorded = self.unrecorded(ks)?;
        if !unrecorded.is_empty() {
            candidates.sort();
        }
        // Both are in order, and are gone through together.
        let (mut recorded, mut looked) =
            (candidates.iter().peekable(), unrecorded.iter().peekable());
        loop {
            let (_, crawl) = match (recorded.peek(), looked.peek()) {
                (Some(r), Some(l)) if r.0 <= l.0 => recorded.next().expect("peeked"),
                (_, Some(_)) => {
                    let next = looked.next().expect("peeked");
                    // What such a crawl got by a later commit of ours is written down like any other.
                    if candidates.iter().any(|(_, c)| *c == next.1) {
                        continue;
                    }
                    next
                }
                (Some(_), None) => recorded.next().expect("peeked"),
                (None, None) => return Ok(None),
            };
            if excluded(crawl) {
                continue;
            }
            if let Some(record) = self.committed_record(ks, crawl, digest)? {
                return Ok(Some((crawl.clone(), record)));
            }
        }
    }
}
