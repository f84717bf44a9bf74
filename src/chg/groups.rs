//! Reads and writes the hashes of groups and the URIs that the frontier stores for them.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use smallvec::SmallVec;

use crawlspace_host::keyspace::KeyError;

use super::Token;
use super::error::{Error, Result};
use super::group::{FIELDS, Group, Hold, Id, Options, Text};
use super::keys::{GROUP, Keys};
use super::store::{Store, field_number};
use super::time::{Millis, of_score};
use super::uris::{Kept, Op, Stock};

/// Maximum number of leased groups that are cached. Each takes about 1 KB.
const MAX_CACHED_GROUPS: usize = 1024;

/// The hashes of the groups of a frontier, and the URIs that the frontier stores for them.
pub(super) struct Groups<K: Store> {
    keys: Rc<Keys<K>>,
    /// A released group whose write is deferred until it is known whether a new lease follows the
    /// release, or until the group is read.
    unsaved: RefCell<Option<Box<Loaded<K>>>>,
    /// Leased groups in the state in which they were last written, so that a release need not read
    /// them again. The cache evicts a group when another operation loads it, because that operation
    /// may write to its hash, and when a plain client writes to it.
    leased: RefCell<HashMap<Id, Box<Loaded<K>>>>,
}

/// A group, and the stored fields from which it was read.
pub(super) struct Loaded<K: Store> {
    pub id: Id,
    pub key: K::Name,
    /// The key of the URIs of the group, once an operation has needed it.
    uris: OnceCell<K::Name>,
    pub group: Group,
    source: Source<K>,
    /// Number of stored URIs that the hash of the group does not count, because a plain client
    /// deleted or emptied the hash.
    pub missing: Cell<u64>,
}

/// The stored form of a group.
enum Source<K: Store> {
    /// The fields of a hash: the values that were read, and the values written since then.
    Hash(
        Box<[Option<K::Value>; FIELDS]>,
        RefCell<Option<Box<[Option<Text>; FIELDS]>>>,
    ),
    /// A native value: the number of fields that a hash would have, and the number of URIs that the
    /// stored group counts.
    Value(u64, Cell<u64>),
}

impl<K: Store> Groups<K> {
    pub(super) fn new(keys: Rc<Keys<K>>) -> Groups<K> {
        Groups {
            keys,
            unsaved: RefCell::new(None),
            leased: RefCell::default(),
        }
    }

    /// Discards the group with the deferred write.
    pub(super) fn invalidate(&mut self) {
        self.unsaved.take();
        self.leased.get_mut().clear();
    }

    /// Caches a group that was just written with a lease.
    pub(super) fn keep_leased(&mut self, mut loaded: Box<Loaded<K>>) {
        if let Source::Hash(read, _) = &mut loaded.source {
            read.fill_with(|| None);
        }
        // The write has stored the fields from which these flags are derived.
        loaded.group.known = true;
        loaded.group.ours = true;
        let leased = self.leased.get_mut();
        if leased.len() >= MAX_CACHED_GROUPS {
            leased.clear();
        }
        leased.insert(loaded.id.clone(), loaded);
    }

    /// Evicts a group from the cache because its hash may change.
    pub(super) fn evict(&self, id: &[u8]) {
        let mut leased = self.leased.borrow_mut();
        if !leased.is_empty() {
            leased.remove(id);
        }
    }

    /// Returns a group that is probably leased, from the cache or, if it is not cached, from its
    /// key.
    pub(super) fn load_leased(&self, ks: &mut K, id: &[u8]) -> Result<Box<Loaded<K>>> {
        if !ks.has_plain_writers() {
            return self.load(ks, id);
        }
        let cached = self.leased.borrow_mut().remove(id);
        let Some(mut loaded) = cached else {
            return self.load(ks, id);
        };
        self.find_uncounted(ks, &mut loaded)?;
        Ok(loaded)
    }

    /// Keeps a group in memory until its deferred write.
    pub(super) fn keep_unsaved(&mut self, loaded: Box<Loaded<K>>) {
        self.unsaved.replace(Some(loaded));
    }

    /// Reads a group.
    pub(super) fn load(&self, ks: &mut K, id: &[u8]) -> Result<Box<Loaded<K>>> {
        self.write_back(ks, Some(id))?;
        self.evict(id);
        let key = match self.load_value(ks, id)? {
            Ok(loaded) => return Ok(loaded),
            Err(key) => key,
        };
        let [a, b, c, d, e] = self.fields();
        let raw = ks.hash_get_many(&key, [a, b, c, d, e])?;
        let mut loaded = Loaded::new(id, key, raw);
        self.find_uncounted(ks, &mut loaded)?;
        Ok(loaded)
    }

    /// Reads a group that is stored as a native value. Returns the key of the group if it is stored as a hash.
    fn load_value(
        &self,
        ks: &mut K,
        id: &[u8],
    ) -> Result<std::result::Result<Box<Loaded<K>>, K::Name>> {
        let key = self.keys.key(ks, GROUP, id);
        if ks.has_plain_writers() {
            return Ok(Err(key));
        }
        let mut loaded = Box::new(Loaded {
            id: Id::from_slice(id),
            key,
            uris: OnceCell::new(),
            group: Group::default(),
            source: Source::Value(0, Cell::new(0)),
            missing: Cell::new(0),
        });
        let Some(fields) = ks.group(&loaded.key, &mut loaded.group)? else {
            return Ok(Err(loaded.key));
        };
        loaded.source = Source::Value(fields, Cell::new(loaded.group.uris));
        Ok(Ok(loaded))
    }

    /// Reads a group. Returns `None` if the key of the group holds another type, because such a key
    /// has no URIs to fetch.
    pub(super) fn load_sound(&self, ks: &mut K, id: &[u8]) -> Result<Option<Box<Loaded<K>>>> {
        match self.load(ks, id) {
            Ok(loaded) => Ok(Some(loaded)),
            Err(Error::Key(KeyError::WrongType { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a group, and the number of URIs of an execution that the group counts in the field of
    /// this execution.
    pub(super) fn load_counting(
        &self,
        ks: &mut K,
        id: &[u8],
        counted: &K::Name,
    ) -> Result<(Box<Loaded<K>>, u64)> {
        self.write_back(ks, Some(id))?;
        self.evict(id);
        let key = match self.load_value(ks, id)? {
            Ok(loaded) => {
                let n = field_number(ks, &loaded.key, counted.as_ref())?;
                return Ok((loaded, n));
            }
            Err(key) => key,
        };
        let [a, b, c, d, e] = self.fields();
        let [a, b, c, d, e, n] = ks.hash_get_many(&key, [a, b, c, d, e, counted])?;
        let n = n.and_then(|n| crawlspace_host::text::parse_unsigned(n.as_ref()));
        let mut loaded = Loaded::new(id, key, [a, b, c, d, e]);
        self.find_uncounted(ks, &mut loaded)?;
        Ok((loaded, n.unwrap_or(0)))
    }

    /// Reads a group, and fails if it is unknown.
    pub(super) fn known(&self, ks: &mut K, id: &[u8]) -> Result<Box<Loaded<K>>> {
        let loaded = self.load(ks, id)?;
        if loaded.group.known {
            Ok(loaded)
        } else {
            Err(Error::NoChg(id.to_vec()))
        }
    }

    /// Returns the names of the fields in the order of [`Group::read`].
    fn fields(&self) -> [&K::Name; FIELDS] {
        let names = &self.keys.fields;
        [
            &names.due,
            &names.count,
            &names.state,
            &names.leases,
            &names.options,
        ]
    }

    /// Finds stored URIs that the group should count but does not. Checks this only if the module
    /// has not written the group's hash, or if the hash counts only leased URIs.
    pub(super) fn find_uncounted(&self, ks: &mut K, loaded: &mut Loaded<K>) -> Result<()> {
        if !ks.has_plain_writers() {
            return Ok(());
        }
        let group = &loaded.group;
        let looks_empty = group.keeps && group.uris <= group.holds.len() as u64;
        if group.ours && !looks_empty {
            return Ok(());
        }
        let key = self.uris_of(ks, loaded);
        let Some(kept) = ks.uris(key, |kept| kept.len())? else {
            return Ok(());
        };
        let group = &mut loaded.group;
        group.keeps = true;
        if kept > group.uris {
            loaded.missing.set(kept - group.uris);
            group.uris = kept;
            group.known = true;
        }
        Ok(())
    }

    /// Calls `look` with the URIs stored for a group, if there are any.
    pub(super) fn kept<T>(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        look: impl FnOnce(&Kept<'_>) -> T,
    ) -> Result<Option<T>> {
        if !loaded.group.keeps {
            return Ok(None);
        }
        let key = self.uris_of(ks, loaded);
        Ok(ks.uris(key, look)?)
    }

    /// Returns the number of stored URIs of a group, and their earliest due time.
    pub(super) fn stock(&self, ks: &mut K, loaded: &Loaded<K>) -> Result<Stock> {
        Ok(self
            .kept(ks, loaded, |kept| kept.stock())?
            .unwrap_or_default())
    }

    /// Returns the due time of a group after its lease has ended.
    pub(super) fn due_of(&self, ks: &mut K, loaded: &Loaded<K>) -> Result<Millis> {
        Ok(loaded.group.due_with(self.stock(ks, loaded)?))
    }

    /// Returns the key of the URIs stored for a loaded group.
    pub(super) fn uris_of<'l>(&self, ks: &mut K, loaded: &'l Loaded<K>) -> &'l K::Name {
        if !ks.has_plain_groups() {
            // A packed frontier finds both a group and its URIs by the id that each key name
            // contains, so the key of the group can be used.
            return &loaded.key;
        }
        let name = || self.keys.uris_key(ks, &loaded.id);
        loaded.uris.get_or_init(name)
    }

    /// If the unsaved group has this id, removes the group from this value and returns it.
    pub(super) fn take_unsaved(&mut self, id: &[u8]) -> Option<Box<Loaded<K>>> {
        self.unsaved
            .get_mut()
            .take_if(|unsaved| unsaved.id[..] == *id)
    }

    /// Writes the unsaved group. With an id, writes only the group with that id.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; any server error.
    pub fn write_back(&self, ks: &mut K, only: Option<&[u8]>) -> Result<()> {
        let this = |unsaved: &mut Box<Loaded<K>>| only.is_none_or(|id| unsaved.id[..] == *id);
        let unsaved = self.unsaved.borrow_mut().take_if(this);
        unsaved.map_or(Ok(()), |unsaved| self.write(ks, &unsaved, None))
    }

    /// Writes the changed fields, and one additional field.
    pub(super) fn write(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        more: Option<(&K::Name, &[u8])>,
    ) -> Result<()> {
        let (read, saved) = match &loaded.source {
            Source::Hash(read, saved) => (read, saved),
            Source::Value(_, count) => {
                let more = more.map(|(field, value)| (field.as_ref(), value));
                ks.put_group(&loaded.key, &loaded.group, more)?;
                count.set(loaded.group.uris);
                return Ok(());
            }
        };
        let written = loaded.group.write();
        let fields = self.fields();
        let mut changed: SmallVec<[(&K::Name, &[u8]); FIELDS + 1]> = SmallVec::new();
        changed.extend(more);
        let before = saved.take();
        let old: [Option<&[u8]>; FIELDS] =
            std::array::from_fn(|i| stored::<K>(i, read, before.as_deref()));
        for ((name, new), old) in fields.iter().zip(&written).zip(&old) {
            match new {
                Some(new) if *old != Some(&new[..]) => changed.push((name, new)),
                _ => {}
            }
        }
        ks.hash_set_many(&loaded.key, &changed)?;
        drop(changed);
        for ((name, new), old) in fields.iter().zip(&written).zip(&old) {
            if new.is_none() && old.is_some() {
                ks.hash_del(&loaded.key, name.as_ref())?;
            }
        }
        saved.replace(Some(Box::new(written)));
        Ok(())
    }

    /// Restores the leases that were lost with the hash of a group. The leases get the deadline in
    /// `chg_busy`; if the group is not in `chg_busy`, their URIs return to the queue. Returns true
    /// if the group is in `chg_busy`.
    pub(super) fn restore_leases(
        &self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        now: Millis,
    ) -> Result<bool> {
        let (busy, lost) = self.find_leases(ks, loaded, now)?;
        let key = self.uris_of(ks, loaded);
        for token in lost {
            let back = Op::Return {
                token,
                due: None,
                failed: false,
            };
            ks.change_uris(key, &back)?;
        }
        Ok(busy)
    }

    /// Adds the leases that were lost with the hash to a group in memory, without writing anything.
    /// Returns true if the group is in `chg_busy`; otherwise false and the tokens of the lost
    /// leases, whose deadlines are unknown.
    pub(super) fn find_leases(
        &self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        now: Millis,
    ) -> Result<(bool, Vec<Token>)> {
        let busy = ks.zset_score(&self.keys.once.busy, &loaded.id)?;
        let holds = &loaded.group.holds;
        let held = |token| holds.iter().any(|hold: &Hold| hold.token == token);
        let key = self.uris_of(ks, loaded);
        let lost = ks.uris(key, |uris| {
            let tokens = uris.tokens();
            tokens.filter(|&token| !held(token)).collect::<Vec<_>>()
        })?;
        let lost = lost.unwrap_or_default();
        let Some(deadline) = busy else {
            return Ok((false, lost));
        };
        loaded
            .group
            .holds
            .extend(lost.into_iter().map(|token| Hold {
                token,
                // A token is the time in microseconds at which it was created, or slightly more.
                granted: (token / 1000).min(now),
                deadline: of_score(deadline),
            }));
        Ok((true, Vec::new()))
    }

    /// Returns the time at which the first lease on a group expires.
    pub(super) fn first_deadline(&self, ks: &mut K, loaded: &Loaded<K>) -> Result<Option<Millis>> {
        if let Some(deadline) = loaded.group.first_deadline() {
            return Ok(Some(deadline));
        }
        // The lease of a plain client has no token, and is not among those of the group.
        let busy = ks.zset_score(&self.keys.once.busy, &loaded.id)?;
        Ok(busy.map(of_score))
    }

    /// Returns the deadline of the last lease on a group whose worker may still find links for an
    /// execution. Considers leases on stored URIs of the execution. If URIs of the execution are
    /// only counted, considers all leases, because leases on counted URIs do not contain the
    /// execution.
    pub(super) fn leased_until(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        execution: &[u8],
        counts: bool,
    ) -> Result<Option<Millis>> {
        let group = &loaded.group;
        if group.holds.is_empty() {
            return Ok(self.first_deadline(ks, loaded)?.filter(|_| counts));
        }
        let mut last = None;
        for hold in &group.holds {
            let own = self.kept(ks, loaded, |uris| {
                let leased = uris.leased(hold.token);
                leased.map(|leased| leased.execution == execution)
            })?;
            if own.flatten().unwrap_or(counts) {
                last = last.max(Some(hold.deadline));
            }
        }
        Ok(last)
    }

    /// Returns the first execution at or after number `from` that has stored URIs in a group, and
    /// the number from which to continue.
    pub(super) fn next_kept(
        &self,
        ks: &mut K,
        group: &[u8],
        from: u64,
    ) -> Result<Option<(u64, Vec<u8>)>> {
        let Some(loaded) = self.load_sound(ks, group)? else {
            return Ok(None);
        };
        let next = self.kept(ks, &loaded, |uris| {
            let share = uris.executions_from(from).next()?;
            Some((share.number + 1, share.id.to_vec()))
        })?;
        Ok(next.flatten())
    }

    /// Changes a loaded group whose deletion is overdue, so that commands that only read see it as
    /// deleted.
    pub(super) fn show_as_deleted(
        &self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        now: Millis,
    ) -> Result<()> {
        if !loaded.group.is_idle() {
            return Ok(());
        }
        let until = ks.zset_score(&self.keys.once.idle, &loaded.id)?;
        if until.is_some_and(|until| of_score(until) <= now) {
            let options = std::mem::take(&mut loaded.group.options);
            loaded.group = Group {
                known: options != Options::default(),
                options,
                ..Group::default()
            };
        }
        Ok(())
    }
}

impl<K: Store> Loaded<K> {
    fn new(id: &[u8], key: K::Name, raw: [Option<K::Value>; FIELDS]) -> Box<Loaded<K>> {
        let mut fields = raw.iter().map(|field| field.as_ref().map(AsRef::as_ref));
        let group = Group::read(std::array::from_fn(|_| fields.next().flatten()));
        Box::new(Loaded {
            id: Id::from_slice(id),
            key,
            uris: OnceCell::new(),
            group,
            source: Source::Hash(Box::new(raw), RefCell::new(None)),
            missing: Cell::new(0),
        })
    }

    /// Returns the number of fields of [`Group::read`] that existed when the group was read.
    pub(super) fn own_fields(&self) -> u64 {
        match &self.source {
            Source::Hash(read, _) => read.iter().flatten().count() as u64,
            Source::Value(fields, _) => *fields,
        }
    }

    /// Returns the number of URIs that the stored group counts.
    pub(super) fn stored_count(&self) -> u64 {
        match &self.source {
            Source::Hash(read, saved) => stored::<K>(1, read, saved.borrow().as_deref())
                .and_then(crawlspace_host::text::parse_unsigned)
                .unwrap_or(0),
            Source::Value(_, count) => count.get(),
        }
    }
}

/// Returns the stored value of field `i`.
fn stored<'s, K: Store>(
    i: usize,
    read: &'s [Option<K::Value>; FIELDS],
    saved: Option<&'s [Option<Text>; FIELDS]>,
) -> Option<&'s [u8]> {
    match saved {
        Some(saved) => saved[i].as_deref(),
        None => read[i].as_ref().map(AsRef::as_ref),
    }
}
