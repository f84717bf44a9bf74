//! The URIs of a group, in the form that the rules use.
//!
//! In a packed frontier, [`Uris`] contains numbers of executions and compressed URIs. This module
//! translates them to the names and URIs that clients use.

use std::borrow::Cow;

use super::{Leased, Position, Queued, Share, Stock, Uris};
use crate::chg::time::Millis;

/// Translates between stored forms and the names and URIs that clients use.
pub trait Words {
    /// Returns the name of an execution.
    fn execution<'a>(&'a self, stored: &'a [u8]) -> &'a [u8];
    /// Returns the stored form of an execution, or `None` if the execution is unknown.
    fn stored<'a>(&'a self, execution: &'a [u8]) -> Option<Cow<'a, [u8]>>;
    /// Returns the URI that a stored form represents.
    fn uri<'a>(&'a self, stored: &'a [u8]) -> Cow<'a, [u8]>;
    /// Returns the stored form of a URI.
    fn stored_uri<'a>(&'a self, uri: &'a [u8]) -> Cow<'a, [u8]>;
}

/// The translation for names and URIs that are stored verbatim.
pub struct Verbatim;

impl Words for Verbatim {
    fn execution<'a>(&'a self, stored: &'a [u8]) -> &'a [u8] {
        stored
    }

    fn stored<'a>(&'a self, execution: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        Some(Cow::Borrowed(execution))
    }

    fn uri<'a>(&'a self, stored: &'a [u8]) -> Cow<'a, [u8]> {
        Cow::Borrowed(stored)
    }

    fn stored_uri<'a>(&'a self, uri: &'a [u8]) -> Cow<'a, [u8]> {
        Cow::Borrowed(uri)
    }
}

/// The URIs of a group.
#[derive(Clone, Copy)]
pub struct Kept<'a> {
    uris: &'a Uris,
    words: &'a dyn Words,
}

impl<'a> Kept<'a> {
    /// Creates a view of URIs that are stored verbatim.
    pub fn verbatim(uris: &'a Uris) -> Kept<'a> {
        Kept::new(uris, &Verbatim)
    }

    /// Creates a view of URIs that are stored in a different form.
    pub fn new(uris: &'a Uris, words: &'a dyn Words) -> Kept<'a> {
        Kept { uris, words }
    }

    /// See [`Uris::len`].
    pub fn len(&self) -> u64 {
        self.uris.len()
    }

    /// See [`Uris::is_empty`].
    pub fn is_empty(&self) -> bool {
        self.uris.is_empty()
    }

    /// See [`Uris::count_of`].
    pub fn count_of(&self, execution: &[u8]) -> u64 {
        let stored = self.words.stored(execution);
        stored.map_or(0, |stored| self.uris.count_of(&stored))
    }

    /// See [`Uris::due_for`].
    pub fn due_for(&self, execution: &[u8]) -> (Option<Millis>, bool) {
        let stored = self.words.stored(execution);
        stored.map_or((None, false), |stored| self.uris.due_for(&stored))
    }

    /// See [`Uris::pick`].
    pub fn pick(&self, now: Millis, paused: &dyn Fn(&[u8]) -> bool) -> Option<&'a [u8]> {
        let words = self.words;
        let next = self.uris.pick(now, &|id| paused(words.execution(id)))?;
        Some(words.execution(next))
    }

    /// See [`Uris::earliest`].
    pub fn earliest(&self) -> Option<Millis> {
        self.uris.earliest()
    }

    /// See [`Uris::stock`].
    pub fn stock(&self) -> Stock {
        self.uris.stock()
    }

    /// See [`Uris::earliest_of`].
    pub fn earliest_of(&self, paused: &dyn Fn(&[u8]) -> bool) -> Option<Millis> {
        let words = self.words;
        self.uris.earliest_of(&|id| paused(words.execution(id)))
    }

    /// Returns a leased URI.
    pub fn uri_of(&self, leased: &Leased<'a>) -> Vec<u8> {
        self.words.uri(leased.stored).into_owned()
    }

    /// See [`Uris::leased`].
    pub fn leased(&self, token: u64) -> Option<Leased<'a>> {
        self.uris.leased(token).map(|leased| self.spell(leased))
    }

    /// Returns all URIs of a lease.
    pub fn leased_under(&self, token: u64) -> impl Iterator<Item = Leased<'a>> {
        self.leases().filter(move |leased| leased.token == token)
    }

    /// See [`Uris::leases`].
    pub fn leases(&self) -> impl Iterator<Item = Leased<'a>> {
        self.uris.leases().map(|leased| self.spell(leased))
    }

    /// Returns the tokens of all leases, in the order in which they were leased.
    pub fn tokens(&self) -> impl Iterator<Item = u64> {
        self.uris.leases().map(|leased| leased.token)
    }

    fn spell(&self, leased: Leased<'a>) -> Leased<'a> {
        Leased {
            execution: self.words.execution(leased.execution),
            ..leased
        }
    }

    /// See [`Uris::executions`].
    pub fn executions(&self) -> impl Iterator<Item = Share<'a>> {
        self.executions_from(0)
    }

    /// Returns true if there are many executions.
    pub(in crate::chg) fn is_crowd(&self) -> bool {
        self.uris.is_crowd()
    }

    /// See [`Uris::executions_from`].
    pub fn executions_from(&self, number: u64) -> impl Iterator<Item = Share<'a>> {
        let words = self.words;
        self.uris.executions_from(number).map(|share| Share {
            id: words.execution(share.id),
            ..share
        })
    }

    /// See [`Uris::batch`].
    pub fn batch(&self, limit: usize) -> Vec<Queued> {
        self.page(Position::default(), limit).0
    }

    /// See [`Uris::page`].
    pub fn page(&self, from: Position, limit: usize) -> (Vec<Queued>, Option<Position>) {
        let (page, next) = self.uris.page(from, limit);
        let page = page.into_iter().map(|queued| Queued {
            execution: self.words.execution(&queued.execution).to_vec(),
            uri: self.words.uri(&queued.uri).into_owned(),
            ..queued
        });
        (page.collect(), next)
    }

    /// See [`Uris::encode`].
    pub fn encode(&self, chunk_bytes: usize, each: &mut dyn FnMut(&[u8])) {
        self.uris.encode_in(self.words, chunk_bytes, each);
    }

    /// Returns the due time of a URI that is queued or leased.
    pub fn due_of(&self, execution: &[u8], uri: &[u8]) -> Option<Millis> {
        let stored = self.words.stored(execution)?;
        self.uris.due_of(&stored, &self.words.stored_uri(uri))
    }

    /// Returns the URIs that [`super::Op::Drop`] would remove.
    pub fn dropped_by(&self, execution: &[u8], limit: u64) -> Vec<Vec<u8>> {
        let Some(stored) = self.words.stored(execution) else {
            return Vec::new();
        };
        let uris = self.uris.dropped_by(&stored, limit);
        let uris = uris
            .into_iter()
            .map(|uri| self.words.uri(&uri).into_owned());
        uris.collect()
    }

    /// See [`Uris::contains`].
    pub fn contains(&self, execution: &[u8], uri: &[u8]) -> bool {
        let stored = self.words.stored(execution);
        stored.is_some_and(|stored| {
            self.uris.contains(&stored, &self.words.stored_uri(uri))
                || self.uris.has_raw(&stored, uri)
        })
    }
}
