//! One politeness frontier: the keys that share a prefix, and what is cached of them.
//!
//! The keys are the truth. What is cached here is rebuilt from them at any time; whoever hears
//! that somebody else changed them makes a new one.

use std::cell::{Cell, OnceCell, RefCell};

use smallvec::SmallVec;

use crawlspace_host::keyspace::KeyError;

use super::audit::Audits;
use super::dropped::Drops;
use super::error::{Error, Result};
use super::figures::Figures;
use super::first::First;
use super::group::{FIELDS, Group, Text};
use super::hold::Pauses;
use super::keys::{COUNTED, Each, Fields, GROUP, Names, SEQUENCE, URIS};
use super::skipped::Skipped;
use super::store::Store;
use super::time::{Arrivals, Millis};
use super::tokens::Tokens;
use super::uris::Uris;

/// How often a kept URI is given out whose leases run out, unless set otherwise.
pub const ATTEMPTS: u64 = 5;

/// The id of a group.
pub type Id = SmallVec<[u8; 64]>;

/// A frontier.
pub struct Frontier<K: Store> {
    pub(super) prefix: Box<[u8]>,
    /// Names of the keys that exist once.
    pub names: Names<K::Name>,
    pub(super) fields: Fields<K::Name>,
    /// How often a kept URI is given out whose leases run out.
    pub attempts: u64,
    /// What is added to a pause: the time that a release comes later than its millisecond began.
    pub rounding: Millis,
    /// What happened since it was opened.
    pub figures: Figures,
    pub(super) arrivals: Arrivals,
    pub(super) skipped: Skipped,
    pub(super) pauses: Pauses<K>,
    pub(super) drops: Drops<K>,
    pub(super) tokens: Tokens<K>,
    /// When the first idle group goes.
    pub(super) first_idle: First,
    /// When the first lease runs out.
    pub(super) first_busy: First,
    pub(super) audits: Audits,
    /// Whether the keys that exist once are known to hold what they should.
    types_checked: bool,
    /// A group that was released and is written when the lease taken with that is known, or it is read.
    unsaved: RefCell<Option<Loaded<K>>>,
}

/// A group with the fields that it was read from.
pub(super) struct Loaded<K: Store> {
    pub id: Id,
    pub key: K::Name,
    /// The key of its URIs, once it was asked for.
    uris: OnceCell<K::Name>,
    pub group: Group,
    raw: [Option<K::Value>; FIELDS],
    /// What was written since.
    saved: RefCell<Option<[Option<Text>; FIELDS]>>,
    /// Kept URIs that the hash in the key does not count, because a plain client deleted or emptied it.
    pub missing: Cell<u64>,
}

impl<K: Store> Frontier<K> {
    /// The frontier with this prefix.
    pub fn open(ks: &mut K, prefix: &[u8]) -> Frontier<K> {
        let names = Names::of(|row| ks.name(&[prefix, row.name.as_bytes()]));
        Frontier {
            prefix: prefix.into(),
            fields: Fields::new(ks),
            attempts: ATTEMPTS,
            rounding: 0,
            figures: Figures::default(),
            arrivals: Arrivals::default(),
            skipped: Skipped::default(),
            pauses: Pauses::new(names.paused.clone()),
            drops: Drops::new(names.dropped.clone()),
            tokens: Tokens::new(names.token.clone()),
            first_idle: First::default(),
            first_busy: First::default(),
            audits: Audits::default(),
            types_checked: false,
            unsaved: RefCell::new(None),
            names,
        }
    }

    /// Invalidates what was read from keys, because others changed them.
    pub fn invalidate(&mut self) {
        self.skipped = Skipped::default();
        self.pauses.invalidate();
        self.drops.invalidate();
        self.first_idle.invalidate();
        self.first_busy.invalidate();
        self.types_checked = false;
        self.unsaved.take();
        self.disturb_audit();
    }

    /// Looks whether the keys that exist once hold what they should, so that a command that began does
    /// not stop in the middle; once, until somebody else writes to them.
    ///
    /// # Errors
    /// `WRONGTYPE` for the first that does not.
    pub fn check_types(&mut self, ks: &mut K) -> Result<()> {
        if self.types_checked {
            return Ok(());
        }
        for (name, row) in self.names.all() {
            ks.check_type(name, row.kind)?;
        }
        self.types_checked = true;
        Ok(())
    }

    /// Takes note that a plain client wrote to a key that exists once.
    pub fn invalidate_types(&mut self) {
        self.types_checked = false;
    }

    /// Invalidates all that was read, and all figures: there is another database, or another master.
    pub fn invalidate_all(&mut self) {
        self.invalidate();
        self.tokens.invalidate();
        self.arrivals = Arrivals::default();
        self.figures = Figures::default();
    }

    /// Plain clients wrote to a group, so an audit under way proves nothing.
    pub fn disturb_audit(&mut self) {
        self.audits.disturb();
    }

    /// Takes note that a plain client wrote to a group.
    pub fn changed_by_others(&mut self, id: &[u8]) {
        self.skipped.changed_by_others(id);
    }

    /// The key of a group, or of something that goes with one.
    pub fn key(&self, ks: &mut K, kind: Each, id: &[u8]) -> K::Name {
        ks.name(&[&self.prefix, kind.before, id])
    }

    pub(super) fn load(&self, ks: &mut K, id: &[u8]) -> Result<Loaded<K>> {
        self.write_back(ks, Some(id))?;
        let key = self.key(ks, GROUP, id);
        let [a, b, c, d, e] = self.fields();
        let raw = ks.hash_get_many(&key, [a, b, c, d, e])?;
        let mut loaded = Loaded::new(id, key, raw);
        self.see_kept(ks, &mut loaded)?;
        Ok(loaded)
    }

    /// A group, unless its key holds something else: that is nothing to be fetched from.
    pub(super) fn load_sound(&self, ks: &mut K, id: &[u8]) -> Result<Option<Loaded<K>>> {
        match self.load(ks, id) {
            Ok(loaded) => Ok(Some(loaded)),
            Err(Error::Key(KeyError::WrongType { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A group, and how many URIs it counts in a field of an execution.
    pub(super) fn load_counting(
        &self,
        ks: &mut K,
        id: &[u8],
        counted: &K::Name,
    ) -> Result<(Loaded<K>, u64)> {
        self.write_back(ks, Some(id))?;
        let key = self.key(ks, GROUP, id);
        let [a, b, c, d, e] = self.fields();
        let [a, b, c, d, e, n] = ks.hash_get_many(&key, [a, b, c, d, e, counted])?;
        let n = n.and_then(|n| crawlspace_host::text::parse_unsigned(n.as_ref()));
        let mut loaded = Loaded::new(id, key, [a, b, c, d, e]);
        self.see_kept(ks, &mut loaded)?;
        Ok((loaded, n.unwrap_or(0)))
    }

    /// The fields of a group in the order of [`Group::read`].
    fn fields(&self) -> [&K::Name; FIELDS] {
        let names = &self.fields;
        [
            &names.due,
            &names.count,
            &names.state,
            &names.leases,
            &names.options,
        ]
    }

    /// A group that must be known.
    pub(super) fn known(&self, ks: &mut K, id: &[u8]) -> Result<Loaded<K>> {
        let loaded = self.load(ks, id)?;
        if loaded.group.known {
            Ok(loaded)
        } else {
            Err(Error::NoChg(id.to_vec()))
        }
    }

    /// Writes the fields that changed.
    pub(super) fn save(&mut self, ks: &mut K, loaded: &Loaded<K>) -> Result<()> {
        self.save_with(ks, loaded, None)
    }

    /// Saves a group, and one more field.
    pub(super) fn save_with(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        more: Option<(&K::Name, &[u8])>,
    ) -> Result<()> {
        self.audits.before(&loaded.id, || loaded.stored_count());
        self.count_missing(ks, loaded)?;
        self.note_change(ks, &loaded.id)?;
        self.write(ks, loaded, more)
    }

    /// Saves a group when the next lease is known, or somebody looks at it.
    pub(super) fn save_later(&mut self, ks: &mut K, loaded: Loaded<K>) -> Result<()> {
        self.write_back(ks, None)?;
        self.audits.before(&loaded.id, || loaded.stored_count());
        self.count_missing(ks, &loaded)?;
        self.note_change(ks, &loaded.id)?;
        self.unsaved.replace(Some(loaded));
        Ok(())
    }

    /// A group that is not saved yet.
    pub(super) fn take_unsaved(&mut self, id: &[u8]) -> Option<Loaded<K>> {
        self.unsaved
            .get_mut()
            .take_if(|unsaved| unsaved.id[..] == *id)
    }

    /// Writes what is not saved yet; with an id only that group.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn write_back(&self, ks: &mut K, only: Option<&[u8]>) -> Result<()> {
        let this = |unsaved: &mut Loaded<K>| only.is_none_or(|id| unsaved.id[..] == *id);
        let unsaved = self.unsaved.borrow_mut().take_if(this);
        unsaved.map_or(Ok(()), |unsaved| self.write(ks, &unsaved, None))
    }

    /// Writes the fields that changed, and one more.
    fn write(&self, ks: &mut K, loaded: &Loaded<K>, more: Option<(&K::Name, &[u8])>) -> Result<()> {
        let written = loaded.group.write();
        let fields = self.fields();
        let mut changed: SmallVec<[(&K::Name, &[u8]); FIELDS + 1]> = SmallVec::new();
        changed.extend(more);
        let saved = loaded.saved.take();
        let old: [Option<&[u8]>; FIELDS] =
            std::array::from_fn(|i| loaded.stored(i, saved.as_ref()));
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
        loaded.saved.replace(Some(written));
        Ok(())
    }

    /// Deletes the hash of a group, but for what was set for it.
    pub(super) fn delete_group(&mut self, ks: &mut K, loaded: &Loaded<K>) -> Result<()> {
        self.audits.before(&loaded.id, || loaded.stored_count());
        if loaded.group.options == Default::default() {
            ks.delete(&loaded.key)?;
            return Ok(());
        }
        let names = &self.fields;
        for field in [
            &names.due,
            &names.count,
            &names.state,
            &names.leases,
            &names.next,
        ] {
            ks.hash_del(&loaded.key, field.as_ref())?;
        }
        Ok(())
    }

    /// Counts queued URIs of an execution up or down, in the whole frontier; the group's own count is
    /// the caller's.
    pub(super) fn tally(&mut self, ks: &mut K, execution: &[u8], change: i64) -> Result<()> {
        if change == 0 {
            return Ok(());
        }
        let before = ks.hash_add(&self.names.executions, execution, change)?;
        self.audits.before_execution(execution, before);
        ks.number_add(&self.names.total, change)?;
        Ok(())
    }

    /// `EIDC` of an execution.
    pub(super) fn queued_of(&mut self, ks: &mut K, execution: &[u8]) -> Result<u64> {
        field_number(ks, &self.names.executions, execution)
    }

    /// The field in which a group counts the URIs of an execution that are not kept here.
    pub(super) fn counted_field(execution: &[u8]) -> Id {
        let mut field = Id::from_slice(COUNTED);
        field.extend_from_slice(execution);
        field
    }

    /// How many URIs of an execution a group counts without keeping them.
    pub(super) fn counted(&self, ks: &mut K, key: &K::Name, execution: &[u8]) -> Result<u64> {
        field_number(ks, key, &Self::counted_field(execution))
    }

    /// Changes that number; what it was before.
    pub(super) fn count(
        &self,
        ks: &mut K,
        key: &K::Name,
        execution: &[u8],
        change: i64,
    ) -> Result<u64> {
        Ok(ks.hash_add(key, &Self::counted_field(execution), change)?)
    }

    /// The key of the URIs that are kept for a group.
    pub(super) fn uris_key(&self, ks: &mut K, id: &[u8]) -> K::Name {
        self.key(ks, URIS, id)
    }

    /// The key of the URIs that are kept for a group that was read.
    pub(super) fn uris_of(&self, ks: &mut K, loaded: &Loaded<K>) -> K::Name {
        let name = || self.uris_key(ks, &loaded.id);
        loaded.uris.get_or_init(name).clone()
    }

    /// The key of the numbered commands of an execution.
    pub(super) fn sequence_key(&self, ks: &mut K, execution: &[u8]) -> K::Name {
        self.key(ks, SEQUENCE, execution)
    }

    /// Looks at the URIs that are kept for a group, if any.
    pub(super) fn kept<T>(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        look: impl FnOnce(&Uris) -> T,
    ) -> Result<Option<T>> {
        if !loaded.group.keeps {
            return Ok(None);
        }
        let key = self.uris_of(ks, loaded);
        Ok(ks.uris(&key, look)?)
    }
}

impl<K: Store> Loaded<K> {
    fn new(id: &[u8], key: K::Name, raw: [Option<K::Value>; FIELDS]) -> Loaded<K> {
        let mut fields = raw.iter().map(|field| field.as_ref().map(AsRef::as_ref));
        let group = Group::read(std::array::from_fn(|_| fields.next().flatten()));
        Loaded {
            id: Id::from_slice(id),
            key,
            uris: OnceCell::new(),
            group,
            raw,
            saved: RefCell::new(None),
            missing: Cell::new(0),
        }
    }

    /// What stands in field `i` now.
    fn stored<'s>(
        &'s self,
        i: usize,
        saved: Option<&'s [Option<Text>; FIELDS]>,
    ) -> Option<&'s [u8]> {
        match saved {
            Some(saved) => saved[i].as_deref(),
            None => self.raw[i].as_ref().map(AsRef::as_ref),
        }
    }

    /// How many of the fields of [`Group::read`] there were when it was read.
    pub(super) fn own_fields(&self) -> u64 {
        self.raw.iter().flatten().count() as u64
    }

    /// The count that stood in the key when it was read.
    pub(super) fn stored_count(&self) -> u64 {
        let stored = self.raw[1].as_ref().map(AsRef::as_ref);
        stored
            .and_then(crawlspace_host::text::parse_unsigned)
            .unwrap_or(0)
    }
}

/// The number in a field; 0 when there is none.
pub(super) fn field_number<K: Store>(ks: &mut K, key: &K::Name, field: &[u8]) -> Result<u64> {
    let value = ks.hash_get(key, field)?;
    let number = value.and_then(|value| crawlspace_host::text::parse_unsigned(value.as_ref()));
    Ok(number.unwrap_or(0))
}
