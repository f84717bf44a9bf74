//! The URLs that a packed frontier knows.
//!
//! Each change of the URIs of a group also updates the records of these URLs, both on masters and on replicas.
//! Therefore, records do not need log entries of their own, and cannot disagree with the queues.

use crawlspace_compact::limits::chg::PAYLOAD_BYTES;
use crawlspace_compact::number::{Malformed, Reader, put_bytes};
use smallvec::SmallVec;

use super::super::group::Id;
use super::super::known::{
    Counts, Extra, Known, Limits, Member, Misfit, Place, Print, Prints, Recounting, Shape, Space,
    Spaces, State, Tallies, Turned, UNIT, name_of,
};
use super::super::time::Millis;
use super::super::uris::{self, Changed, Op};
use super::ended::{Ended, table_of};
use super::keys::Packed;
use super::log::{Entries, Kind, Log};

/// The result of looking up a URL. For an unknown URL, it only contains the fingerprint that a
/// record of the URL would get.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Its fingerprint.
    pub print: Print,
    /// The place of its record.
    place: Place,
    /// Its record, if the space has one.
    pub known: Option<Known>,
}

impl Found {
    /// Returns true if the URL is queued or leased.
    pub(super) fn is_here(&self) -> bool {
        self.known.is_some_and(|known| known.state.has_text())
    }
}

/// A record that changes together with the URIs of a group.
pub(super) struct Noted {
    space: Id,
    print: Print,
    place: Place,
    /// `None` if the URL is forgotten.
    becomes: Option<Known>,
    /// Its text, if the space keeps texts.
    text: Option<Box<Ended>>,
}

/// Maximum size of the additional data of a URL.
const EXTRA_BYTES: usize = uris::URI_BYTES + PAYLOAD_BYTES + 8;

/// Returns the number that represents a layout in the log.
fn shape_number(shape: Shape) -> u64 {
    u64::from(shape.is_wide) | u64::from(shape.is_shared) << 1 | u64::from(shape.keeps_text) << 2
}

impl Packed {
    /// Returns the URLs that the frontier knows.
    pub fn spaces(&self) -> &Spaces {
        &self.known
    }

    /// Returns the limits of groups by the number of done URLs.
    pub fn limits(&self) -> &Limits {
        &self.known.limits
    }

    /// Sets the limit of an execution in a group; 0 removes the limit. `counts` are the counts of the execution's
    /// URLs in groups with the hash of this group. They are ignored if they already exist for another limit.
    pub fn set_limit(&mut self, execution: &[u8], id: &[u8], most: u64, counts: Counts) {
        let mut of = self.known.limits.of(id);
        let before = of.find(|(other, ..)| **other == *execution);
        if before.map_or(0, |(_, before, _)| before) == most {
            return;
        }
        drop(of);
        let hash = self.group_hash(id);
        let is_counted = self.known.limits.counts(execution, hash).is_some();
        self.known.limits.set(execution, (id, hash), most);
        let log = self.log.begin(Kind::Limit);
        log.name(execution).bytes(id).number(most);
        if most > 0 && !is_counted {
            self.set_tally(execution, hash, counts);
        }
    }

    /// Replaces the counts of an execution in groups with this hash.
    pub fn set_tally(&mut self, execution: &[u8], hash: u32, counts: Counts) {
        self.known.limits.set_counts(execution, hash, counts);
        let log = self.log.begin(Kind::Tally);
        log.name(execution).number(hash.into());
        for count in counts {
            log.number(count);
        }
    }

    /// Begins to count the URLs of a space. `tallies` contains the executions and the hashes of
    /// groups for which URLs are counted.
    pub fn begin_recount(&mut self, space: &[u8], tallies: Tallies) -> Recounting {
        self.known.limits.begin_recount(space, tallies)
    }

    /// Counts some URLs. Returns false at the end.
    pub fn recount_some(&mut self, recounting: &Recounting, space: &[u8]) -> bool {
        self.known.recount_some(recounting, space)
    }

    /// Ends a recount, and returns the counts. Returns `None` if the frontier was replaced since
    /// the recount began.
    pub fn end_recount(&mut self, recounting: &Recounting) -> Option<Tallies> {
        self.known.limits.end_recount(recounting)
    }

    /// Returns the groups that reached a limit or fell below it since the last call.
    pub fn take_turned(&mut self) -> Turned {
        self.known.limits.take_turned()
    }

    /// Sets the current time for the following changes of known URLs.
    pub fn set_clock(&mut self, now: Millis) {
        self.unit = (now / UNIT).min(0xff_ffff) as u32;
    }

    /// Stores the time before a change of the URIs of a group.
    pub(super) fn store_clock(&mut self) {
        if self.unit != self.known.clock && !self.known.is_empty() {
            self.known.clock = self.unit;
            self.log.begin(Kind::Clock).number(self.unit.into());
        }
    }

    /// Assigns an execution to a space.
    ///
    /// # Errors
    /// Fails if the execution has a different space, or if the space has a different layout.
    pub fn join_space(
        &mut self,
        execution: &[u8],
        share: Option<&[u8]>,
        shape: Shape,
        secret: [u8; 16],
    ) -> Result<(), Misfit> {
        let is_new = self.known.member(execution).is_none();
        let name = name_of(execution, share);
        self.known.join(execution, &name, shape, secret, None)?;
        if is_new && let Some((member, space)) = self.known.of(execution) {
            log_member(&mut self.log, execution, member, space);
        }
        Ok(())
    }

    /// Removes an execution from its space.
    pub fn leave_space(&mut self, execution: &[u8]) {
        self.log.begin(Kind::Leave).name(execution);
        self.known.leave(execution);
    }

    /// Forgets a URL that is neither queued nor leased.
    pub fn forget_url(&mut self, space: &[u8], print: &[u8]) {
        self.log.begin(Kind::Unknown).bytes(space).bytes(print);
        self.known.set(space, print, None);
    }

    /// Records that a URL that is neither queued nor leased is done. `found` is the record of the URL. Returns
    /// false if this was already recorded.
    pub fn mark_done(
        &mut self,
        execution: &[u8],
        url: &[u8],
        found: Found,
        id: &[u8],
        status: Option<u16>,
    ) -> bool {
        let Found { print, known, .. } = found;
        if known.is_some_and(|known| known.state.has_text()) {
            // All fingerprints of this URL are in use by other queued or leased URLs.
            return false;
        }
        let Some(member) = self.known.member(execution) else {
            return false;
        };
        let status = status.or(known.and_then(|known| known.status));
        if known.is_some_and(|known| known.state == State::Done && known.status == status) {
            return false;
        }
        let (space, number) = (member.space.clone(), member.number);
        let done = Known {
            state: State::Done,
            attempts: known.map_or(0, |known| known.attempts),
            status,
            changed: self.unit,
            group: known.map_or_else(|| self.group_hash(id), |known| known.group),
            member: known.map_or(number, |known| known.member),
        };
        self.put_url_at(&space, &print, Some(found.place), done);
        if known.is_none() {
            let ended = Ended {
                chg: id.to_vec(),
                key: None,
                uri: url.to_vec(),
            };
            self.put_text(&space, &print, &ended);
        }
        true
    }

    /// Stores the text of a URL that is neither queued nor leased, if its space keeps it.
    fn store_text(&mut self, space: &[u8], print: &[u8], ended: &Ended) {
        let text = ended.write(self.texts.get_mut());
        self.known.set_text(space, print, text);
    }

    /// Stores the text of a URL that is neither queued nor leased, if its space keeps it, and logs it.
    fn put_text(&mut self, space: &[u8], print: &[u8], ended: &Ended) {
        let keeps = |space: &Space| space.shape().keeps_text;
        if self.known.space(space).is_some_and(keeps) {
            log_text(&mut self.log, space, print, ended);
            self.store_text(space, print, ended);
        }
    }

    /// Returns the text of a URL that is neither queued nor leased, if its space keeps it.
    pub fn ended(&self, space: &Space, print: &[u8]) -> Option<Ended> {
        let text = space.text(print)?;
        Ended::read(text, &self.texts.borrow()).ok()
    }

    /// Assigns a URL that is neither queued nor leased to another group.
    pub fn regroup_url(&mut self, space: &[u8], print: &[u8], known: Known, to: &[u8]) {
        let group = self.group_hash(to);
        self.put_url(space, print, Known { group, ..known });
        let space_of = self.known.space(space);
        if let Some(ended) = space_of.and_then(|space| self.ended(space, print)) {
            let chg = to.to_vec();
            self.put_text(space, print, &Ended { chg, ..ended });
        }
    }

    /// Releases the symbol tables of texts that were removed.
    pub(super) fn retire_texts(&mut self) {
        let texts = self.texts.get_mut();
        for table in self
            .known
            .removed
            .drain(..)
            .filter_map(|text| table_of(&text))
        {
            texts.retire(table);
        }
    }

    /// Stores the status of the last fetch of a URL that is leased in a group.
    pub fn set_status(&mut self, execution: &[u8], url: &[u8], chg: &[u8], status: u16) {
        let found = self.find_url(execution, url, Some(self.group_hash(chg)));
        let Some((print, known)) = found.and_then(|found| Some((found.print, found.known?))) else {
            return;
        };
        if let Some(space) = self
            .known
            .member(execution)
            .map(|member| member.space.clone())
        {
            let status = Some(status);
            self.put_url(&space, &print, Known { status, ..known });
        }
    }

    /// Replaces the record of a URL.
    pub fn put_url(&mut self, space: &[u8], print: &[u8], known: Known) {
        self.put_url_at(space, print, None, known);
    }

    fn put_url_at(&mut self, space: &[u8], print: &[u8], place: Option<Place>, known: Known) {
        self.known.set_at(space, print, place, Some(known));
        if let Some(space_of) = self.known.space(space) {
            let record = known.write(print, space_of.shape().width());
            self.log.begin(Kind::Known).bytes(space).bytes(&record);
        }
    }

    /// Stores the additional data of a queued or leased URL.
    pub fn set_extra(&mut self, execution: &[u8], url: &[u8], here: Option<u32>, extra: Extra<'_>) {
        let found = self.find_url(execution, url, here);
        if let Some(found) = found.filter(|found| found.known.is_some()) {
            self.put_extra(execution, &found.print, extra);
        }
    }

    /// Stores the additional data of the queued or leased URL with this fingerprint.
    pub(super) fn put_extra(&mut self, execution: &[u8], print: &[u8], extra: Extra<'_>) {
        let Some((member, space)) = self.known.of(execution) else {
            return;
        };
        if space.extra(print) == extra {
            return;
        }
        let (name, bytes) = (member.space.clone(), extra.write());
        let log = self.log.begin(Kind::Extra);
        log.bytes(&name).bytes(print).bytes(&bytes);
        self.known.set_extra(&name, print, &bytes);
    }

    /// Returns the additional data of a URL that is queued or leased in a group.
    pub fn extra(&self, execution: &[u8], url: &[u8], chg: &[u8]) -> Extra<'_> {
        let Some((_, space)) = self.known.of(execution) else {
            return Extra::default();
        };
        if !space.has_extras() {
            return Extra::default();
        }
        let found = self.find_url(execution, url, Some(self.group_hash(chg)));
        found.map_or(Extra::default(), |found| space.extra(&found.print))
    }

    /// Returns the hash of a group, in the form in which records store it.
    pub fn group_hash(&self, id: &[u8]) -> u32 {
        self.groups.short_hash(id)
    }

    /// Finds the record of a URL. If the record says that the URL is queued or leased, also compares the text of the
    /// URL. `here` is the hash of a group that is known to contain the URL.
    pub fn find_url(&self, execution: &[u8], url: &[u8], here: Option<u32>) -> Option<Found> {
        let (_, space) = self.known.of(execution)?;
        self.find_print((execution, url), space.prints(url), here)
    }

    /// Returns the fingerprints of some URLs of an execution, and prefetches the memory in which their records are
    /// searched. The list is empty if the execution has no space.
    pub fn prefetch_urls<'u>(
        &self,
        execution: &[u8],
        urls: impl Iterator<Item = &'u [u8]>,
    ) -> Vec<Prints> {
        let Some((_, space)) = self.known.of(execution) else {
            return Vec::new();
        };
        let all: Vec<Prints> = urls.map(|url| space.prints(url)).collect();
        space.prefetch(&all);
        all
    }

    /// Finds the record of a URL with these fingerprints, as [`Packed::find_url`] does.
    pub fn find_print(
        &self,
        (execution, url): (&[u8], &[u8]),
        prints: Prints,
        here: Option<u32>,
    ) -> Option<Found> {
        let (_, space) = self.known.of(execution)?;
        let mut last = None;
        for print in prints {
            let (place, known) = space.find(&print);
            let is_it = known.is_none_or(|known| {
                !known.state.has_text()
                    || here == Some(known.group)
                    || self.place_of_url(execution, &known, url).is_some()
            });
            last = Some(Found {
                print,
                place,
                known,
            });
            if is_it {
                break;
            }
        }
        last
    }

    /// Returns the execution that discovered a URL, and the slot of the group in which the URL is queued or
    /// leased.
    fn place_of_url<'a>(
        &'a self,
        execution: &'a [u8],
        known: &Known,
        url: &[u8],
    ) -> Option<(&'a [u8], u32)> {
        let member = self.known.member(execution)?;
        let owner = if known.member == member.number {
            execution
        } else {
            self.known.execution(&member.space, known.member)?
        };
        let mut slots = self.groups.with_hash(known.group);
        let slot = slots.find(|&slot| {
            let has = self.look_at_kept(slot, |kept| kept.contains(owner, url));
            has.unwrap_or(false)
        })?;
        Some((owner, slot))
    }

    /// Returns the due time of a URL that is queued or leased.
    pub fn due_of_url(&self, execution: &[u8], known: &Known, url: &[u8]) -> Option<Millis> {
        let (owner, slot) = self.place_of_url(execution, known, url)?;
        self.look_at_kept(slot, |kept| kept.due_of(owner, url))
            .flatten()
    }

    /// Returns the execution that discovered a URL, and the id of the group in which the URL is queued or
    /// leased.
    pub fn group_of_url(
        &self,
        execution: &[u8],
        known: &Known,
        url: &[u8],
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        let (owner, slot) = self.place_of_url(execution, known, url)?;
        Some((owner.to_vec(), self.groups.id(slot).to_vec()))
    }

    /// Returns the records that a change of a group's URIs will update. Must be called before the change. `added` is
    /// the record of the URL that is added, if the caller has already found it.
    pub(super) fn note(
        &self,
        slot: Option<u32>,
        id: &[u8],
        op: &Op<'_>,
        added: Option<Found>,
    ) -> SmallVec<[Noted; 1]> {
        let here = self.group_hash(id);
        let mut noted = SmallVec::new();
        let mut note =
            |execution: &[u8],
             url: &[u8],
             is_here: bool,
             change: &dyn Fn(Option<Known>, u32) -> Option<Known>| {
                let Some((member, space)) = self.known.of(execution) else {
                    return;
                };
                let find = || self.find_url(execution, url, is_here.then_some(here));
                if let Some(Found {
                    print,
                    place,
                    known,
                }) = added.or_else(find)
                {
                    let becomes = change(known, member.number);
                    let ends = becomes.is_some_and(|known| !known.state.has_text());
                    let text = (space.shape().keeps_text && ends).then(|| {
                        let (uri, key) = match space.extra(&print).url {
                            Some(uri) => (uri, Some(url.to_vec())),
                            None => (url, None),
                        };
                        Box::new(Ended {
                            chg: id.to_vec(),
                            key,
                            uri: uri.to_vec(),
                        })
                    });
                    noted.push(Noted {
                        space: Id::from_slice(&member.space),
                        print,
                        place,
                        becomes,
                        text,
                    });
                }
            };
        let changed = self.known.clock;
        match *op {
            Op::Add {
                execution,
                uri,
                attempts,
                ..
            } => note(execution, uri, false, &|known, member| {
                // A URL that moves to another group stays queued.
                let moved = known.filter(|known| known.state == State::Queued);
                Some(Known {
                    state: State::Queued,
                    attempts,
                    status: known.and_then(|known| known.status),
                    changed: moved.map_or(changed, |known| known.changed),
                    group: here,
                    member,
                })
            }),
            Op::Done { token, .. } | Op::Return { token, .. } => {
                let leased = slot.and_then(|slot| self.leased_in(slot, token));
                let Some((execution, url, attempts)) = leased else {
                    return noted;
                };
                note(&execution, &url, true, &|known, _| {
                    let known = known?;
                    Some(match *op {
                        Op::Done { end, .. } => Known {
                            state: if end.is_given_up {
                                State::GivenUp
                            } else {
                                State::Done
                            },
                            attempts: attempts + u32::from(end.is_given_up),
                            status: end.status.or(known.status),
                            changed,
                            ..known
                        },
                        Op::Return { failed, .. } => Known {
                            state: State::Queued,
                            attempts: attempts + u32::from(failed),
                            changed,
                            ..known
                        },
                        _ => known,
                    })
                });
            }
            Op::Drop { execution, limit } => {
                let urls = slot.and_then(|slot| {
                    self.look_at_kept(slot, |kept| kept.dropped_by(execution, limit))
                });
                for url in urls.unwrap_or_default() {
                    note(execution, &url, true, &|_, _| None);
                }
            }
            Op::Remove { execution, uri } => note(execution, uri, false, &|known, member| {
                // The record may be that of another entry: the URL is in another group, or queued for another
                // execution in the same space.
                known.filter(|known| (known.group, known.member) != (here, member))
            }),
            Op::End {
                execution,
                uri,
                end,
            } => note(execution, uri, true, &|known, _| {
                Some(Known {
                    state: State::Done,
                    status: end.status.or(known?.status),
                    changed,
                    ..known?
                })
            }),
            Op::Reschedule { execution, uri, .. } => note(execution, uri, true, &|known, _| {
                let known = known?;
                let changed = match known.state {
                    State::Queued => known.changed,
                    _ => changed,
                };
                Some(Known {
                    state: State::Queued,
                    attempts: 0,
                    changed,
                    ..known
                })
            }),
            Op::Take { .. } | Op::Load { .. } => {}
        }
        noted
    }

    fn leased_in(&self, slot: u32, token: u64) -> Option<(Vec<u8>, Vec<u8>, u32)> {
        let leased = self.look_at_kept(slot, |kept| {
            let leased = kept.leased(token).filter(|leased| !leased.dropped)?;
            let url = kept.uri_of(&leased);
            Some((leased.execution.to_vec(), url, leased.attempts))
        });
        leased.flatten()
    }

    /// Updates the records after the URIs have changed.
    pub(super) fn settle(
        &mut self,
        slot: u32,
        id: &[u8],
        op: &Op<'_>,
        noted: SmallVec<[Noted; 1]>,
    ) {
        for Noted {
            space,
            print,
            place,
            becomes,
            text,
        } in noted
        {
            self.known.set_at(&space, &print, Some(place), becomes);
            if let Some(text) = text {
                self.store_text(&space, &print, &text);
            }
        }
        let Op::Take { token, .. } = *op else { return };
        // The lease may already have other URIs.
        let taken = self.look_at_kept(slot, |kept| {
            let leased = kept
                .leases()
                .last()
                .filter(|leased| leased.token == token)?;
            let url = kept.uri_of(&leased);
            Some((leased.execution.to_vec(), url, leased.attempts))
        });
        let Some((execution, url, attempts)) = taken.flatten() else {
            return;
        };
        let here = Some(self.group_hash(id));
        let Some(Found {
            print,
            place,
            known: Some(known),
        }) = self.find_url(&execution, &url, here)
        else {
            return;
        };
        let changed = self.known.clock;
        if let Some(member) = self.known.member(&execution) {
            let space = member.space.clone();
            let leased = Known {
                state: State::Leased,
                attempts,
                changed,
                ..known
            };
            self.known.set_at(&space, &print, Some(place), Some(leased));
        }
    }

    /// Applies an entry of a log about known URLs.
    pub(super) fn apply_known(
        &mut self,
        kind: Kind,
        entries: &mut Entries<'_>,
    ) -> Result<(), Malformed> {
        match kind {
            Kind::Seed => {
                let seed = entries.from.number()?;
                self.groups.set_seed(seed);
                self.is_announced = true;
            }
            Kind::Join => {
                let execution = entries.name()?;
                let number =
                    u32::try_from(entries.from.number()?).map_err(|_| Malformed::NUMBER)?;
                let name = entries.from.text(uris::EXECUTION_BYTES + 1)?;
                let shape = entries.from.number_to(7)?;
                let shape = Shape {
                    is_wide: shape & 1 == 1,
                    is_shared: shape & 2 == 2,
                    keeps_text: shape & 4 == 4,
                };
                let secret: [u8; 16] = entries.from.array()?;
                if shape.is_shared != (name.first() == Some(&b's'))
                    || (!shape.is_shared && name[1..] != *execution)
                {
                    return Err(Malformed("has a space with a wrong name"));
                }
                let joined = self
                    .known
                    .join(execution, name, shape, secret, Some(number));
                joined.map_err(|_| Malformed("has an execution with two spaces"))?;
            }
            Kind::Leave => {
                let execution = entries.name()?;
                self.known.leave(execution);
            }
            Kind::Clock => {
                self.known.clock = entries.from.number_to(0xff_ffff)? as u32;
                // Jobs that change URLs do not know the time.
                self.unit = self.known.clock;
            }
            Kind::Known => {
                let name = entries.from.bytes()?;
                let loaded = self.known.load(name, entries.from.bytes()?);
                loaded.map_err(Malformed)?;
            }
            Kind::Unknown => {
                let name = entries.from.bytes()?;
                let print = entries.from.bytes()?;
                if print.len() >= 8 {
                    self.known.set(name, print, None);
                }
            }
            Kind::Extra => {
                let name = entries.from.bytes()?;
                let print = entries.from.bytes()?;
                let extra = entries.from.bytes()?;
                if print.len() >= 8 && extra.len() <= EXTRA_BYTES {
                    self.known.set_extra(name, print, extra);
                }
            }
            Kind::Limit => {
                let execution = entries.name()?;
                let id = entries.from.bytes()?;
                let most = entries.from.number()?;
                if !Log::is_name(id) {
                    return Err(Malformed("has a limit of a group without a valid id"));
                }
                let hash = self.group_hash(id);
                self.known.limits.set(execution, (id, hash), most);
            }
            Kind::Tally => {
                let execution = entries.name()?;
                let hash = entries.from.number_to(u32::MAX.into())? as u32;
                let mut counts = Counts::default();
                for count in &mut counts {
                    *count = entries.from.number()?;
                }
                self.known.limits.set_counts(execution, hash, counts);
            }
            Kind::Text => {
                let name = entries.from.bytes()?;
                let mut all = Reader::new(entries.from.bytes()?);
                let space = self
                    .known
                    .space(name)
                    .ok_or(Malformed("has texts of an unknown space"))?;
                let print_bytes = space.shape().print_bytes();
                while !all.is_empty() {
                    let print = all.take(print_bytes)?;
                    let text = all.bytes()?;
                    Ended::read(text, self.texts.get_mut())?;
                    if !table_of(text).is_some_and(|table| self.texts.get_mut().adopt(table)) {
                        return Err(Malformed("has a text with an unknown symbol table"));
                    }
                    self.known.set_text(name, print, text.to_vec());
                }
            }
            Kind::Ended => {
                let (name, print) = (entries.from.bytes()?, entries.from.bytes()?);
                let chg = entries.from.bytes()?.to_vec();
                let key = Some(entries.from.bytes()?.to_vec()).filter(|key| !key.is_empty());
                let uri = entries.from.text(uris::URI_BYTES)?.to_vec();
                if print.len() >= 8 {
                    self.store_text(name, print, &Ended { chg, key, uri });
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes all known URLs as log entries. With `singly`, writes one entry for each URL.
    pub(super) fn known_entries(
        &self,
        log: &mut Log,
        singly: bool,
        each: &mut dyn FnMut(&mut Log),
    ) {
        if self.known.clock != 0 {
            log.begin(Kind::Clock).number(self.known.clock.into());
            each(log);
        }
        for (execution, member) in self.known.members() {
            if let Some(space) = self.known.space(&member.space) {
                log_member(log, execution, member, space);
                each(log);
            }
        }
        // The counts on which limits are based are derived from the URLs, whose entries follow.
        for (execution, id, most) in self.known.limits.all() {
            log.begin(Kind::Limit)
                .name(execution)
                .bytes(id)
                .number(most);
            each(log);
        }
        for (name, space) in self.known.spaces() {
            let mut from = Some(0);
            while let Some(at) = from {
                let (records, next) = space.stored(at);
                let size = if singly {
                    space.shape().width()
                } else {
                    records.len().max(1)
                };
                for some in records.chunks(size) {
                    log.begin(Kind::Known).bytes(name).bytes(some);
                    each(log);
                }
                if space.texts() > 0 {
                    self.text_entries(log, (name, space), at, singly, each);
                }
                from = next;
            }
            for (print, extra) in space.extras() {
                log.begin(Kind::Extra).bytes(name).bytes(print).bytes(extra);
                each(log);
            }
        }
    }
}

impl Packed {
    /// Writes the texts of some URLs of a space.
    fn text_entries(
        &self,
        log: &mut Log,
        (name, space): (&[u8], &Space),
        at: u64,
        singly: bool,
        each: &mut dyn FnMut(&mut Log),
    ) {
        let mut all = Vec::new();
        for (print, _) in space.page(at).0 {
            let Some(text) = space.text(&print) else {
                continue;
            };
            if let (true, Some(ended)) = (singly, self.ended(space, &print)) {
                log_text(log, name, &print, &ended);
                each(log);
            } else {
                all.extend_from_slice(&print);
                put_bytes(&mut all, text);
            }
        }
        if !all.is_empty() {
            log.begin(Kind::Text).bytes(name).bytes(&all);
            each(log);
        }
    }
}

fn log_text(log: &mut Log, space: &[u8], print: &[u8], ended: &Ended) {
    let log = log.begin(Kind::Ended);
    log.bytes(space).bytes(print).bytes(&ended.chg);
    log.bytes(ended.key.as_deref().unwrap_or_default());
    log.bytes(&ended.uri);
}

fn log_member(log: &mut Log, execution: &[u8], member: &Member, space: &Space) {
    log.begin(Kind::Join)
        .name(execution)
        .number(member.number.into())
        .bytes(&member.space)
        .number(shape_number(space.shape()))
        .raw(space.secret());
}

impl Changed {
    /// Returns true if the change may have affected known URLs.
    pub(super) fn changes_urls(self) -> bool {
        !matches!(self, Changed::Nothing | Changed::Weighed)
    }
}

#[cfg(test)]
impl Packed {
    /// Replaces the stored text of a URL; `None` removes it.
    pub fn damage_text(&mut self, execution: &[u8], url: &[u8], ended: Option<&Ended>) {
        let print = self.find_url(execution, url, None).expect("a space").print;
        let member = self.known.member(execution).expect("a space");
        let name = member.space.clone();
        let text = ended.map(|ended| ended.write(self.texts.get_mut()));
        self.known.damage_text(&name, &print, text.as_deref());
    }

    /// Checks that the records of known URLs agree with the queues.
    pub(super) fn verify_known(&self) {
        for (execution, member) in self.known.members() {
            let mut counts = [0; 4];
            let slots = 0..self.groups.end();
            for slot in slots.filter(|&slot| !self.groups.id(slot).is_empty()) {
                self.look_at_kept(slot, |kept| {
                    for queued in kept.page(Default::default(), usize::MAX).0 {
                        if queued.execution == execution {
                            counts[State::Queued as usize] += 1;
                            self.verify_url(execution, &queued.uri, slot, State::Queued);
                        }
                    }
                    for leased in kept.leases() {
                        if leased.execution == execution && !leased.dropped {
                            counts[State::Leased as usize] += 1;
                            let url = kept.uri_of(&leased);
                            self.verify_url(execution, &url, slot, State::Leased);
                        }
                    }
                });
            }
            let space = self
                .known
                .space(&member.space)
                .expect("a space for each member");
            let mut from = Some(0);
            while let Some(at) = from {
                let (urls, next) = space.page(at);
                let own = urls
                    .iter()
                    .filter(|(_, known)| known.member == member.number);
                let over = own.filter(|(_, known)| !known.state.has_text());
                over.for_each(|(_, known)| counts[known.state as usize] += 1);
                from = next;
            }
            assert_eq!(counts, member.counts);
            if space.shape().keeps_text && !space.shape().is_shared {
                assert_eq!(space.texts(), counts[2] + counts[3]);
            }
            self.verify_texts(space);
            let limits = &self.known.limits;
            for hash in limits.hashes_of(execution, 0, usize::MAX) {
                let (mut counts, mut from) = (Counts::default(), Some(0));
                while let Some(at) = from {
                    let (urls, next) = space.page(at);
                    let own = urls.iter().map(|(_, known)| known);
                    let own = own.filter(|known| known.member == member.number);
                    let here = own.filter(|known| known.group == hash);
                    here.for_each(|known| counts[known.state as usize] += 1);
                    from = next;
                }
                assert_eq!(limits.counts(execution, hash), Some(counts));
            }
        }
    }

    fn verify_texts(&self, space: &Space) {
        let mut from = Some(0);
        while let Some(at) = from {
            let (urls, next) = space.page(at);
            for (print, known) in urls {
                let ended = self.ended(space, &print);
                let is_kept = space.shape().keeps_text && !known.state.has_text();
                assert_eq!(ended.is_some(), is_kept);
                if let Some(Ended { chg, key, uri }) = ended {
                    assert_eq!(self.group_hash(&chg), known.group);
                    let name = key.unwrap_or(uri);
                    assert!(space.prints(&name).any(|other| other == print));
                }
            }
            from = next;
        }
    }

    fn verify_url(&self, execution: &[u8], url: &[u8], slot: u32, state: State) {
        let found = self
            .find_url(execution, url, None)
            .and_then(|found| found.known);
        let known = found.expect("a queued or leased URL is known");
        assert_eq!(
            (known.state, known.group),
            (state, self.group_hash(self.groups.id(slot)))
        );
    }
}
