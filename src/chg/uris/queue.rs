//! The queued URIs of a group, in order.

use std::collections::BTreeMap;

/// Where a URI stands in the queue: by execution, then depth, then due time, then order of adding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Number of its execution.
    pub(super) execution: u64,
    pub(super) depth: u32,
    pub(super) due: u64,
    /// Order of adding; no two URIs of a group have the same.
    pub(super) seq: u64,
}

impl Place {
    /// The lowest place of an execution.
    pub(super) fn first_of(execution: u64) -> Place {
        Place {
            execution,
            depth: 0,
            due: 0,
            seq: 0,
        }
    }
}

/// A queued URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) place: Place,
    pub(super) attempts: u32,
    pub(super) uri: &'a [u8],
}

#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    all: BTreeMap<Place, (u32, Box<[u8]>)>,
}

impl Queue {
    pub(super) fn len(&self) -> u64 {
        self.all.len() as u64
    }

    /// Where a URI stands.
    pub(super) fn find(&self, execution: u64, uri: &[u8]) -> Option<Place> {
        self.all
            .iter()
            .find(|(place, (_, known))| place.execution == execution && **known == *uri)
            .map(|(place, _)| *place)
    }

    /// Puts a URI in that is not there. False when its place is taken.
    pub(super) fn insert(&mut self, record: Record<'_>) -> bool {
        if self.all.contains_key(&record.place) {
            return false;
        }
        self.all
            .insert(record.place, (record.attempts, record.uri.into()));
        true
    }

    /// Takes out the URI at a place.
    pub(super) fn remove(&mut self, place: Place) -> Option<(u32, Box<[u8]>)> {
        self.all.remove(&place)
    }

    /// The first place that is taken, from this one on.
    pub(super) fn first_from(&self, place: Place) -> Option<Place> {
        self.all.range(place..).next().map(|(place, _)| *place)
    }

    /// Goes through URIs in order, from the first one at or after a place, until told to stop by
    /// `false`.
    pub(super) fn walk(&self, from: Place, each: &mut dyn FnMut(Record<'_>) -> bool) {
        for (&place, (attempts, uri)) in self.all.range(from..) {
            let record = Record {
                place,
                attempts: *attempts,
                uri,
            };
            if !each(record) {
                return;
            }
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.all.len() * 160
    }

    /// How many pieces of memory there are to free.
    pub(super) fn pieces(&self) -> usize {
        self.all.len()
    }
}
