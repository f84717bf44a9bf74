//! Leases with a second deadline. The group of such a lease is free again, but the holder of the token
//! keeps the URIs until the second deadline.
//!
//! The sorted set `chg_later` contains these leases, sorted by the second deadline. A lease whose URIs have all
//! ended stays in the set until that deadline, so that `CHG.DONE` can be sent again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::rc::Rc;

use super::Token;
use super::discover::knows_urls;
use super::error::{Error, Result};
use super::frontier::Frontier;
use super::group::Id;
use super::groups::{Groups, Loaded};
use super::keys::Keys;
use super::outcome::other_execution;
use super::store::{Store, check_packed};
use super::time::{Millis, of_score};
use super::transition::{Event, Seen};
use super::uris::{Changed, End, Op};

/// Maximum number of leases that one command ends at their second deadline, in addition to its own
/// work.
const MAX_ENDED: usize = 4;

/// Returns the member of `chg_later` for a lease.
pub(super) fn member(token: Token, chg: &[u8]) -> Id {
    let mut member = Id::from_slice(&token.to_be_bytes());
    member.extend_from_slice(chg);
    member
}

/// Returns the token and the group of a member of `chg_later`.
pub(super) fn parts(member: &[u8]) -> Option<(Token, &[u8])> {
    let (token, chg) = member.split_first_chunk()?;
    Some((Token::from_be_bytes(*token), chg))
}

/// The sorted set `chg_later`.
pub(super) struct Later<K: Store> {
    keys: Rc<Keys<K>>,
}

impl<K: Store> Later<K> {
    pub(super) fn new(keys: Rc<Keys<K>>) -> Later<K> {
        Later { keys }
    }

    fn is_empty(ks: &mut K) -> Result<bool> {
        Ok(ks.packed(|packed| packed.has_later())? != Some(true))
    }

    /// Returns the second deadline of a lease whose group was freed, even if it has passed.
    pub(super) fn of(&self, ks: &mut K, chg: &[u8], token: Token) -> Result<Option<Millis>> {
        if Self::is_empty(ks)? {
            return Ok(None);
        }
        let score = ks.zset_score(&self.keys.once.later, &member(token, chg))?;
        Ok(score.map(of_score))
    }

    /// Returns the last second deadline of the leases on URIs of an execution that have freed a group.
    pub(super) fn last_of(
        &self,
        ks: &mut K,
        groups: &Groups<K>,
        loaded: &Loaded<K>,
        execution: &[u8],
    ) -> Result<Option<Millis>> {
        let leases = self.leases((ks, groups), loaded, Some(execution), usize::MAX)?;
        Ok(leases.into_iter().map(|(_, deadline)| deadline).max())
    }

    /// Returns the tokens and the second deadlines of the leases that have freed a group but still have URIs. If an
    /// execution is given, returns only leases on its URIs. Examines at most `most` leased URIs.
    pub(super) fn leases(
        &self,
        (ks, groups): (&mut K, &Groups<K>),
        loaded: &Loaded<K>,
        only: Option<&[u8]>,
        most: usize,
    ) -> Result<Vec<(Token, Millis)>> {
        let mut found = Vec::new();
        if Self::is_empty(ks)? {
            return Ok(found);
        }
        let tokens = groups.kept(ks, loaded, |uris| {
            let is_wanted = |execution| only.is_none_or(|only| execution == only);
            let own = uris.leases().filter(|leased| is_wanted(leased.execution));
            let tokens = own.map(|leased| leased.token).take(most);
            tokens.collect::<BTreeSet<_>>()
        })?;
        for token in tokens.unwrap_or_default() {
            let deadline = self.of(ks, &loaded.id, token)?;
            found.extend(deadline.map(|deadline| (token, deadline)));
        }
        Ok(found)
    }

    /// Sets the second deadline of a lease.
    pub(super) fn set(&self, ks: &mut K, chg: &[u8], token: Token, deadline: Millis) -> Result<()> {
        let key = &self.keys.once.later;
        Ok(ks.zset_add(key, &member(token, chg), deadline as f64)?)
    }

    /// Returns the earliest of the second deadlines.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    pub(super) fn first_deadline(&self, ks: &mut K) -> Result<Option<Millis>> {
        Ok(self.member_at(ks, 0)?.map(|(_, deadline)| deadline))
    }

    /// Returns the group, the token and the second deadline of the lease at this rank, in the order of second
    /// deadlines.
    pub(super) fn at(&self, ks: &mut K, rank: u64) -> Result<Option<(Id, Token, Millis)>> {
        let member = self.member_at(ks, rank)?;
        Ok(member.map(|(member, deadline)| {
            let (token, chg) = parts(member.as_ref()).unwrap_or_default();
            (Id::from_slice(chg), token, deadline)
        }))
    }

    /// Returns the member of `chg_later` at this rank, and its second deadline.
    fn member_at(&self, ks: &mut K, rank: u64) -> Result<Option<(K::Value, Millis)>> {
        if Self::is_empty(ks)? {
            return Ok(None);
        }
        let found = ks.zset_at(&self.keys.once.later, rank)?;
        Ok(found.map(|(member, deadline)| (member, of_score(deadline))))
    }

    /// Removes the first lease whose second deadline has passed, and returns its member and deadline.
    fn take_ended(&self, ks: &mut K, now: Millis) -> Result<Option<(Id, Millis)>> {
        let first = self.member_at(ks, 0)?;
        let Some((first, deadline)) = first.filter(|(_, deadline)| *deadline <= now) else {
            return Ok(None);
        };
        let first = Id::from_slice(first.as_ref());
        ks.zset_del(&self.keys.once.later, &first)?;
        Ok(Some((first, deadline)))
    }
}

impl<K: Store> Frontier<K> {
    /// Ends some leases whose second deadline has passed. Returns false if there was no such lease.
    pub(super) fn end_some_later(&mut self, ks: &mut K, now: Millis) -> Result<bool> {
        for ended in 0..MAX_ENDED {
            let Some((first, deadline)) = self.later.take_ended(ks, now)? else {
                return Ok(ended > 0);
            };
            if let Some((token, chg)) = parts(&first) {
                self.end_later(ks, (chg, token), deadline, now)?;
            }
        }
        Ok(true)
    }

    /// Puts the URIs of a lease whose second deadline has passed back into the queue, or gives them up.
    fn end_later(
        &mut self,
        ks: &mut K,
        (chg, token): (&[u8], Token),
        deadline: Millis,
        now: Millis,
    ) -> Result<()> {
        let mut loaded = self.groups.load(ks, chg)?;
        let uris = self
            .groups
            .kept(ks, &loaded, |uris| uris.leased_under(token).count())?;
        let mut given_up = 0;
        for _ in 0..uris.unwrap_or(0) {
            let attempts = self.attempts;
            let report = self
                .outcomes()
                .end_attempt(ks, &loaded, token, 1, attempts)?;
            if !report.counts {
                continue;
            }
            given_up += u64::from(report.given_up);
            self.figures.expired += 1;
            self.figures.reports_dropped += self.reports.keep(ks, &report)?;
        }
        if uris.unwrap_or(0) == 0 {
            return Ok(());
        }
        let mut seen = Seen::at(now, self.groups.stock(ks, &loaded)?);
        seen.opens = self.gates.opens(ks, &loaded)?;
        seen.away = self.groups.away_without(ks, &loaded, &[])?;
        let since = deadline;
        let step = loaded.group.on(Event::Back { given_up, since }, &seen);
        self.placing().apply(ks, &mut loaded, &step, now)
    }

    /// Marks URIs of a lease as done: the URIs in `names`, or all URIs if `names` is `None`. Returns the
    /// number of URIs that were marked.
    ///
    /// # Errors
    /// `PLAIN` if the frontier is not packed, `NOCHG` if the group is unknown, `STALE` if the lease has ended, `ERR` if its
    /// URIs belong to another execution. After an error, nothing has changed.
    pub fn done(
        &mut self,
        ks: &mut K,
        (chg, token): (&[u8], Token),
        execution: &[u8],
        names: Option<&[&[u8]]>,
        now: Millis,
    ) -> Result<u64> {
        check_packed(ks)?;
        self.evict_idle(ks, now)?;
        let loaded = self.groups.load(ks, chg)?;
        let later = self.later.of(ks, chg, token)?;
        let is_held = loaded.group.hold(token, now).is_some();
        if !is_held && later.is_none_or(|deadline| deadline <= now) {
            // A group is deleted with its last URI, but clients may still send tokens of the group until
            // the deadline of the lease.
            return Err(if loaded.group.known {
                Error::Stale(chg.to_vec(), token)
            } else {
                Error::NoChg(chg.to_vec())
            });
        }
        let leased = self.groups.kept(ks, &loaded, |uris| {
            let own = uris.leased(token).map(|leased| leased.execution.to_vec());
            let held = uris
                .leased_under(token)
                .filter(|leased| !leased.dropped)
                .map(|leased| uris.uri_of(&leased));
            (own, held.collect::<Vec<_>>())
        })?;
        let (own, mut held) = leased.unwrap_or_default();
        if let Some(own) = own.filter(|own| *own != execution) {
            return Err(other_execution(&own, execution));
        }
        if let Some(names) = names {
            let names: HashSet<&[u8]> = names.iter().copied().collect();
            held.retain(|uri| names.contains(&uri[..]));
        }
        let mut first = Some(loaded);
        for uri in &held {
            let end = Op::End {
                execution,
                uri,
                end: End::default(),
            };
            let loaded = first.take().map_or_else(|| self.groups.load(ks, chg), Ok)?;
            self.end_loaded(ks, loaded, (execution, &end), now)?;
        }
        Ok(held.len() as u64)
    }
}

impl<K: Store> Groups<K> {
    /// Stores the status of a fetch whose URIs are not done yet.
    pub(super) fn store_status(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        token: Token,
        status: u16,
    ) -> Result<()> {
        if !knows_urls(ks)? {
            return Ok(());
        }
        let leased = self.kept(ks, loaded, |uris| {
            let under = uris.leased_under(token).filter(|leased| !leased.dropped);
            let names = under.map(|leased| (leased.execution.to_vec(), uris.uri_of(&leased)));
            names.collect::<Vec<_>>()
        })?;
        for (execution, name) in leased.unwrap_or_default() {
            ks.packed(|packed| packed.set_status(&execution, &name, &loaded.id, status))?;
        }
        Ok(())
    }

    /// Removes leases that have freed the group and have no URIs any more, because no release of these leases follows.
    pub(super) fn clear_ended(&self, ks: &mut K, loaded: &Loaded<K>) -> Result<()> {
        if ks.packed(|packed| packed.has_later())? != Some(true) {
            return Ok(());
        }
        let held: Vec<Token> = loaded.group.holds.iter().map(|hold| hold.token).collect();
        let ended = self.kept(ks, loaded, |uris| {
            let mut tokens: BTreeMap<Token, bool> = BTreeMap::new();
            for leased in uris.leases() {
                *tokens.entry(leased.token).or_insert(true) &= leased.dropped;
            }
            let ended = tokens.into_iter().filter(|(_, is_over)| *is_over);
            let ended = ended.map(|(token, _)| token);
            ended
                .filter(|token| !held.contains(token))
                .collect::<Vec<_>>()
        })?;
        let key = self.uris_of(ks, loaded);
        for token in ended.unwrap_or_default() {
            while ks.change_uris(key, &Op::done(token))? != Changed::Nothing {}
        }
        Ok(())
    }
}
