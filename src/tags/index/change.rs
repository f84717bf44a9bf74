//! Changes of the index. Each change is applied completely or not at all.

use std::borrow::Cow;

use super::cycle;
use super::edges::{Edges, Tags};
use super::names::{Names, Occurs};
use super::{Dropped, Error, ID_BYTES, Index, MAX_TAGS, Mode, TAG_BYTES, TagId, Tagged, Touched};

/// Number of names that a change of one id checks in the incremental sweep for unused names.
const STEPS: u32 = 64;
/// Number of names that a change of a whole copy checks in the incremental sweep for unused names.
const MORE_STEPS: u32 = 4096;

impl Index {
    /// Adds edges. Returns the number of new edges.
    ///
    /// # Errors
    /// Fails if `id` or a tag is malformed, if tags would form a cycle, or if a limit is exceeded.
    pub fn add(
        &mut self,
        kind: Tagged,
        id: &[u8],
        tags: &[&[u8]],
    ) -> Result<(u64, Touched), Error> {
        check_id(kind, id)?;
        tags.iter().try_for_each(|tag| check_tag(tag))?;
        self.check_room(tags.len() + 1)?;
        if kind == Tagged::Tag {
            self.check_cycles(id, tags)?;
        }
        let mut change = EdgeChange::new(&mut self.names, &mut self.in_place[kind as usize]);
        let added = match change.merge(id, tags.iter().copied()) {
            Ok(added) => added,
            Err(error) => {
                self.settle(STEPS);
                return Err(error);
            }
        };
        let ids = [id];
        let changed = if added > 0 { &ids[..] } else { &[] };
        Ok((added, self.end(kind, changed, STEPS)))
    }

    /// Removes edges. Returns the number of removed edges.
    pub fn remove(&mut self, kind: Tagged, id: &[u8], tags: &[&[u8]]) -> (u64, Touched) {
        let edges = &mut self.in_place[kind as usize];
        let mut own = Tags::from_slice(edges.set(edges.set_of(&self.names, id)));
        let before = own.len();
        let mut gone: Tags = tags.iter().filter_map(|tag| self.names.tag(tag)).collect();
        gone.sort_unstable();
        own.retain(|tag| gone.binary_search(tag).is_err());
        let removed = before - own.len();
        if removed == 0 {
            return (0, Touched::Nothing);
        }
        // Compute this before the name is dropped: the removed edge may be the last one that uses
        // the name.
        let touched = self.touched(kind, &[id], Vec::new());
        self.in_place[kind as usize].assign(&mut self.names, id, &own);
        self.settle(STEPS);
        (removed as u64, touched)
    }

    /// Changes many ids. Each id is given with its tags, separated by spaces. Also returns the
    /// contents that were replaced.
    ///
    /// # Errors
    /// As for [`Index::add`].
    pub fn load(
        &mut self,
        kind: Tagged,
        mode: Mode,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<(Touched, Dropped), Error> {
        let mut tags = 0;
        for (id, list) in pairs {
            check_id(kind, id)?;
            for tag in split(list) {
                check_tag(tag)?;
                tags += 1;
            }
        }
        self.check_room(tags + pairs.len())?;

        let at = kind as usize;
        let steps = STEPS.saturating_add(pairs.len() as u32);
        let changed = match mode {
            Mode::Merge | Mode::Set => {
                let change = EdgeChange::new(&mut self.names, &mut self.in_place[at]);
                change.load(kind, mode, pairs)
            }
            Mode::Stage => {
                let begun = self.staged[at].is_some();
                let edges = self.staged[at].get_or_insert_with(|| Edges::new(kind));
                let changed = EdgeChange::new(&mut self.names, edges).load(kind, mode, pairs);
                if changed.is_err() && !begun {
                    self.staged[at] = None;
                }
                changed.map(|_| Vec::new())
            }
            Mode::Replace => {
                let mut edges = Edges::new(kind);
                let changed = EdgeChange::new(&mut self.names, &mut edges).load(kind, mode, pairs);
                if let Err(error) = changed {
                    self.settle(steps);
                    return Err(error);
                }
                let old = std::mem::replace(&mut self.in_place[at], edges);
                self.look_at_all(kind);
                let touched = self.end(kind, &[], steps.max(MORE_STEPS));
                let touched = if kind == Tagged::Tag {
                    Touched::All
                } else {
                    touched
                };
                return Ok((touched, Dropped(Some(Box::new(old)))));
            }
        };
        let changed = match changed {
            Ok(changed) => changed,
            Err(error) => {
                self.settle(steps);
                return Err(error);
            }
        };
        let ids: Vec<&[u8]> = changed.iter().map(|&pair| pairs[pair].0).collect();
        Ok((self.end(kind, &ids, steps), Dropped::default()))
    }

    /// Returns true if [`Index::load`] without ids changes anything.
    pub fn changes_without_ids(&self, kind: Tagged, mode: Mode) -> bool {
        match mode {
            Mode::Merge | Mode::Set => false,
            Mode::Stage => self.staged(kind).is_none(),
            Mode::Replace => self.counts(kind).ids > 0,
        }
    }

    /// Replaces the contents of a kind with the staged copy, and returns the number of ids in that
    /// copy. If `kind` is TAG, the closure of any tag may change.
    ///
    /// # Errors
    /// Fails if there is no staged copy, or if the number of its ids differs from the expected
    /// number.
    pub fn swap(&mut self, kind: Tagged, expect: Option<u64>) -> Result<(u64, Dropped), Error> {
        let staged = &mut self.staged[kind as usize];
        let has = staged.as_ref().ok_or(Error::NotStaged(kind))?.counts().ids;
        if let Some(expected) = expect.filter(|&expected| expected != has) {
            return Err(Error::StagedCount {
                kind,
                has,
                expected,
            });
        }
        let mut old = staged.take();
        if let Some(edges) = &mut old {
            std::mem::swap(edges, &mut self.in_place[kind as usize]);
        }
        self.look_at_all(kind);
        self.settle(MORE_STEPS);
        Ok((has, Dropped(old.map(Box::new))))
    }

    /// Discards the staged copy. Returns the number of ids in the staged copy.
    pub fn discard(&mut self, kind: Tagged) -> (u64, Dropped) {
        let Some(old) = self.staged[kind as usize].take() else {
            return (0, Dropped::default());
        };
        self.look_at_all(kind);
        self.settle(MORE_STEPS);
        (old.counts().ids, Dropped(Some(Box::new(old))))
    }

    pub(super) fn check_room(&self, more: usize) -> Result<(), Error> {
        if self.names.tags.has_room_for(more) && self.names.files.has_room_for(more) {
            Ok(())
        } else {
            Err(Error::Full)
        }
    }

    fn check_cycles(&self, id: &[u8], tags: &[&[u8]]) -> Result<(), Error> {
        for &tag in tags {
            let cycle = match (self.tag(id), self.tag(tag)) {
                _ if id == tag => true,
                (Some(from), Some(to)) => cycle::carries(self.of(Tagged::Tag), to, from),
                _ => false,
            };
            if cycle {
                return Err(Error::Cycle {
                    tag: tag.into(),
                    carries: id.into(),
                });
            }
        }
        Ok(())
    }

    /// Ends a change of these ids in the active copy.
    fn end(&mut self, kind: Tagged, ids: &[&[u8]], steps: u32) -> Touched {
        let new = self.settle(steps);
        self.touched(kind, ids, new)
    }

    fn touched(&self, kind: Tagged, ids: &[&[u8]], mut tags: Vec<TagId>) -> Touched {
        if kind == Tagged::Tag {
            tags.extend(ids.iter().filter_map(|id| self.tag(id)));
        }
        if tags.is_empty() {
            return Touched::Nothing;
        }
        match cycle::above(self.of(Tagged::Tag), tags, Touched::MAX) {
            Some(tags) => Touched::Tags(tags),
            None => Touched::All,
        }
    }

    /// Schedules a check of all names, after a copy of the given kind was discarded, because some
    /// of the names may have been used only by that copy.
    fn look_at_all(&mut self, kind: Tagged) {
        self.names.tags.look_at_all();
        if kind == Tagged::Record {
            self.names.files.look_at_all();
        }
    }

    /// Drops unused names. Returns the numbers of new tags.
    pub(super) fn settle(&mut self, steps: u32) -> Vec<TagId> {
        let Index {
            names,
            in_place,
            staged,
        } = self;
        let file = |file| occurs(in_place, staged, |edges| edges.uses_file(file));
        names.files.settle(steps, file);
        let tag = |tag| occurs(in_place, staged, |edges| edges.uses(TagId(tag)));
        let new = names.tags.settle(steps, tag);
        new.into_iter().map(TagId).collect()
    }
}

pub(super) fn occurs(
    in_place: &[Edges],
    staged: &[Option<Edges>],
    uses: impl Fn(&Edges) -> bool,
) -> Occurs {
    if in_place.iter().any(&uses) {
        Occurs::InPlace
    } else if staged.iter().flatten().any(uses) {
        Occurs::Staged
    } else {
        Occurs::Nowhere
    }
}

/// A change of some ids that can be undone.
pub(super) struct EdgeChange<'a> {
    pub(super) names: &'a mut Names,
    pub(super) edges: &'a mut Edges,
    /// The changed ids, each with its previous set. The caller assigns the numbers of the ids. The
    /// previous sets are not freed until the change ends.
    undo: Vec<(usize, u32)>,
}

impl<'a> EdgeChange<'a> {
    pub(super) fn new(names: &'a mut Names, edges: &'a mut Edges) -> EdgeChange<'a> {
        EdgeChange {
            names,
            edges,
            undo: Vec::new(),
        }
    }

    /// Adds edges. Returns the number of new edges.
    fn merge<'t>(&mut self, id: &[u8], tags: impl Iterator<Item = &'t [u8]>) -> Result<u64, Error> {
        let tags: Tags = tags.map(|tag| self.names.number(tag)).collect();
        self.merge_numbers(id, &tags)
    }

    pub(super) fn merge_numbers(&mut self, id: &[u8], tags: &[TagId]) -> Result<u64, Error> {
        let own = self.edges.set(self.edges.set_of(self.names, id));
        let before = own.len();
        let mut all = Tags::from_slice(own);
        all.extend_from_slice(tags);
        self.sort(id, &mut all)?;
        let added = all.len() - before;
        if added > 0 {
            self.edges.assign(self.names, id, &all);
        }
        Ok(added as u64)
    }

    fn sort(&self, id: &[u8], tags: &mut Tags) -> Result<(), Error> {
        tags.sort_unstable();
        tags.dedup();
        if tags.len() > MAX_TAGS {
            return Err(Error::TooMany(id.into()));
        }
        Ok(())
    }

    /// Records the set of an id before the set is changed.
    pub(super) fn note(&mut self, number: usize, id: &[u8]) -> u32 {
        let set = self.edges.set_of(self.names, id);
        self.edges.hold_again(set);
        self.undo.push((number, set));
        set
    }

    fn load(
        mut self,
        kind: Tagged,
        mode: Mode,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<Vec<usize>, Error> {
        let mut failed = Ok(());
        for (number, (id, list)) in pairs.iter().enumerate() {
            failed = self.load_one(mode, number, id, list);
            if failed.is_err() {
                break;
            }
        }
        if failed.is_ok() && kind == Tagged::Tag {
            let ids = self.undo.iter().map(|&(pair, _)| pairs[pair].0).collect();
            failed = self.check_cycles(ids);
        }
        match failed {
            Ok(()) => Ok(self.keep()),
            Err(error) => {
                self.undo(|pair| pairs[pair].0.into());
                Err(error)
            }
        }
    }

    fn load_one(&mut self, mode: Mode, number: usize, id: &[u8], list: &[u8]) -> Result<(), Error> {
        let mut tags: Tags = split(list).map(|tag| self.names.number(tag)).collect();
        let old = self.note(number, id);
        if mode == Mode::Set {
            self.sort(id, &mut tags)?;
            self.edges.assign(self.names, id, &tags);
        } else {
            self.merge_numbers(id, &tags)?;
        }
        if self.edges.set_of(self.names, id) == old {
            self.undo.pop();
            self.edges.release(self.names, old);
        }
        Ok(())
    }

    /// Returns an error if a cycle can be reached from these ids.
    pub(super) fn check_cycles(&self, ids: Vec<&[u8]>) -> Result<(), Error> {
        let tags: Vec<_> = ids.iter().filter_map(|id| self.names.tag(id)).collect();
        match cycle::below(self.edges, &tags) {
            None => Ok(()),
            Some((tag, carries)) => Err(Error::Cycle {
                tag: self.names.get(tag).into(),
                carries: self.names.get(carries).into(),
            }),
        }
    }

    /// Makes the change permanent. Returns the numbers of the changed ids.
    pub(super) fn keep(self) -> Vec<usize> {
        for &(_, set) in &self.undo {
            self.edges.release(self.names, set);
        }
        self.undo.into_iter().map(|(number, _)| number).collect()
    }

    /// Restores the previous sets of all changed ids.
    pub(super) fn undo<'i>(self, id: impl Fn(usize) -> Cow<'i, [u8]>) {
        for (number, set) in self.undo.into_iter().rev() {
            self.edges.place(self.names, &id(number), set);
            self.edges.release(self.names, set);
        }
    }
}

/// Splits a list into tags.
fn split(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b' ')
        .filter(|tag| !tag.is_empty())
}

pub(super) fn check_tag(tag: &[u8]) -> Result<(), Error> {
    let why = match tag {
        [] => "is empty; a tag has at least one byte",
        _ if tag.len() > TAG_BYTES => {
            let why = format!("is too long; a tag has at most {TAG_BYTES} bytes");
            return Err(Error::BadTag(tag.into(), why.into()));
        }
        _ if memchr::memchr(b' ', tag).is_some() => "contains a space, which separates tags",
        _ => return Ok(()),
    };
    Err(Error::BadTag(tag.into(), why.into()))
}

pub(super) fn check_id(kind: Tagged, id: &[u8]) -> Result<(), Error> {
    let why = match id {
        _ if kind == Tagged::Tag => return check_tag(id),
        [] => "is empty; an id has at least one byte",
        _ if id.len() > ID_BYTES => {
            let why = format!("is too long; an id has at most {ID_BYTES} bytes");
            return Err(Error::BadId(id.into(), why.into()));
        }
        _ => return Ok(()),
    };
    Err(Error::BadId(id.into(), why.into()))
}
