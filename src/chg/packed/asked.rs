//! Agendas: the groups that may be leased for an execution, in order of time. An execution has an agenda
//! if clients name it in `CHG.NEXT … EXECUTION`.
//!
//! An agenda exists only in memory. It is created when a client names an execution. Afterwards, changed
//! groups are examined again before the next search, or earlier if there are many of them. All groups
//! behind a shared gate form one entry of the agenda, so that opening or closing the gate changes one entry
//! instead of thousands.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::gates::OPENS;
use super::super::group::Id;
use super::super::keys::GATE;
use super::super::known::Turned;
use super::super::time::Millis;
use super::super::uris::Kept;
use super::keys::Packed;
use crawlspace_host::text::parse_unsigned;

/// Number of groups that one step examines to create an agenda. Lower in tests.
const STEP: u32 = if cfg!(test) { 1 } else { 16 };

/// Time after which an agenda is dropped if no client names its execution.
const UNUSED: Millis = 60 * 60 * 1000;

/// Approximate memory use of an entry of an agenda, in bytes.
const ENTRY_BYTES: usize = 64;

/// Maximum number of agendas that are all updated when a group changes. If there are more agendas, only
/// those of the group's executions are updated.
const FEW: usize = if cfg!(test) { 2 } else { 8 };

/// Gate number of a group without a shared gate.
const NO_GATE: u32 = 0;

/// The agendas of the executions that clients named.
#[derive(Default)]
pub(super) struct Asked {
    agendas: BTreeMap<Box<[u8]>, Agenda>,
    /// Numbers of shared gates, from 1 on.
    gates: HashMap<Box<[u8]>, u32>,
    /// Gates that changed since the agendas were updated.
    changed: BTreeSet<Box<[u8]>>,
}

impl Clone for Asked {
    /// Returns an empty value. The copy creates its own agendas when a client names an execution.
    fn clone(&self) -> Asked {
        Asked::default()
    }
}

/// The groups of one execution, by the time from which they may be leased for it.
#[derive(Default)]
struct Agenda {
    /// The entries in order of time, each as time, gate and slot. An entry represents a group
    /// without a shared gate, or a gate.
    order: BTreeSet<(Millis, u32, u32)>,
    /// Time and gate of each group.
    places: HashMap<u32, (Millis, u32)>,
    gated: HashMap<u32, Gated>,
    /// The next slot to examine; `None` if the agenda is complete.
    next: Option<u32>,
    /// Time when a client last named the execution.
    named: Millis,
}

/// The groups behind a shared gate.
#[derive(Default)]
struct Gated {
    groups: BTreeSet<(Millis, u32)>,
    /// Time when the gate opens.
    opens: Millis,
    /// Time of the gate in the agenda.
    at: Option<Millis>,
}

impl Agenda {
    /// Stores the time of a group; `None` removes the group.
    fn set(&mut self, slot: u32, at: Option<Millis>, (gate, opens): (u32, Millis)) {
        let place = at.map(|at| (at, gate));
        let before = match place {
            Some(place) => self.places.insert(slot, place),
            None => self.places.remove(&slot),
        };
        if before == place && gate == NO_GATE {
            return;
        }
        match before {
            Some((at, NO_GATE)) => drop(self.order.remove(&(at, NO_GATE, slot))),
            Some((at, gate)) => {
                if let Some(gated) = self.gated.get_mut(&gate) {
                    gated.groups.remove(&(at, slot));
                }
                self.place(gate);
            }
            None => {}
        }
        match place {
            Some((at, NO_GATE)) => drop(self.order.insert((at, NO_GATE, slot))),
            Some((at, gate)) => {
                let gated = self.gated.entry(gate).or_default();
                gated.groups.insert((at, slot));
                gated.opens = opens;
                self.place(gate);
            }
            None => {}
        }
    }

    /// Updates the time of a gate.
    fn place(&mut self, gate: u32) {
        let Some(gated) = self.gated.get_mut(&gate) else {
            return;
        };
        let first = gated.groups.first();
        let at = first.map(|(at, _)| *at.max(&gated.opens));
        let before = std::mem::replace(&mut gated.at, at);
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.order.remove(&(before, gate, 0));
        }
        match at {
            Some(at) => drop(self.order.insert((at, gate, 0))),
            None => drop(self.gated.remove(&gate)),
        }
    }

    /// Returns true if the entry of a group is the same as in `right`, an agenda that only contains
    /// this group.
    fn agrees(&self, right: &Agenda, slot: u32) -> bool {
        let place = self.places.get(&slot);
        place == right.places.get(&slot)
            && match place {
                None => true,
                Some(&(at, NO_GATE)) => self.order.contains(&(at, NO_GATE, slot)),
                Some(&(at, gate)) => {
                    let [own, right] = [self, right].map(|agenda| agenda.gated.get(&gate));
                    own.is_some_and(|own| {
                        let first = own.groups.first().map(|(at, _)| *at.max(&own.opens));
                        own.groups.contains(&(at, slot))
                            && right.is_some_and(|right| right.opens == own.opens)
                            && own.at == first
                            && first.is_some_and(|at| self.order.contains(&(at, gate, 0)))
                    })
                }
            }
    }

    fn open(&mut self, gate: u32, opens: Millis) {
        if let Some(gated) = self.gated.get_mut(&gate) {
            gated.opens = opens;
            self.place(gate);
        }
    }

    /// Returns the earliest time, and the slot of its group.
    fn first(&self) -> Option<(Millis, u32)> {
        let &(at, gate, slot) = self.order.first()?;
        if gate == NO_GATE {
            return Some((at, slot));
        }
        let (_, slot) = self.gated.get(&gate)?.groups.first()?;
        Some((at, *slot))
    }
}

impl Asked {
    /// Records that a shared gate, given by the name of its hash, may have changed.
    pub fn note_hash(&mut self, name: &[u8]) {
        if !self.gates.is_empty()
            && let Some(gate) = GATE.id(name)
            && self.gates.contains_key(gate)
        {
            self.changed.insert(gate.into());
        }
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        let entries = self.agendas.values().map(|agenda| agenda.places.len());
        entries.sum::<usize>() * ENTRY_BYTES
    }

    fn number_of(&mut self, gate: &[u8]) -> u32 {
        if gate.is_empty() {
            return NO_GATE;
        }
        if let Some(number) = self.gates.get(gate) {
            return *number;
        }
        let number = self.gates.len() as u32 + 1;
        self.gates.insert(gate.into(), number);
        number
    }
}

impl Packed {
    /// Prepares searches for an execution by examining some groups. Returns true once all groups have been
    /// examined.
    pub fn prepare_for(&mut self, execution: &[u8], now: Millis) -> bool {
        let mut asked = std::mem::take(&mut self.asked);
        if !asked.agendas.contains_key(execution) {
            if self.crowds == 0 && self.executions.find(execution).is_none() {
                // No group has URIs of the execution.
                self.asked = asked;
                return true;
            }
            let agendas = &mut asked.agendas;
            agendas.retain(|_, agenda| now.saturating_sub(agenda.named) < UNUSED);
            let agenda = Agenda {
                next: Some(0),
                ..Agenda::default()
            };
            agendas.insert(execution.into(), agenda);
            if !self.groups.is_watched() {
                self.groups.watch(true);
            }
        }
        let from = asked.agendas.get_mut(execution).and_then(|agenda| {
            agenda.named = now;
            agenda.next
        });
        let mut next = None;
        if let Some(from) = from {
            let until = from.saturating_add(STEP).min(self.groups.end());
            for slot in from..until {
                self.look_for(&mut asked, slot, Some(execution));
            }
            next = (until < self.groups.end()).then_some(until);
            if let Some(agenda) = asked.agendas.get_mut(execution) {
                agenda.next = next;
            }
        }
        self.asked = asked;
        next.is_none()
    }

    /// Returns the first time at which a group may be leased for an execution, and the group.
    pub fn first_for(&mut self, execution: &[u8]) -> Option<(Millis, Id)> {
        self.update_agendas();
        loop {
            let agenda = self.asked.agendas.get_mut(execution)?;
            let (at, slot) = agenda.first()?;
            let id = self.groups.id(slot);
            if !id.is_empty() {
                return Some((at, Id::from_slice(id)));
            }
            agenda.set(slot, None, (NO_GATE, 0));
        }
    }

    /// Returns the first entries of the agenda of an execution, if the agenda is complete: times, and groups without a
    /// shared gate.
    pub fn first_entries_for(
        &mut self,
        execution: &[u8],
        most: usize,
    ) -> Option<Vec<(Millis, Option<Id>)>> {
        self.update_agendas();
        let agenda = self.asked.agendas.get(execution)?;
        let entries = agenda.order.iter().take(most).map(|&(at, gate, slot)| {
            let id = (gate == NO_GATE).then(|| Id::from_slice(self.groups.id(slot)));
            (at, id)
        });
        agenda.next.is_none().then(|| entries.collect())
    }

    /// Returns a lower bound of the time at which a group may be leased for an execution, or `None`
    /// if the execution has no URIs.
    pub fn waits_for(&mut self, execution: &[u8]) -> Option<Millis> {
        match self.asked.agendas.get(execution) {
            Some(agenda) if agenda.next.is_none() => self.first_for(execution).map(|(at, _)| at),
            None if self.crowds == 0 && self.executions.find(execution).is_none() => None,
            // The next search examines all groups first.
            _ => Some(0),
        }
    }

    /// Removes a group from the agenda of an execution until the group changes.
    pub fn pass_over(&mut self, execution: &[u8], id: &[u8]) {
        if let Some(slot) = self.groups.find(id)
            && let Some(agenda) = self.asked.agendas.get_mut(execution)
        {
            agenda.set(slot, None, (NO_GATE, 0));
        }
    }

    /// Returns the executions whose agendas have a wrong entry for the group in a slot, and the id of the group.
    /// Returns `None` after the last slot.
    pub fn wrong_agendas(&mut self, slot: u32) -> Option<(Vec<Box<[u8]>>, Id)> {
        if self.asked.agendas.is_empty() || slot >= self.groups.end() {
            return None;
        }
        self.update_agendas();
        let id = Id::from_slice(self.groups.id(slot));
        let (mut asked, mut wrong) = (std::mem::take(&mut self.asked), Vec::new());
        let mut fresh = Asked {
            gates: std::mem::take(&mut asked.gates),
            ..Asked::default()
        };
        // A search removes the entries of deleted groups.
        let complete = asked
            .agendas
            .iter()
            .filter(|(_, agenda)| agenda.next.is_none() && !id.is_empty());
        for (execution, agenda) in complete {
            fresh.agendas = BTreeMap::from([(execution.clone(), Agenda::default())]);
            self.look_for(&mut fresh, slot, Some(execution));
            // A search also removes groups without URIs of the execution.
            let has_any = |kept: &Kept<'_>| kept.executions().any(|share| *share.id == **execution);
            if !agenda.agrees(&fresh.agendas[execution], slot)
                && self.look_at_kept(slot, has_any).unwrap_or(false)
            {
                wrong.push(execution.clone());
            }
        }
        asked.gates = fresh.gates;
        self.asked = asked;
        Some((wrong, id))
    }

    /// Corrects the entry of a group in the agenda of an execution.
    pub fn mend_agenda(&mut self, execution: &[u8], slot: u32) {
        let mut asked = std::mem::take(&mut self.asked);
        if let Some(agenda) = asked.agendas.get_mut(execution) {
            agenda.set(slot, None, (NO_GATE, 0));
        }
        self.look_for(&mut asked, slot, Some(execution));
        if let Some(agenda) = asked.agendas.get_mut(execution)
            && let Some((_, gate)) = agenda.places.get(&slot)
            && let Some(at) = agenda.gated.get(gate).and_then(|gated| gated.at)
        {
            agenda.order.insert((at, *gate, 0));
        }
        self.asked = asked;
    }

    /// Changes the entry of a group in the agenda of an execution to a time; `None` removes it.
    #[cfg(test)]
    pub fn damage_agenda(&mut self, execution: &[u8], id: &[u8], at: Option<Millis>) {
        self.update_agendas();
        let slot = self.groups.find(id).expect("a group");
        let agenda = self.asked.agendas.get_mut(execution).expect("an agenda");
        let gate = agenda.places.get(&slot).map_or(NO_GATE, |(_, gate)| *gate);
        let opens = agenda.gated.get(&gate).map_or(0, |gated| gated.opens);
        agenda.set(slot, at, (gate, opens));
    }

    /// Drops all agendas.
    pub fn forget_agendas(&mut self) {
        if !self.asked.agendas.is_empty() {
            self.asked = Asked::default();
            self.groups.watch(false);
        }
    }

    /// Updates the agendas for the groups that this command changed and that are still open. To examine them
    /// later, they would have to be decoded again.
    pub(super) fn update_agendas_for_open(&mut self) {
        let mut asked = std::mem::take(&mut self.asked);
        for slot in self.groups.take_watched_open() {
            self.look_for(&mut asked, slot, None);
        }
        self.asked = asked;
    }

    /// Updates the agendas for the groups and gates that changed.
    pub(super) fn update_agendas(&mut self) {
        let turned = self.known.limits.take_turned_for_agendas();
        if self.asked.agendas.is_empty() {
            return;
        }
        let mut asked = std::mem::take(&mut self.asked);
        for slot in self.groups.take_watched() {
            self.look_for(&mut asked, slot, None);
        }
        match turned {
            Turned::Some(ids) => {
                for slot in ids.iter().filter_map(|id| self.groups.find(id)) {
                    self.look_for(&mut asked, slot, None);
                }
            }
            // The next search examines all groups again, in slices.
            Turned::Many => {
                let agendas = asked.agendas.values_mut();
                agendas.for_each(|agenda| agenda.next = Some(0));
            }
        }
        for gate in std::mem::take(&mut asked.changed) {
            let opens = self.opens(&gate);
            let number = asked.number_of(&gate);
            for agenda in asked.agendas.values_mut() {
                agenda.open(number, opens);
            }
        }
        self.asked = asked;
    }

    /// Returns the time when a shared gate opens.
    fn opens(&self, gate: &[u8]) -> Millis {
        let hash = self.small.hashes.get(&[GATE.before, gate].concat()[..]);
        let opens = hash.and_then(|hash| hash.get(OPENS));
        opens.and_then(|text| parse_unsigned(text)).unwrap_or(0)
    }

    /// Updates the time of a group in the agenda of one execution or, with `None`, in all agendas.
    fn look_for(&self, asked: &mut Asked, slot: u32, only: Option<&[u8]>) {
        if self.groups.id(slot).is_empty() {
            return;
        }
        let mut group = self.groups.look(slot, |open| open.record.group.clone());
        group.away = self.away(self.groups.id(slot));
        let gate = match &group.options.gate[..] {
            b"" => (NO_GATE, 0),
            gate => (asked.number_of(gate), self.opens(gate)),
        };
        let reached = self.known.limits.reached(self.groups.id(slot));
        let set = |agenda: &mut Agenda, execution: &[u8], kept: &Kept<'_>| {
            let (queued, is_held) = kept.due_for(execution);
            let at = group.leasable_from(queued, is_held);
            agenda.set(slot, at.filter(|_| !reached.has(execution)), gate);
        };
        let agendas = &mut asked.agendas;
        let looked_at = self.look_at_kept(slot, |kept| {
            if let Some(execution) = only {
                if let Some(agenda) = agendas.get_mut(execution) {
                    set(agenda, execution, kept);
                }
            } else if agendas.len() <= FEW || agendas.len() <= kept.executions().count() {
                for (execution, agenda) in agendas.iter_mut() {
                    set(agenda, execution, kept);
                }
            } else {
                // The agendas of executions without URIs in the group are not updated here: a
                // search removes the group from them.
                for share in kept.executions() {
                    if let Some(agenda) = agendas.get_mut(share.id) {
                        set(agenda, share.id, kept);
                    }
                }
            }
        });
        if looked_at.is_none() && agendas.len() <= FEW {
            for agenda in agendas.values_mut() {
                agenda.set(slot, None, gate);
            }
        }
    }
}
