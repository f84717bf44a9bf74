//! A tag space: the tagging index, rules and access points, as one value of a key.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::condition::Condition;
use super::error::Error;
use super::expression::Bounds;
use super::filter::Request;
use super::index::{Dropped, Index, Mode, Tagged, Touched, plain};
use super::point::{Point, Points};
use super::rule::{Rule, Rules};
use super::verdict::Cache;
use super::view::{Asked, View};
use crawlspace_host::defrag::Mover;
use crawlspace_host::slices::Time;

/// Maximum number of recorded changes of tags, with which outdated caches are brought up to date.
const MAX_CHANGES: usize = 4096;
/// Maximum number of caches that are kept for reuse.
const MAX_CACHES: usize = 4;
/// Maximum number of prepared conditions that are kept.
const MAX_CONDITIONS: usize = 16;
/// Approximate maximum memory of all prepared conditions, in bytes.
const CONDITION_BYTES: usize = 64 << 20;
/// Maximum memory of a prepared condition that is kept, in bytes. Larger conditions are prepared
/// for each request.
const MAX_CACHED_BYTES: usize = 8 << 20;

/// A tag space.
#[derive(Debug, Default)]
pub struct Space {
    index: Index,
    rules: Arc<Rules>,
    points: Arc<Points>,
    /// Number of changes that affected tags so far.
    version: u64,
    /// The latest changes: the version, and the tag whose verdicts the change invalidated.
    changes: VecDeque<(u64, Box<[u8]>)>,
    /// Oldest version of a cache that can still be brought up to date.
    told_from: u64,
    caches: Arc<Mutex<Vec<Cache>>>,
    conditions: Conditions,
}

/// Prepared conditions, most recently used last. Prepared conditions are valid until an access
/// point changes.
#[derive(Clone, Debug, Default)]
pub struct Conditions(Arc<Mutex<Vec<Ready>>>);

/// A prepared condition, and the request for which it was prepared.
type Ready = (Asked, Arc<Condition>);

impl Conditions {
    /// Returns the condition of a request if it is already prepared.
    pub fn ready(&self, request: &Request) -> Option<Arc<Condition>> {
        if !is_kept(request) {
            return None;
        }
        let mut conditions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = conditions
            .iter()
            .position(|(known, _)| *known == request.asked)?;
        let found = conditions.remove(at);
        let condition = found.1.clone();
        conditions.push(found);
        Some(condition)
    }

    /// Returns the condition of a request. Prepares the condition if necessary; `most` limits the
    /// size of the condition.
    ///
    /// # Errors
    /// Fails if the request or a point is invalid; `TOOBIG` beyond the limits.
    pub fn of(
        &self,
        request: &Request,
        view: &View,
        most: Bounds,
    ) -> Result<Arc<Condition>, Error> {
        if let Some(condition) = self.ready(request) {
            return Ok(condition);
        }
        let condition = Arc::new(request.condition(view, most)?);
        // The factor 16 covers the size of parsed text. Compiled regular expressions are larger,
        // and are counted separately.
        let bytes = |of: &Ready| 16 * of.0.bytes() + of.1.bytes();
        let ready = (request.asked.clone(), condition.clone());
        if is_kept(request) && bytes(&ready) <= MAX_CACHED_BYTES {
            let mut conditions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let all = |kept: &[Ready]| kept.iter().map(bytes).sum::<usize>();
            while conditions.len() >= MAX_CONDITIONS
                || all(&conditions) + bytes(&ready) > CONDITION_BYTES
            {
                conditions.remove(0);
            }
            conditions.push(ready);
        }
        Ok(condition)
    }
}

/// Returns true if other requests may use the condition of a request. Returns false if `COLLAPSE`
/// needs a field that only some lines have, because the condition then also requires that field.
fn is_kept(request: &Request) -> bool {
    let collapse = request.collapse.as_ref();
    collapse.is_none_or(|collapse| collapse.field().is_standard())
}

/// A cache that the space has lent. Dropping this value returns the cache.
#[derive(Default)]
pub struct Lent {
    cache: Cache,
    /// Number of bytes by which this cache increased [`ASIDE`].
    aside: usize,
    shelf: Arc<Mutex<Vec<Cache>>>,
}

/// Total size in bytes of the caches that waiting tasks keep.
static ASIDE: AtomicUsize = AtomicUsize::new(0);
/// Maximum of [`ASIDE`]. Beyond this maximum, a task drops its cache before it waits.
const ASIDE_BYTES: usize = 64 << 20;

impl Lent {
    /// Returns the cache.
    pub fn cache(&mut self) -> &mut Cache {
        ASIDE.fetch_sub(std::mem::take(&mut self.aside), Relaxed);
        &mut self.cache
    }

    /// Keeps the cache until the next turn of the task. Drops the contents of the cache if waiting
    /// tasks already keep too many bytes.
    pub fn keep_while_waiting(&mut self) {
        let bytes = self.cache.bytes();
        if ASIDE.load(Relaxed).saturating_add(bytes) > ASIDE_BYTES {
            self.cache = Cache::of_version(self.cache.version);
        } else {
            ASIDE.fetch_add(bytes, Relaxed);
            self.aside = bytes;
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.cache();
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        if shelf.len() < MAX_CACHES {
            shelf.push(std::mem::take(&mut self.cache));
        }
    }
}

/// A clone shares its contents with the original until one of them changes. A clone does not share
/// caches, conditions or versions.
impl Clone for Space {
    fn clone(&self) -> Space {
        Space {
            index: self.index.clone(),
            rules: self.rules.clone(),
            points: self.points.clone(),
            ..Space::default()
        }
    }
}

impl PartialEq for Space {
    fn eq(&self, other: &Space) -> bool {
        let point = |point: &Point| (point.name().to_vec(), point.text().to_vec());
        self.index == other.index
            && self.rules.len() == other.rules.len()
            && self
                .rules
                .iter()
                .zip(other.rules.iter())
                .all(|(a, b)| a.is(b))
            && self
                .points
                .iter()
                .map(point)
                .eq(other.points.iter().map(point))
    }
}

impl Space {
    /// Returns the tagging index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the access points.
    pub fn points(&self) -> &Points {
        &self.points
    }

    /// Returns true if the space has no tags, no staged copies, no rules and no points.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty() && self.rules.is_empty() && self.points.is_empty()
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        let shelf = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let caches: usize = shelf.iter().map(Cache::bytes).sum();
        size_of::<Space>()
            + self.index.memory()
            + self.rules.memory()
            + self.points.memory()
            + caches
    }

    /// Returns a snapshot of the space for use on any thread.
    pub fn view(&self) -> View {
        View {
            index: self.index.clone(),
            rules: self.rules.clone(),
            points: self.points.clone(),
            exists: true,
        }
    }

    /// Returns the prepared conditions.
    pub fn conditions(&self) -> Conditions {
        self.conditions.clone()
    }

    /// Lends a cache that is valid for the current state of the space.
    pub fn lend_cache(&self) -> Lent {
        let mut shelf = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cache = shelf.pop().unwrap_or_default();
        drop(shelf);
        if cache.version < self.told_from {
            cache.invalidate_verdicts();
        } else {
            let news = self.changes.partition_point(|(at, _)| *at <= cache.version);
            for (_, tag) in self.changes.iter().skip(news) {
                cache.invalidate(tag);
            }
        }
        cache.version = self.version;
        Lent {
            cache,
            aside: 0,
            shelf: self.caches.clone(),
        }
    }

    /// Adds edges. Returns the number of new edges.
    ///
    /// # Errors
    /// Fails if a tag or id is malformed; `CYCLE`; `TOOBIG`. After an error, the space is
    /// unchanged.
    pub fn add(&mut self, kind: Tagged, id: &[u8], tags: &[&[u8]]) -> Result<u64, Error> {
        let (added, touched) = self.index.add(kind, &plain_of(kind, id), tags)?;
        self.note(touched);
        Ok(added)
    }

    /// Removes edges. Returns the number of removed edges.
    pub fn remove(&mut self, kind: Tagged, id: &[u8], tags: &[&[u8]]) -> u64 {
        let (mut removed, touched) = self.index.remove(kind, id, tags);
        self.note(touched);
        let plain = plain_of(kind, id);
        if *plain != *id {
            // Files of versions that did not parse offsets as numbers may contain the id verbatim,
            // so also try the verbatim id.
            let (more, touched) = self.index.remove(kind, &plain, tags);
            self.note(touched);
            removed += more;
        }
        if kind == Tagged::Tag && removed > 0 {
            // The index may already have dropped the name, so the number of the tag may be invalid: record its name.
            self.note_tag(id);
        }
        removed
    }

    /// Loads ids with their tags. If an id is given twice, merges its tags. Returns the replaced
    /// contents, which the caller must free.
    ///
    /// # Errors
    /// Fails if a tag or id is malformed; `CYCLE`; `TOOBIG`; `NOSTAGE`.
    pub fn load(
        &mut self,
        kind: Tagged,
        mode: Mode,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<Dropped, Error> {
        // Nearly all ids are already in their stored form.
        let ids: Vec<Cow<'_, [u8]>>;
        let kept: Vec<(&[u8], &[u8])>;
        let mut pairs = pairs;
        if pairs.iter().any(|(id, _)| *plain_of(kind, id) != **id) {
            ids = pairs.iter().map(|(id, _)| plain_of(kind, id)).collect();
            let tags = pairs.iter().map(|(_, tags)| *tags);
            kept = ids.iter().map(|id| &**id).zip(tags).collect();
            pairs = &kept;
        }
        let united;
        let entries: Vec<(&[u8], &[u8])>;
        let pairs = if mode == Mode::Set && has_twice(pairs) {
            united = unite(pairs);
            entries = united.iter().map(|(id, tags)| (*id, &tags[..])).collect();
            &entries[..]
        } else {
            pairs
        };
        let (touched, dropped) = self.index.load(kind, mode, pairs)?;
        let names_stay = touched == Touched::Nothing || touched == Touched::All;
        self.note(touched);
        if !names_stay {
            for (id, _) in pairs {
                self.note_tag(id);
            }
        }
        Ok(dropped)
    }

    /// Replaces the contents of a kind with the staged copy. Returns the number of ids in the
    /// staged copy, and the replaced contents.
    ///
    /// # Errors
    /// `NOSTAGE` if nothing is staged, or if the number of ids differs from the expected one.
    pub fn swap(&mut self, kind: Tagged, expect: Option<u64>) -> Result<(u64, Dropped), Error> {
        let swapped = self.index.swap(kind, expect)?;
        self.note(Touched::All);
        Ok(swapped)
    }

    /// Discards the staged copy. Returns the number of ids in the staged copy, and the contents of
    /// that copy.
    pub fn discard(&mut self, kind: Tagged) -> (u64, Dropped) {
        self.index.discard(kind)
    }

    /// Sets a rule.
    ///
    /// # Errors
    /// `TOOBIG` if the space is full.
    pub fn set_rule(&mut self, rule: Rule) -> Result<(), Error> {
        Arc::make_mut(&mut self.rules).set(rule)
    }

    /// Removes a rule. Returns true if the rule existed.
    pub fn remove_rule(&mut self, name: &[u8]) -> bool {
        Arc::make_mut(&mut self.rules).remove(name)
    }

    /// Sets an access point. Refuses an expression that has more parts than a condition may have.
    ///
    /// # Errors
    /// `CYCLE`, or `TOOBIG`.
    pub fn set_point(&mut self, point: Point) -> Result<(), Error> {
        point.expression().check_parts()?;
        Arc::make_mut(&mut self.points).set(point)?;
        self.conditions = Conditions::default();
        Ok(())
    }

    /// Sets an access point that was read from a file, without a check for cycles.
    pub(super) fn restore_point(&mut self, point: Point) -> Result<(), Error> {
        self.conditions = Conditions::default();
        Arc::make_mut(&mut self.points).restore(point)
    }

    /// Removes an access point. Returns true if the access point existed.
    pub fn remove_point(&mut self, name: &[u8]) -> bool {
        self.conditions = Conditions::default();
        Arc::make_mut(&mut self.points).remove(name)
    }

    /// Moves memory to reduce fragmentation; see [`Index::defrag`].
    pub fn defrag(&mut self, cursor: u64, mover: &mut Mover<'_>, time: Time<'_>) -> u64 {
        self.index.defrag(cursor, mover, time)
    }

    /// Adds the contents of a chunk of the index.
    pub(super) fn load_index(&mut self, chunk: &[u8]) -> Result<(), String> {
        self.note(Touched::All);
        self.index.load_chunk(chunk)
    }

    fn note(&mut self, touched: Touched) {
        match touched {
            Touched::Nothing => {}
            Touched::Tags(tags) => {
                for tag in tags {
                    let name = Box::from(self.index.name(tag));
                    self.note_named(name);
                }
            }
            Touched::All => {
                self.version += 1;
                self.changes.clear();
                self.told_from = self.version;
            }
        }
    }

    fn note_tag(&mut self, name: &[u8]) {
        self.note_named(name.into());
    }

    fn note_named(&mut self, name: Box<[u8]>) {
        self.version += 1;
        if self.changes.len() >= MAX_CHANGES {
            self.changes.pop_front();
            // A cache can be brought up to date if all changes since its version are recorded.
            self.told_from = self.changes.front().map_or(self.version, |(at, _)| at - 1);
        }
        self.changes.push_back((self.version, name));
    }
}

/// Returns the id in its stored form.
fn plain_of(kind: Tagged, id: &[u8]) -> Cow<'_, [u8]> {
    match kind {
        Tagged::Record => plain(id),
        Tagged::File | Tagged::Tag => Cow::Borrowed(id),
    }
}

fn has_twice(pairs: &[(&[u8], &[u8])]) -> bool {
    let mut seen = HashSet::with_capacity(pairs.len());
    !pairs.iter().all(|(id, _)| seen.insert(*id))
}

fn unite<'a>(pairs: &[(&'a [u8], &'a [u8])]) -> BTreeMap<&'a [u8], Vec<u8>> {
    let mut united: BTreeMap<&[u8], Vec<u8>> = BTreeMap::new();
    for (id, tags) in pairs {
        let all = united.entry(id).or_default();
        all.push(b' ');
        all.extend_from_slice(tags);
    }
    united
}
