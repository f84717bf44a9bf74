//! Releases of leases, and extensions of their deadlines.

use super::Token;
use super::discover::{has_space, set_extra, url_of};
use super::error::{Error, Result};
use super::frontier::Frontier;
use super::groups::{Groups, Loaded};
use super::keys::Keys;
use super::known::Extra;
use super::later::Later;
use super::next::{Lease, leased_uris};
use super::outcome::CountChange;
pub use super::outcome::Fate;
use super::past::Past;
pub use super::politeness::When;
use super::store::{Store, check_packed};
use super::time::Millis;
use super::transition::{End, Event, Placement, Seen};
use super::uris::Stock;

/// The reply to a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseReply {
    /// The lease was released. Contains the due time of the group.
    Released(Millis),
    /// The lease was released before. Contains the reply to the first release, and the lease that
    /// was granted with that release, if this lease is still held.
    Before(Millis, Option<Lease>),
}

impl<K: Store> Frontier<K> {
    /// Releases a lease after a fetch.
    ///
    /// The caller must then call [`Frontier::keep_next`] or `Groups::write_back` to write the
    /// group.
    ///
    /// # Errors
    /// `NOCHG` if the group is unknown, `STALE` if the lease of the token is not held, `ERR` if the
    /// leased URI belongs to another execution. After an error, nothing has changed.
    pub fn release(
        &mut self,
        ks: &mut K,
        id: &[u8],
        token: Token,
        when: &When,
        fate: &Fate<'_>,
        now: Millis,
    ) -> Result<ReleaseReply> {
        ks.packed(|packed| packed.set_clock(now))?;
        let mut loaded = self.groups.load_leased(ks, id)?;
        let uncounted = loaded.missing.get() > 0;
        if uncounted {
            self.groups.find_leases(ks, &mut loaded, now)?;
        }
        if matches!(fate, Fate::Later(_)) {
            check_packed(ks)?;
        }
        if loaded.group.hold(token, now).is_none() {
            let later = self.later.of(ks, id, token)?;
            let has_freed = later.is_some_and(|deadline| deadline > now);
            let before = released_before(
                (&self.keys, &self.later, &self.groups, &self.past),
                ks,
                &loaded,
                token,
                now,
            );
            let is_again = before.is_ok() && matches!(fate, Fate::Later(_));
            if has_freed && !is_again {
                return Err(Error::Argument(format!(
                    "lease {token} has already freed group '{}'; finish its URIs with CHG.DONE or CHG.SETTLE; nothing was changed",
                    crawlspace_host::text::Shown(id)
                )));
            }
            return before;
        }
        if *when == When::Stored && loaded.group.options.delay.is_none() {
            return Err(Error::Argument(format!(
                "no delay is stored for group '{}': pass AT, DELAY or ELAPSED, or store a delay with CHG.LIMIT ... DELAY; nothing was changed",
                crawlspace_host::text::Shown(id)
            )));
        }
        let mut change = self.outcomes().change_for(ks, &loaded, token, fate)?;
        let payload = new_payload(&self.groups, ks, &loaded, token, fate)?;
        self.placing()
            .check_gate(ks, &loaded.group.options.gate.clone())?;
        if uncounted {
            self.placing().reclaim(ks, &mut loaded, now)?;
            // The execution has more URIs now, so compute the change again.
            change = self.outcomes().change_for(ks, &loaded, token, fate)?;
        }

        if let Some(status) = when.status()
            && !matches!(fate, Fate::Done { .. })
        {
            self.groups.store_status(ks, &loaded, token, status)?;
        }
        let (done, stock) = self
            .outcomes()
            .settle(ks, &loaded, &change, when.status())?;
        if let Some((execution, url, extra)) = payload {
            let extra = Extra {
                url: extra.0.as_deref(),
                payload: Some(extra.1),
            };
            set_extra(ks, id, (&execution, &url), extra)?;
        }
        let counted = matches!(change, CountChange::Nothing);
        let end = End {
            token,
            when,
            rounding: self.rounding,
            done,
            counted,
            retry: match fate {
                Fate::Retry(at, _) if counted => Some(*at),
                _ => None,
            },
        };
        let mut seen = Seen::at(now, stock);
        seen.away = match fate {
            Fate::Later(_) => self.groups.count_away(ks, &loaded, &[token])?,
            _ => self.groups.away_without(ks, &loaded, &[token])?,
        };
        let step = loaded.group.on(Event::Released(end), &seen);
        if let Fate::Later(ms) = *fate {
            let deadline = now + ms;
            self.later.set(ks, id, token, deadline)?;
            self.drops
                .extend(ks, &self.groups, &loaded, token, deadline, now)?;
            self.groups.clear_ended(ks, &loaded)?;
        }
        let due = loaded.group.last.map_or(now, |last| last.due);
        self.placing().place(ks, &mut loaded, &step, now)?;
        self.figures.releases += 1;
        let is_kept =
            step.placement != Placement::Retire || self.placing().retire(ks, &mut loaded, now)?;
        if is_kept {
            self.placing().save_later(ks, loaded)?;
        }
        Ok(ReleaseReply::Released(due))
    }

    /// Stores the lease that was granted with a release, for a retry of that release.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; any server error.
    pub fn keep_next(&mut self, ks: &mut K, id: &[u8], token: Token, next: &Lease) -> Result<()> {
        let mut loaded = match self.groups.take_unsaved(id) {
            Some(released) => released,
            None => self.groups.load(ks, id)?,
        };
        match &mut loaded.group.last {
            Some(last) if last.token == token => {
                last.next = next.token;
                let keys = self.keys.clone();
                self.placing()
                    .save_with(ks, &loaded, Some((&keys.fields.next, &next.chg)))
            }
            _ => (self.past).keep_next(ks, id, token, (next.token, &next.chg)),
        }
    }

    /// Extends a lease. Returns the new deadline.
    ///
    /// # Errors
    /// `NOCHG` and `STALE`, as in a release. After an error, nothing has changed.
    pub fn extend(
        &mut self,
        ks: &mut K,
        id: &[u8],
        token: Token,
        ms: Millis,
        now: Millis,
    ) -> Result<Millis> {
        let later = self.later.of(ks, id, token)?;
        if later.is_some_and(|deadline| deadline > now) {
            self.later.set(ks, id, token, now + ms)?;
            return Ok(now + ms);
        }
        let mut loaded = self.groups.known(ks, id)?;
        if loaded.missing.get() > 0 {
            self.groups.find_leases(ks, &mut loaded, now)?;
        }
        if loaded.group.hold(token, now).is_none() {
            return Err(Error::Stale(id.to_vec(), token));
        }
        self.placing()
            .check_gate(ks, &loaded.group.options.gate.clone())?;
        self.placing().reclaim(ks, &mut loaded, now)?;
        let deadline = now + ms;
        let seen = Seen::at(now, Stock::default());
        let extended = Event::Extended { token, deadline };
        let step = loaded.group.on(extended, &seen);
        self.placing().apply(ks, &mut loaded, &step, now)?;
        self.drops
            .extend(ks, &self.groups, &loaded, token, deadline, now)?;
        Ok(deadline)
    }
}

impl<K: Store> Groups<K> {
    /// Returns the value of [`super::group::Group::away`] after these leases have ended, or `None` if it
    /// cannot change.
    pub(super) fn away_without(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        ended: &[Token],
    ) -> Result<Option<u64>> {
        if loaded.group.away == 0 {
            return Ok(None);
        }
        self.count_away(ks, loaded, ended)
    }

    /// Computes [`super::group::Group::away`] after these leases have ended.
    pub(super) fn count_away(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        ended: &[Token],
    ) -> Result<Option<u64>> {
        let group = &loaded.group;
        let away = self.kept(ks, loaded, |uris| {
            let leases = || uris.leases().filter(|leased| !leased.dropped);
            let holds = group.holds.iter().map(|hold| hold.token);
            let one_each = holds
                .filter(|token| !ended.contains(token))
                .filter(|&token| leases().any(|leased| leased.token == token));
            leases().count() - one_each.count()
        })?;
        Ok(Some(away.unwrap_or(0) as u64))
    }
}

/// Execution and name of a URI, and its new additional data; see [`new_payload`].
type NewPayload<'a> = (Vec<u8>, Vec<u8>, (Option<Vec<u8>>, &'a [u8]));

/// Returns the leased URI whose payload a release replaces: execution, name, URL if the name is a key,
/// and payload.
///
/// # Errors
/// `KNOWN` if the frontier cannot store a payload for it.
fn new_payload<'f, K: Store>(
    groups: &Groups<K>,
    ks: &mut K,
    loaded: &Loaded<K>,
    token: Token,
    fate: &Fate<'f>,
) -> Result<Option<NewPayload<'f>>> {
    let Fate::Retry(_, Some(payload)) = *fate else {
        return Ok(None);
    };
    check_packed(ks)?;
    let key = groups.uris_of(ks, loaded);
    let leased = ks.uris(key, |uris| {
        let leased = uris.leased(token)?;
        let name = uris.uri_of(&leased);
        Some((leased.execution.to_vec(), name, leased.dropped))
    })?;
    let of = match leased.flatten() {
        // The URL is not in the lease any more.
        Some((_, _, true)) => return Ok(None),
        Some((execution, name, _)) if has_space(ks, &execution)? => (execution, name),
        _ => {
            return Err(Error::Known(
                "PAYLOAD needs a URL that CHG.DISCOVER queued, but this lease has none".to_owned(),
            ));
        }
    };
    let url = url_of(ks, &loaded.id, (&of.0, &of.1))?;
    Ok(Some((of.0, of.1, (url, payload))))
}

/// Returns a lease that is held, in the form in which it was granted.
fn lease_of<K: Store>(
    (later, groups): (&Later<K>, &Groups<K>),
    ks: &mut K,
    id: &[u8],
    token: Token,
    now: Millis,
) -> Result<Option<Lease>> {
    if token == 0 {
        return Ok(None);
    }
    let loaded = groups.load(ks, id)?;
    let deadline = match loaded.group.hold(token, now) {
        Some(hold) => Some(hold.deadline),
        None => later.of(ks, id, token)?.filter(|&deadline| deadline > now),
    };
    let Some(deadline) = deadline else {
        return Ok(None);
    };
    let (execution, items) = leased_uris(groups, ks, &loaded, token)?.unwrap_or_default();
    Ok(Some(Lease {
        chg: id.to_vec(),
        token,
        deadline,
        due: loaded.group.due,
        uris: loaded.group.uris,
        execution: (!items.is_empty()).then_some(execution),
        items,
    }))
}

/// Replies to a release whose lease is not held: the lease was released before, expired, or never
/// existed.
fn released_before<K: Store>(
    (keys, later, groups, past): (&Keys<K>, &Later<K>, &Groups<K>, &Past<K>),
    ks: &mut K,
    loaded: &Loaded<K>,
    token: Token,
    now: Millis,
) -> Result<ReleaseReply> {
    let last = loaded.group.last.filter(|last| last.token == token);
    let found = match last {
        Some(last) => {
            let next = match last.next {
                0 => None,
                _ => ks.hash_get(&loaded.key, keys.fields.next.as_ref())?,
            };
            let next = next.map_or_else(Vec::new, |next| next.as_ref().to_vec());
            Some((last, next))
        }
        // The group was deleted. It may have been created again, but has not been leased since
        // then.
        None if loaded.group.holds.is_empty() && loaded.group.last.is_none() => {
            past.find(ks, &loaded.id, token)?
        }
        None => None,
    };
    match found {
        Some((last, next)) => {
            let lease = lease_of((later, groups), ks, &next, last.next, now)?;
            Ok(ReleaseReply::Before(last.due, lease))
        }
        None if !loaded.group.known => Err(Error::NoChg(loaded.id.to_vec())),
        None => Err(Error::Stale(loaded.id.to_vec(), token)),
    }
}
